package doctor

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

func checkHost(f Facts) []Finding {
	d := of("node name")
	base, _, _ := strings.Cut(f.Plan.Node, ".")
	switch err := types.ValidateName("node", f.Plan.Node); {
	case err != nil:
		d.problem(err.Error(), "hostnamectl set-hostname NAME, or name the node with %s", action.AgentName.Of())
	case base == "localhost":
		d.problem(fmt.Sprintf("%s is what many machines are called, and each node needs a name of its own", f.Plan.Node), "hostnamectl set-hostname NAME, or name the node with %s", action.AgentName.Of())
	}
	if f.Plan.NodeGiven {
		return d.done(f.Plan.Node)
	}
	return d.done(f.Plan.Node + ", the host's name")
}

func checkDNS(f Facts) []Finding {
	d := of("dns")
	if len(f.Network.Nameservers) == 0 {
		d.warn("/etc/resolv.conf names no server, so that no registry of images is found by name", "echo nameserver ADDRESS >> /etc/resolv.conf")
	}
	return d.done(strings.Join(f.Network.Nameservers, ", "))
}

func checkAPI(f Facts) []Finding {
	d, n := of("node api"), f.Network
	if f.Plan.Listen == "" {
		return d.done("the agent opens no port: it connects to a server")
	}
	switch {
	case n.ListenError != "":
		d.problem(fmt.Sprintf("nothing can listen at %s: %s", f.Plan.Listen, n.ListenError), "ss -ltnp shows who does; or choose another address with %s", action.AgentListen.Of())
	case n.AnswerError != "":
		d.problem(fmt.Sprintf("the agent does not answer at %s: %s", f.Plan.Address, n.AnswerError), "look into its log, or name the address by which it is reached with %s", action.AgentAdvertise.Of())
	}
	switch {
	case f.Plan.Local && n.Remote:
		d.warn("without a certificate the API listens on loopback alone: logs, exec, cp and top work on this machine only",
			"give %s and %s or, in a network that is trusted, %s", action.AgentCert.Of(), action.AgentKey.Of(), action.AgentInsecure.Of())
	case n.Loopback && n.Remote:
		d.problem(fmt.Sprintf("others are told to reach this node at %s, which is their own machine to them", f.Plan.Address), "name an address of this machine with %s HOST:PORT", action.AgentAdvertise.Of())
	case n.Loopback || n.Local || !isAddress(f.Plan.Address):
	default:
		d.warn(fmt.Sprintf("%s, where others reach this node, is no address of this machine", f.Plan.Address), "correct %s, unless something in between forwards it", action.AgentAdvertise.Of())
	}
	if n.Answered {
		return d.done("it answers at " + f.Plan.Address)
	}
	return d.done(f.Plan.Listen + " is free; others reach it at " + f.Plan.Address)
}

// isAddress reports whether the host of an address is an IP address. Names are not resolved.
func isAddress(address string) bool {
	host, _, err := net.SplitHostPort(address)
	return err == nil && net.ParseIP(host) != nil
}

func checkCertificate(f Facts) []Finding {
	if f.Plan.TLSCert == "" {
		return nil
	}
	d := of("node certificate")
	if f.Network.CertificateError != "" {
		d.problem("the certificate of the node's API cannot be used: "+f.Network.CertificateError, "give both %s and %s, readable, and of one another", action.AgentCert.Of(), action.AgentKey.Of())
	}
	if c := f.Network.API; c != nil {
		d.validity("the certificate of the node's API", c, f)
		if c.Wrong != "" {
			d.problem(c.Wrong, "have one issued for %s, or name an address that it is for with %s", f.Plan.Address, action.AgentAdvertise.Of())
		}
		return d.done("valid until " + c.NotAfter.UTC().Format("2006-01-02"))
	}
	return d.all
}

func checkFirewall(f Facts) []Finding {
	d := of("firewall")
	if len(f.Network.Filters) == 0 {
		return d.done("no packet filter is loaded")
	}
	if f.Plan.Listen == "" {
		return d.done("others need no port of the agent")
	}
	_, port, _ := net.SplitHostPort(f.Plan.Listen)
	d.warn(fmt.Sprintf("a packet filter is loaded (%s), and whether it lets others to port %s cannot be seen from here", strings.Join(f.Network.Filters, ", "), port),
		"on another machine: curl -k http://%s/healthz, with https:// if the API is encrypted", f.Plan.Address)
	return d.all
}

func checkPorts(f Facts) []Finding {
	d, r, n := of("ports"), f.Plan.Ports, f.Network
	if r.Last == 0 {
		return d.done("none are given to tasks")
	}
	if n.LocalFirst != 0 && r.First <= n.LocalLast && n.LocalFirst <= r.Last {
		first, last := max(r.First, n.LocalFirst), min(r.Last, n.LocalLast)
		if !covered(n.Reserved, first, last) {
			overlap := nodeagent.PortRange{First: first, Last: last}
			d.warn(fmt.Sprintf("the kernel gives ports %s to outgoing connections, too: a task may find its own taken", portText(overlap)),
				"sysctl -w net.ipv4.ip_local_reserved_ports=%s, and in /etc/sysctl.d; or choose other %s", portText(overlap), action.AgentPorts.Of())
		}
	}
	if _, text, err := net.SplitHostPort(f.Plan.Listen); err == nil {
		if port, _ := strconv.Atoi(text); port >= r.First && port <= r.Last {
			d.problem(fmt.Sprintf("port %d of the node's API is among those given to tasks", port), "choose other %s, or another %s", action.AgentPorts.Of(), action.AgentListen.Of())
		}
	}
	taken := slices.DeleteFunc(slices.Clone(n.Listening), func(p int) bool { return p < r.First || p > r.Last })
	if len(taken) > 0 && !f.Agent.Running { // otherwise its tasks may listen
		d.warn(fmt.Sprintf("a program listens at %d of the ports given to tasks, such as %d", len(taken), taken[0]), "ss -ltnp 'sport = :%d'", taken[0])
	}
	return d.done(portText(r) + " are given to tasks")
}

// covered reports whether ranges contain all ports from first to last.
func covered(ranges []nodeagent.PortRange, first, last int) bool {
	for p := first; p <= last; p++ {
		if !slices.ContainsFunc(ranges, func(r nodeagent.PortRange) bool { return p >= r.First && p <= r.Last }) {
			return false
		}
	}
	return true
}
