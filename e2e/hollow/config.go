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
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
)

// Config says what the cluster is of. Only Nodes must be given.
type Config struct {
	Nodes []Node
	// Store is what it is kept in; nil: memory.
	Store controlplane.Store
	// Kinds are the policies that are kept; nil: those of package esl.
	Kinds esl.Kinds
	// NoKeep leaves policies to the test, which runs keep.Run itself, or Cluster.Keep.
	NoKeep bool
	// NoAudit leaves out the audit of every revision: Check looks at the end alone.
	NoAudit bool
	// Behave decides what the process of a task does; nil: ByCommand.
	Behave Behave
	// Scheduler and Collector are theirs; zero: the defaults.
	Scheduler scheduler.Config
	Collector server.Policy
	// TTL is how long the session of a node lasts without being renewed; 0 is 15 s.
	TTL time.Duration
	// Log is told what all of them do; nil is nobody.
	Log *zap.Logger
}

// Node is one machine.
type Node struct {
	Name string
	// Capacity is what it has of physical resources, such as cpu: 8.
	Capacity map[string]types.Quantity
	// Labels are such as rack: r1.
	Labels map[string]string
}

// Nodes makes n nodes that are alike, n00 and on, of so many cores each.
func Nodes(n int, cores int) []Node {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = Node{Name: fmt.Sprintf("n%02d", i), Capacity: map[string]types.Quantity{string(types.CPU): types.Quantity(cores) * 1000}}
	}
	return nodes
}

// Racks labels nodes with racks r0 and on, so many nodes in each, one rack after the
// other.
func Racks(nodes []Node, each int) []Node {
	for i := range nodes {
		nodes[i].Labels = map[string]string{"rack": fmt.Sprintf("r%d", i/each)}
	}
	return nodes
}

// withDefaults fills in what was left out.
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
