// Package bench measures Escher against the floor under it: etcd's own performance with
// transactions of the same shape, over the same transport, in the same run.
//
// A measurement has its own cluster: etcd and schedulers are separate processes (see role.go), and
// this process is the load and the watchers. A scenario compares measurements that take turns,
// round by round, and reports medians.
package bench

import (
	"context"
	"io"

	"go.uber.org/zap"
)

// Config says what to measure.
type Config struct {
	// Scenario is the name of a scenario, see Scenarios, or "all" for those that need no
	// containers.
	Scenario string
	// Escher is the path of the escher program, for the scenarios that measure all of it.
	Escher string
	// Self is the path of the program that runs the parts of clusters: see RoleCommand.
	Self string `json:"-"`
	// Dir is where etcd keeps its data during the run, on a real disk.
	Dir string
	// Nodes and Tasks are the size of the cluster; 0 means the scenario's default.
	Nodes, Tasks int
	// Rounds is the number of measurements per arm, of which medians are reported; 0 means the
	// scenario's default.
	Rounds int
	// Ops is how many operations etcd allows in a transaction; 0 means etcd's default, 128.
	Ops int
	// Quick makes a scenario small enough to end within a minute.
	Quick bool
	// Trace is the directory of a workload to replay, instead of a scenario, Speed times as fast as
	// the original; Speed 0 makes it take about a minute.
	Trace string
	Speed float64
	// Must is the figure the scenario must reach to be ok; 0 means the scenario's default.
	Must float64
	// Profile is a directory for CPU profiles of the measured processes, one each; empty means
	// none.
	Profile string
	// Plot is a file for the picture of a scenario that draws one; empty means none.
	Plot string
	// JSON selects JSON lines instead of a table.
	JSON bool
	// Progress receives progress messages. Width is its terminal width; 0 means no terminal.
	Progress io.Writer `json:"-"`
	Width    int
	Log      *zap.Logger `json:"-"`

	progress *progress
	// mounts are the paths that tasks of a container cluster may mount.
	mounts []string
	// label names the arm being measured.
	label string
}

// size is the size of a scenario.
type size struct{ nodes, tasks, rounds int }

// scenario is one kind of measurement.
type scenario struct {
	name  string
	about string
	// containers reports whether it needs root and containerd.
	containers  bool
	full, quick size
	run         func(context.Context, Config) ([]Row, error)
}
