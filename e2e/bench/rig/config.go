package rig

import (
	"io"
	"time"

	"go.uber.org/zap"
)

// Config is the configuration of a measurement. The command escher bench sends it as JSON.
type Config struct {
	// Scenario is the name of a scenario, or "all" for those that need no containers.
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
	// Gateway makes schedulers and agents reach etcd through a gateway: schedulers with a token, and agents
	// as root.
	Gateway bool `json:"-"`
	// Ops is how many operations etcd allows in a transaction; 0 means etcd's default, 128.
	Ops int
	// Quick makes a scenario small enough to end within a minute.
	Quick bool
	// Trace is the directory of a workload to replay, instead of a scenario, Speed times as fast as
	// the original; Speed 0 makes it take about a minute.
	Trace string
	Speed float64
	// Workload is a table of jobs, or a directory with a trace, of which the scenario order measures the
	// order; empty means its own workloads. NodeHas is what each node has then, and Load how much of the
	// nodes the jobs ask for while they arrive; empty and 0 mean those of the workload.
	Workload, NodeHas string
	Load              float64
	// Policies are the policies that the scenarios order, frontier and cost measure, separated by commas; empty means all.
	Policies string
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

	// Mounts are the paths that tasks of a container cluster may mount.
	Mounts []string `json:"-"`
	// Label names the arm being measured.
	Label string `json:"-"`

	progress *progress
}

// Scaled returns the actual duration of a time of an experiment: Speed times as short.
func (c Config) Scaled(d time.Duration) time.Duration { return time.Duration(float64(d) / c.Speed) }

// Say shows a line of progress.
func (c Config) Say(format string, args ...any) { c.progress.say(format, args...) }

// WithProgress returns the configuration with a display of the progress, and a function that ends
// the display.
func (c Config) WithProgress() (Config, func()) {
	c.progress = newProgress(c.Progress, c.Width)
	return c, c.progress.close
}
