package peers

import (
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/types"
)

// A Peer is a task of a job. Tasks of one job are peers of each other.
type Peer struct {
	// Index is its place among the members of the job.
	Index int
	Task  string
	// Phase, Node and Attempt are those of its status; Pending before the first binding.
	Phase   types.Phase
	Node    string
	Attempt int
	// Host is the host of its node, and Port its first port; empty and 0 if it has none, or if they
	// are not known.
	Host string
	Port int
}

// Address returns host:port: ":0" for a task without a node, and port 0 for one without a port.
func (p Peer) Address() string { return net.JoinHostPort(p.Host, strconv.Itoa(p.Port)) }

// maxText is the longest list of addresses in an environment, in bytes: Linux permits 128 KiB for
// one variable.
const maxText = 120 << 10

// Env returns what the environment of a task says of its job; nothing without a job. all are the
// tasks of the job; without them the environment lists no addresses. Of a large job all is the first
// task alone.
func Env(id string, t *types.Task, all []Peer) []string {
	if t == nil || t.Job == "" {
		return nil
	}
	env := []string{"ESCHER_JOB=" + t.Job}
	if t.Count > 0 {
		env = append(env, "ESCHER_INDEX="+strconv.Itoa(t.Index), "ESCHER_COUNT="+strconv.Itoa(t.Count))
	}
	own, n := slices.IndexFunc(all, func(p Peer) bool { return p.Task == id }), len(all)
	if n == 1 && t.Count > types.MaxPeers {
		own, n = t.Index, t.Count
	}
	if own < 0 {
		return env
	}
	if list := strings.Join(addresses(all), ","); n == len(all) && len(list) <= maxText {
		env = append(env, "ESCHER_PEERS="+list)
	}
	if all[0].Host != "" {
		env = append(env, "MASTER_ADDR="+all[0].Host)
	}
	if all[0].Port != 0 {
		env = append(env, "MASTER_PORT="+strconv.Itoa(all[0].Port))
	}
	return append(env, "NODE_RANK="+strconv.Itoa(own), "NNODES="+strconv.Itoa(n))
}

// Lines returns the file of addresses: one line for each task.
func Lines(all []Peer) string {
	var text strings.Builder
	for _, address := range addresses(all) {
		text.WriteString(address)
		text.WriteByte('\n')
	}
	return text.String()
}

func addresses(all []Peer) []string {
	out := make([]string, len(all))
	for i, p := range all {
		out[i] = p.Address()
	}
	return out
}

// hostOf returns the host of a node. An older agent registers none: then it is the host of the
// node's API or, if only its own machine reaches that, the name of the node.
func hostOf(name string, n *types.Node) string {
	if n.Host != "" {
		return n.Host
	}
	if u, err := url.Parse(n.Address); err == nil && u.Hostname() != "" {
		if ip := net.ParseIP(u.Hostname()); ip == nil || !ip.IsLoopback() {
			return u.Hostname()
		}
	}
	return name
}

// portOf returns the port of a task for its peers: the one of that name, or its first; 0 if it has
// none.
func portOf(b *types.Binding, spec *types.Spec) int {
	if len(spec.Ports) == 0 {
		return 0
	}
	numbers := spec.PortNumbers(b.Ports())
	if n, ok := numbers[types.PeerPort]; ok {
		return n
	}
	return numbers[spec.Ports[0].Name]
}
