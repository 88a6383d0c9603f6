package rig

import (
	"context"
	"errors"
	"os"
	"runtime/pprof"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/types"
)

// RoleCommand is the name of the command that runs one part of a measured cluster in its own
// process. Its argument is the name of the part.
const RoleCommand = "bench-role"

// The parts of a cluster.
const (
	RoleEtcd      = "etcd"
	RoleScheduler = "scheduler"
	roleCollector = "collector"
	roleGateway   = "gateway"
	// RoleFramespace is a scheduler, and next to it one of gangs.
	RoleFramespace = "framespace"
	// RoleKeeper runs policies, like a server.
	RoleKeeper = "keeper"
)

// RoleConfig is the first line that a part reads from its input.
type RoleConfig struct {
	// Ops is how many operations etcd allows in a transaction.
	Ops int
	// Dir is where etcd keeps its data, or where the certificates are.
	Dir string
	// Endpoint is the address of etcd or of the gateway for the other parts, and Token that for a gateway.
	Endpoint, Token string
	// Server is the address of a server of Escher, and Share the nodes whose agents reach the cluster by it.
	Server string
	Share  Share
	// Name and Shared configure a scheduler.
	Name   string
	Shared bool
	// Policy configures a collector; nil means the default.
	Policy *server.Policy
}

// Share is every Of-th of the first Nodes nodes, from First on.
type Share struct{ First, Of, Nodes int }

// order is each further line.
type order struct {
	// Do is one of the constants below.
	Do string
	// Path is the file of a profile.
	Path string `json:",omitempty"`
}

// The orders to a part.
const (
	doProfile = "profile"  // begin to write a CPU profile to Path
	doEnd     = "profiled" // end it
	doStats   = "stats"    // return the counters
)

// reply is an answer of a part: one when it is ready, then one per order.
type reply struct {
	Ready    bool               `json:",omitempty"`
	Endpoint string             `json:",omitempty"`
	Stats    map[string]float64 `json:",omitempty"`
	Error    string             `json:",omitempty"`
}

// Part is the work of the process of a role.
type Part struct {
	// Run runs it until ctx is done, and calls ready once it works.
	Run func(ctx context.Context, ready func(endpoint string)) error
	// Stats returns its counters; nil means it has none.
	Stats func() map[string]float64
}

// Parts are the functions that make parts of a cluster, by the name of the role.
type Parts map[string]func(RoleConfig) Part

// WithStore runs f with a client of etcd.
func (rc RoleConfig) WithStore(ctx context.Context, f func(*etcdstore.Store) error) error {
	store, err := etcdstore.Dial(ctx, etcdstore.Config{Endpoints: []string{rc.Endpoint}, Token: rc.Token, Limits: limitsOf(rc.Ops)})
	if err != nil {
		return err
	}
	return errors.Join(f(store), store.Close())
}

// StockOps is etcd's default number of operations in a transaction.
const StockOps = 128

// OwnOps is how many operations Escher's own etcd allows in a transaction.
const OwnOps = 4096

// limitsOf returns the limits of an etcd that allows ops operations.
func limitsOf(ops int) controlplane.Limits {
	limits := etcdstore.StockLimits()
	limits.Ops = ops
	return limits
}

// beginProfile begins to write a CPU profile of this process.
func beginProfile(path string) (*os.File, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, types.Errorf(types.Precondition, "profile: %w", err)
	}
	return f, pprof.StartCPUProfile(f)
}
