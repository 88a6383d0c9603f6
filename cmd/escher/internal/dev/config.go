package dev

import (
	"fmt"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/devices"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd/daemon"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
)

// Runtimes makes the runtime of a node.
type Runtimes func(node string) (nodeagent.Runtime, error)

// MaxNodes bounds the nodes of one machine.
const MaxNodes = 100

// PrivateContainerd is the Config.Containerd that means: one of our own, always.
const PrivateContainerd = "private"

// Config says what cluster to run.
type Config struct {
	// Dir is where everything of it is kept, an absolute path.
	Dir Dir
	// Nodes is how many agents share the machine.
	Nodes int
	// Capacity is what each of them has; what it does not name of cpu and
	// memory is an equal share of the machine.
	Capacity types.Requests
	// GPUs are those that each of them is to have, and that there are not.
	GPUs devices.Simulated
	// Labels are those of each node, by its name.
	Labels map[string][]types.Label
	// Placement says which of the nodes that fit a task is placed on.
	Placement scheduler.Choice
	// AllowMounts are the paths of this machine that tasks may mount.
	AllowMounts []nodeagent.AllowedMount
	// Permissions are what of the dangerous tasks may ask for.
	Permissions nodeagent.Permissions
	// Ops is where metrics and health are served besides the socket in Dir, as
	// host:port; empty is nowhere. Pprof adds profiles, on the socket alone.
	Ops   string
	Pprof bool
	// Keep leaves containers running when the cluster is stopped.
	Keep bool
	// Containerd is the socket of the one to use, which must serve; empty is that of
	// the machine. Where that does not serve, and for PrivateContainerd, one is run.
	Containerd string
	// Logger is the program that writes the logs of tasks; see
	// LoggerSubcommand.
	Logger string
	// Runtimes replaces containerd if it is set.
	Runtimes Runtimes
	// Version is what the agents say of themselves.
	Version string
	// Free says how much of a disk is free; nil asks the system.
	Free func(dir string) (int64, error)
	// Log is told what happens; Progress, in words for people, how far
	// starting and stopping is.
	Log      *zap.Logger
	Progress func(format string, args ...any)
	// Ready is called once all nodes are alive.
	Ready func(Info)
}

// LoggerSubcommand is what Config.Logger is called with.
const LoggerSubcommand = "task-log"

// nodes returns the names of the nodes.
func (c Config) nodes() []string {
	names := make([]string, c.Nodes)
	for i := range names {
		names[i] = fmt.Sprintf("node-%d", i+1)
	}
	return names
}

// Validate says what is wrong with the nodes: Invalid.
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

// ports returns the ports of the i-th node: those of all are apart from one another,
// and from those that the kernel gives to whoever asks for any.
func (c Config) ports(i int) nodeagent.PortRange {
	const first, most, all = 20000, 1000, 10_000
	each := min(most, all/c.Nodes)
	return nodeagent.PortRange{First: first + i*each, Last: first + (i+1)*each - 1}
}

// daemon says which containerd to use.
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
