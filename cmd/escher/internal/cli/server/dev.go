//go:build linux

package server

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/escher-sched/escher/api/oidc"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/agent"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/flagset"
	"github.com/escher-sched/escher/cmd/escher/internal/dev"
	"github.com/escher-sched/escher/esl/collect"
	"github.com/escher-sched/escher/nodeagent/machine/devices"
	"github.com/escher-sched/escher/scheduler/search"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

const devHelp = `Runs a cluster on this machine until it is interrupted: etcd, scheduler, collector
and agents in one process, containers in the containerd of this machine or, if there is
none, in one of its own. It needs root.

All of its state is in the directory, which only its owner can enter; etcd listens on a
Unix socket in it, and on no port. Interrupted, it stops the running tasks, unless --keep
is given. Killed, it leaves them running for some seconds. Started in the same directory
within that time, it adopts them; otherwise a watchdog ends them, and they run again.

  escher dev
  escher dev --nodes 3 --cpu 2 --memory 4Gi
  escher dev --simulated-gpus 8,model=H100,memory=80Gi     without a GPU`

// devFlags describe the cluster to run.
type devFlags struct {
	nodes           int
	cpu, memory     string
	gpus            string
	labels          []string
	placement       string
	collectAfter    time.Duration
	keep, verbose   bool
	containerd, ops string
	allow           []string
	permit          flagset.PermissionFlags
	api             []string
	apiCert, apiKey string
	oidc            oidc.Config
	pprof           bool
	history         time.Duration
	logs            flagset.LoggingFlags
}

// NewDev returns the command that runs a cluster.
func NewDev(f *cmdutil.Factory) *cobra.Command {
	var flags devFlags
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run a cluster on this machine",
		Long:  devHelp,
		Args:  cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := flags.config(f)
			if err != nil {
				return err
			}
			if f.Runtimes == nil && os.Geteuid() != 0 {
				return types.Errorf(types.Precondition, "dev: containers need root, and this is user %d: use sudo, with the flags and -E for the environment", os.Geteuid())
			}
			log, closeLog, err := openLog(cfg.Dir, f, &flags)
			if err != nil {
				return err
			}
			defer closeLog()
			cfg.Log = log
			return dev.Run(cmd.Context(), cfg)
		},
	}
	set := cmd.Flags()
	set.IntVar(&flags.nodes, "nodes", 1, "number of nodes on the machine")
	set.StringVar(&flags.cpu, "cpu", "", "cores of each node; default: all of the machine, which the nodes share")
	set.StringVar(&flags.memory, "memory", "", "memory of each node; default: all of the machine, which the nodes share")
	set.StringVar(&flags.gpus, "simulated-gpus", "0", "GPUs that each node simulates: 8,model=H100,memory=80Gi,links=all|pairs|none,numa=2")
	cmdutil.Former(cmd, f, "gpus", "simulated-gpus")
	set.StringArrayVar(&flags.labels, "label", nil, "NODE:NAME=VALUE, or NAME=VALUE for all nodes; repeat for several")
	set.StringVar(&flags.placement, "placement", string(search.Auto), placementHelp)
	addCollectAfter(set, &flags.collectAfter)
	addHistory(set, &flags.history)
	set.BoolVar(&flags.keep, "keep", false, "leave tasks running when interrupted")
	set.StringVar(&flags.containerd, "containerd", "", agent.ContainerdHelp)
	set.StringArrayVar(&flags.allow, "allow-mount", nil, agent.AllowMountHelp)
	flags.permit.Add(set)
	set.StringVar(&flags.ops, "ops", "", "host:port for metrics and health, without a password; default: only the socket run/ops.sock in the directory")
	addAPI(set, &flags.api, &flags.apiCert, &flags.apiKey, &flags.oidc)
	set.BoolVar(&flags.pprof, "pprof", false, "serve profiles at run/ops.sock, too")
	set.BoolVarP(&flags.verbose, "verbose", "v", false, "show the log")
	cmdutil.FormerShorthand(cmd, f, "verbose")
	flags.logs.Add(set)
	return cmd
}

// config returns the configuration.
func (d *devFlags) config(f *cmdutil.Factory) (dev.Config, error) {
	var cfg dev.Config
	dir, err := f.Dir()
	if err != nil {
		return cfg, err
	}
	capacity := make(map[string]string)
	for id, text := range map[types.ResourceID]string{types.CPU: d.cpu, types.Memory: d.memory} {
		if text != "" {
			capacity[string(id)] = text
		}
	}
	requests, err := types.MakeRequests(capacity)
	if err != nil {
		return cfg, err
	}
	labels, err := parseNodeLabels(d.labels, d.nodes)
	if err != nil {
		return cfg, err
	}
	allow, err := agent.ParseAllowMounts(d.allow)
	if err != nil {
		return cfg, err
	}
	gpus, err := devices.ParseSimulated(d.gpus)
	if err != nil {
		return cfg, err
	}
	permissions, err := d.permit.Permissions()
	if err != nil {
		return cfg, err
	}
	self, err := f.Executable()
	if err != nil {
		return cfg, types.Errorf(types.Internal, "find the path of this program: %w", err)
	}
	cfg = dev.Config{
		Dir: dir, Nodes: d.nodes, Capacity: requests, GPUs: gpus, Labels: labels, Placement: search.Choice(d.placement), Collect: collect.Config{After: d.collectAfter}, Keep: d.keep,
		Containerd: d.containerd, Logger: self, Runtimes: f.Runtimes, Version: cmdutil.Version(),
		AllowMounts: allow, Permissions: permissions, Ops: d.ops, Pprof: d.pprof, History: d.history, API: d.api, APICert: d.apiCert, APIKey: d.apiKey, OIDC: d.oidc,
		Progress: f.ProgressLine,
		Ready:    func(info dev.Info) { greet(f, dir, info) },
	}
	// Everything is checked before anything is created.
	return cfg, cfg.Validate()
}

// parseNodeLabels reads node:name=value, and name=value for all nodes.
func parseNodeLabels(texts []string, nodes int) (map[string][]types.Label, error) {
	labels := make(map[string][]types.Label)
	for _, text := range texts {
		name, _, ok := strings.Cut(text, "=")
		if !ok {
			return nil, types.Errorf(types.Invalid, "label: %q is no label: write it like node-1:zone=a, or zone=a for all nodes", text)
		}
		node, _, one := strings.Cut(name, ":")
		given := text
		if one {
			given = text[len(node)+1:]
		}
		label, err := types.ParseLabel("label", given)
		if err != nil {
			return nil, err
		}
		if one {
			labels[node] = append(labels[node], label)
			continue
		}
		for i := range min(nodes, dev.MaxNodes) {
			node := dev.NodeName(i)
			labels[node] = append(labels[node], label)
		}
	}
	return labels, nil
}

// greet says that the cluster runs, and how to use it.
func greet(f *cmdutil.Factory, dir dev.Dir, info dev.Info) {
	fmt.Fprintf(f.Out, "ready: %s, etcd at %s\n", words.Count(len(info.Nodes), "node"), info.Endpoint)
	if len(info.Nodes) > 1 {
		fmt.Fprintf(f.Out, "  the nodes share this machine: each offers all of its cpu and memory that --cpu and --memory do not limit\n")
	}
	fmt.Fprintf(f.Out, "  export ESCHER_DIR=%s\n  escher nodes\n", dir)
	fmt.Fprintf(f.Out, "programs connect to ESCHER_ENDPOINTS=%s, or by HTTP to %s; the log is %s\n", info.Endpoint, info.API, dir.LogFile())
}

// openLog returns the log of the cluster: a file in its directory, and the error output too if the
// flags say so.
func openLog(dir dev.Dir, f *cmdutil.Factory, flags *devFlags) (log *zap.Logger, closeLog func(), err error) {
	shown, err := flags.logs.Core(f.Err)
	if err != nil {
		return nil, nil, err
	}
	if err := os.MkdirAll(string(dir), 0o700); err != nil {
		return nil, nil, types.Errorf(types.Precondition, "dir: make %s: %w: name a directory that can be made with --dir", dir, err)
	}
	file, err := os.OpenFile(dir.LogFile(), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, nil, types.Errorf(types.Precondition, "dir: open log: %w: name another directory with --dir", err)
	}
	core, err := (&flagset.LoggingFlags{Format: "json", Level: flags.logs.Level}).Core(file)
	if err != nil {
		return nil, nil, err
	}
	if flags.verbose {
		core = zapcore.NewTee(core, shown)
	}
	return zap.New(core), func() { file.Close() }, nil
}
