package doctor

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/nodeagent"
)

// gatherNetwork collects the facts of the node's API, of ports and of names.
func gatherNetwork(ctx context.Context, h host, plan Plan, agent Agent, endpoints []string) Network {
	n := Network{Listening: listening(h), Remote: slices.ContainsFunc(endpoints, isRemote)}
	n.Hostname, _ = os.Hostname()
	for _, line := range h.lines("/etc/resolv.conf") {
		if server, ok := strings.CutPrefix(strings.TrimSpace(line), "nameserver"); ok {
			n.Nameservers = append(n.Nameservers, strings.TrimSpace(server))
		}
	}
	if plan.Listen != "" {
		n.gatherPort(ctx, plan, agent)
	}
	limits := strings.Fields(h.text("/proc/sys/net/ipv4/ip_local_port_range"))
	if len(limits) == 2 {
		n.LocalFirst, _ = strconv.Atoi(limits[0])
		n.LocalLast, _ = strconv.Atoi(limits[1])
	}
	n.Reserved = ranges(h.text("/proc/sys/net/ipv4/ip_local_reserved_ports"))
	n.Filters = append(h.lines("/proc/net/ip_tables_names"), h.lines("/proc/net/ip6_tables_names")...)
	slices.Sort(n.Filters)
	n.Filters = slices.Compact(n.Filters)
	for _, line := range h.lines("/proc/modules") {
		if strings.HasPrefix(line, "nf_tables ") {
			n.Filters = append(n.Filters, "nf_tables")
		}
	}
	if plan.TLSCert != "" {
		host, _, _ := net.SplitHostPort(plan.Address)
		c, err := readCertificate(ctx, plan.TLSCert, plan.TLSKey, host)
		if n.API = c; err != nil {
			n.CertificateError = err.Error()
		}
	}
	return n
}

// gatherPort finds out whether the node's API can be at its port.
func (n *Network) gatherPort(ctx context.Context, plan Plan, agent Agent) {
	if agent.Running {
		n.Answered, n.AnswerError = answers(ctx, plan)
	} else if l, err := net.Listen("tcp", plan.Listen); err != nil {
		n.ListenError = err.Error()
	} else {
		l.Close()
	}
	n.Local, n.Loopback = isLocal(plan.Address)
}

// answers reports whether the node's API answers.
func answers(ctx context.Context, plan Plan) (ok bool, why string) {
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	scheme := "http"
	if plan.TLSCert != "" {
		scheme = "https"
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+plan.Address+"/healthz", nil)
	if err != nil {
		return false, err.Error()
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: trusting(), DisableKeepAlives: true}}
	res, err := client.Do(req)
	if err != nil {
		return false, err.Error()
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return false, "it says " + res.Status
	}
	return true, ""
}

// isRemote reports whether an endpoint of etcd is on another machine.
func isRemote(endpoint string) bool {
	if strings.HasPrefix(endpoint, "unix:") {
		return false
	}
	if u, err := url.Parse(endpoint); err == nil && u.Host != "" {
		endpoint = u.Host
	}
	local, _ := isLocal(endpoint)
	return !local
}

// isLocal reports whether host:port is an address of this machine, and whether only this machine
// reaches it. It resolves no names except localhost.
func isLocal(address string) (local, loopback bool) {
	name, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, false
	}
	if name == "localhost" {
		return true, true
	}
	ip := net.ParseIP(name)
	if ip == nil {
		return false, false
	}
	if ip.IsLoopback() {
		return true, true
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false, false
	}
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		return ok && n.IP.Equal(ip)
	}), false
}

// listening returns the TCP ports with a listener, sorted.
func listening(h host) []int {
	const listen = "0A" // a state in /proc/net/tcp
	var ports []int
	for _, path := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		for _, line := range h.lines(path) {
			fields := strings.Fields(line)
			if len(fields) < 4 || fields[3] != listen {
				continue
			}
			_, port, _ := strings.Cut(fields[1], ":")
			if b, err := hex.DecodeString(port); err == nil && len(b) == 2 {
				ports = append(ports, int(b[0])<<8|int(b[1]))
			}
		}
	}
	slices.Sort(ports)
	return slices.Compact(ports)
}

// ranges parses ports in the kernel's format: 7421,20000-20999.
func ranges(text string) []nodeagent.PortRange {
	var all []nodeagent.PortRange
	for part := range strings.SplitSeq(text, ",") {
		low, high, _ := strings.Cut(strings.TrimSpace(part), "-")
		a, err := strconv.Atoi(low)
		b, err2 := strconv.Atoi(cmp.Or(high, low))
		if err == nil && err2 == nil {
			all = append(all, nodeagent.PortRange{First: a, Last: b})
		}
	}
	return all
}

// portText formats a range as the kernel does.
func portText(r nodeagent.PortRange) string { return fmt.Sprintf("%d-%d", r.First, r.Last) }
