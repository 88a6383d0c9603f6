//go:build linux

package dev

import (
	"fmt"
	"hash/fnv"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/api/oidc"
	"github.com/escher-sched/escher/esl/collect"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/devices"
	"github.com/escher-sched/escher/nodeagent/permits"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd/daemon"
	"github.com/escher-sched/escher/scheduler/search"
	"github.com/escher-sched/escher/types"
)

// MaxNodes is the most nodes on one machine.
const MaxNodes = 100

// PrivateContainerd as Config.Containerd always runs a containerd of the cluster.
const PrivateContainerd = "private"

// Config describes the cluster to run.
type Config struct {
	// Dir is the directory of the cluster, an absolute path.
	Dir Dir
	// Nodes is how many agents share the machine.
	Nodes int
	// Capacity is that of each node. Unnamed cpu and memory are all of the machine: the nodes share it.
	Capacity types.Requests
	// GPUs are the simulated GPUs of each node.
	GPUs devices.Simulated
	// Labels are those of each node, by its name.
	Labels map[string][]types.Label
	// Placement says which of the fitting nodes a task gets.
	Placement search.Choice
	// Collect configures how waiting gangs and tasks collect free capacity.
	Collect collect.Config
	// AllowMounts are the paths of this machine that tasks may mount.
	AllowMounts []nodeagent.AllowedMount
	// Permissions are the dangerous rights that tasks may request.
	Permissions permits.Permissions
	// Ops is a further address for metrics and health besides the socket in Dir, as host:port;
	// empty means none. Pprof adds profiles, on the socket only.
	Ops   string
	Pprof bool
	// API lists further addresses of the HTTP API besides the socket in Dir; APICert and APIKey are the
	// files of its certificate. See parts.RESTConfig.
	API             []string
	APICert, APIKey string
	// OIDC is the issuer at which users log in.
	OIDC oidc.Config
	// History is how long the history keeps ended tasks; 0 means no history.
	History time.Duration
	// Keep leaves containers running when the cluster stops.
	Keep bool
	// Containerd is the socket to use, which must serve; empty means that of the machine. If that
	// does not serve, and for PrivateContainerd, dev runs one.
	Containerd string
	// Logger is the program that writes the logs of tasks; see LoggerSubcommand.
	Logger string
	// Runtimes replaces containerd unless nil.
	Runtimes Runtimes
	// Version is the version that the agents report.
	Version string
	// Free returns the free bytes of a disk; nil asks the system.
	Free func(dir string) (int64, error)
	// Log logs events; Progress gets the progress of starting and stopping, in words for people.
	Log      *zap.Logger
	Progress func(format string, args ...any)
	// Ready is called once all nodes are alive.
	Ready func(Info)
}

// nodes returns the names of the nodes.
func (c Config) nodes() []string {
	names := make([]string, c.Nodes)
	for i := range names {
		names[i] = NodeName(i)
	}
	return names
}

// NodeName is the name of the i-th node.
func NodeName(i int) string { return fmt.Sprintf("node-%d", i+1) }

// Validate returns the errors of the nodes: Invalid.
func (c Config) Validate() error {
	if c.Nodes < 1 || c.Nodes > MaxNodes {
		return types.Errorf(types.Invalid, "nodes: %d is out of range: give 1 to %d", c.Nodes, MaxNodes)
	}
	if err := c.Capacity.Validate("capacity"); err != nil {
		return err
	}
	if err := c.Placement.Validate(); err != nil {
		return err
	}
	if err := c.Collect.Validate(); err != nil {
		return err
	}
	if _, err := oidc.New(c.OIDC, time.Now, c.Log); err != nil {
		return err
	}
	if c.History < 0 {
		return types.Errorf(types.Invalid, "history: %s is negative: give how long ended tasks are kept, or 0 to keep no history", c.History)
	}
	for _, r := range c.Capacity {
		if !types.IsPhysical(r.Name) {
			return types.Errorf(types.Invalid, "capacity: %q is not physical: set it with escher set-resource", r.Name)
		}
	}
	for node := range c.Labels {
		if !contains(c.nodes(), node) {
			return types.Errorf(types.Invalid, "label: %q is no node: name one of node-1 to node-%d", node, c.Nodes)
		}
	}
	return nil
}

// ports returns the ports of the i-th node. They overlap neither those of other nodes nor the
// ephemeral ports of the kernel. Clusters in different directories begin at different ports: tasks
// get the lowest free ones, and tasks of another cluster of the machine may listen there.
func (c Config) ports(i int) nodeagent.PortRange {
	const first, most, all = 20000, 1000, 10_000
	each := min(most, all/c.Nodes)
	h := fnv.New32a()
	_, _ = h.Write([]byte(c.Dir)) // a hash takes everything
	begin := first + i*each + int(h.Sum32())%(all-c.Nodes*each+1)
	return nodeagent.PortRange{First: begin, Last: begin + each - 1}
}

// daemon returns the configuration of containerd.
func (c Config) daemon() daemon.Config {
	address := c.Containerd
	switch address {
	case "":
		address = daemon.DefaultAddress
	case PrivateContainerd:
		address = ""
	}
	return daemon.Config{
		Address: address, Named: address != "" && address == c.Containerd,
		Dir: c.Dir.containerd(), Keep: c.Keep, Logger: c.Log,
	}
}

func contains(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return false
}
