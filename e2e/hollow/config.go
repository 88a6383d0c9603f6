package hollow

import (
	"fmt"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/collect"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
)

// Config configures the cluster. Only Nodes is required.
type Config struct {
	Nodes []Node
	// Store holds the state; nil means memory.
	Store controlplane.Store
	// Kinds are the kinds of policies to run; nil means those of package esl.
	Kinds esl.Kinds
	// NoKeep leaves policies to the test, which calls keep.Run or Cluster.Keep.
	NoKeep bool
	// NoAudit omits the audit of every revision: Audit then checks only the current state.
	NoAudit bool
	// Behave decides what the process of a task does; nil means ByCommand.
	Behave Behave
	// Runtime configures the simulated runtimes, except for their Script: that is Behave.
	Runtime simruntime.Config
	// Scheduler, Collector and Collect, which is about collections over time, configure those parts;
	// zero means the defaults.
	Scheduler scheduler.Config
	Collector server.Policy
	Collect   collect.Config
	// TTL is how long the session of a node lasts without renewal; 0 means 15 s.
	TTL time.Duration
	// StateDir is a directory for the agents. Without one, StartAgent begins another session.
	StateDir string
	// APIDir is a directory for the sockets of the APIs of nodes; without one, nodes have no API.
	APIDir string
	// HistoryDir is a directory for the history of ended tasks; empty means none.
	HistoryDir string
	// Log is the logger of all parts; nil means no logs.
	Log *zap.Logger
}

// Node is one machine.
type Node struct {
	Name string
	// Capacity is its physical resources, such as cpu: 8.
	Capacity map[string]types.Quantity
	// Labels are labels such as rack: r1.
	Labels map[string]string
	// GPUs is how many simulated GPUs it has, which are devices.
	GPUs int
	// Host is its address for tasks. PortFirst and PortLast are its range of ports; 0 means none.
	Host                string
	PortFirst, PortLast int
}

// Nodes makes n identical nodes, n00 and on, with a number of cores each.
func Nodes(n int, cores int) []Node {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = Node{Name: fmt.Sprintf("n%02d", i), Capacity: map[string]types.Quantity{string(types.CPU): types.Quantity(cores) * 1000}}
	}
	return nodes
}

// Racks labels nodes with racks r0 and on, each nodes per rack, one rack after the other.
func Racks(nodes []Node, each int) []Node {
	for i := range nodes {
		nodes[i].Labels = map[string]string{"rack": fmt.Sprintf("r%d", i/each)}
	}
	return nodes
}

// withDefaults fills in the defaults.
func (cfg Config) withDefaults() Config {
	if cfg.Store == nil {
		cfg.Store = memstore.New()
	}
	if cfg.Kinds == nil {
		cfg.Kinds = builtin.Kinds()
	}
	if cfg.Behave == nil {
		cfg.Behave = ByCommand
	}
	if cfg.Scheduler.Seed == 0 {
		cfg.Scheduler.Seed = controlplane.NewBatch()
	}
	if cfg.Scheduler.Metrics == nil {
		cfg.Scheduler.Metrics = scheduler.NewMetrics()
	}
	if cfg.Collector == (server.Policy{}) {
		cfg.Collector = server.DefaultPolicy()
	}
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	return cfg
}
