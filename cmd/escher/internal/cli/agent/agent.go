//go:build linux

// Package agent holds the commands that run on a node: agent, its watchdog, and node doctor.
package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/flagset"
	"github.com/escher-sched/escher/cmd/escher/internal/dev"
	"github.com/escher-sched/escher/cmd/escher/internal/parts"
	"github.com/escher-sched/escher/nodeagent"
	sampled "github.com/escher-sched/escher/nodeagent/machine/usage"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd/daemon"
	"github.com/escher-sched/escher/types"
)

const agentHelp = `Makes this machine a node of a cluster with an escher server at --server. It runs the
tasks bound to the node in the containerd of the machine or, if there is none, in one of
its own. It needs root.

It joins by a token of the node in ESCHER_TOKEN, once (escher auth token create --for
node:NAME): the server signs its certificate, which it renews by itself. An agent with
etcd's certificate reaches etcd at --endpoints instead, where no right bounds it.

Interrupted or killed, it leaves containers running. Started again within --ttl in the
same directory, it adopts them. Otherwise the watchdog ends them, and only then they run
elsewhere. An agent that is cut off from etcd for that long ends its tasks itself.

With --server the agent opens no port: escher logs, exec, cp and top reach it by servers,
through the connection that it opens to one (docs/gateway.md). With --endpoints, or with
--listen, the node's API (docs/node-api.md) is at a port, for clients that may read etcd.
Without --tls-cert that is on loopback alone, and those commands work on this machine only.

  ESCHER_TOKEN=$(cat n1.token) escher agent --server https://10.0.0.1:7421 --cacert ca.pem --node n1
  escher agent --endpoints https://10.0.0.1:2379 --cacert ca.pem --cert agent.pem --key agent.key
  escher agent --endpoints 10.0.0.1:2379 --label rack=r7 --allow-mount /data:ro`

const (
	// defaultStateDir is the directory of an agent's state.
	defaultStateDir = "/var/lib/escher"
	// defaultPorts is the range that it gives to tasks.
	defaultPorts = "20000-20999"
	listenHelp   = "host:port for the node's API; default: none with --server, else port 7421, on loopback alone without --tls-cert"
)

// agentFlags describe this node.
type agentFlags struct {
	node, containerd, stateDir string
	capacity, labels, allow    []string
	ports                      string
	permit                     flagset.PermissionFlags
	gpus                       agentDeviceFlags
	cfg                        parts.AgentConfig
	logs                       flagset.LoggingFlags
}

// NewAgent returns the command that makes a machine a node.
func NewAgent(f *cmdutil.Factory) *cobra.Command {
	var flags agentFlags
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Make this machine a node of a cluster",
		Long:  agentHelp,
		Args:  cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := flags.config(f)
			if err != nil {
				return err
			}
			return parts.RunAgent(cmd.Context(), cfg)
		},
	}
	set := cmd.Flags()
	set.StringVar(&flags.node, "node", "", "name of the node; default: the host's")
	set.StringSliceVar(&flags.capacity, "capacity", nil, "capacity of the node, name=amount; default: all cpu and memory of the machine; gpu follows from the devices found")
	set.StringArrayVar(&flags.labels, "label", nil, "name=value; repeat for several")
	set.StringVar(&flags.containerd, "containerd", "", ContainerdHelp)
	set.StringVar(&flags.stateDir, "state-dir", defaultStateDir, "directory for its session, logs, scratch directories and, if it runs its own, containerd")
	set.StringVar(&flags.cfg.Listen, "listen", "", listenHelp)
	set.BoolVar(&flags.cfg.Insecure, "insecure-listen", false, "let other machines reach the API without --tls-cert, in a trusted network")
	set.StringVar(&flags.cfg.Advertise, "advertise", "", "host:port at which other machines reach the API, and at its host tasks; default: the address from which this machine reaches etcd")
	set.DurationVar(&flags.cfg.UsageEvery, "usage-interval", sampled.DefaultEvery, "how often the usage of tasks and the machine is sampled while a client reads it")
	set.BoolVar(&flags.cfg.NoTaskMetrics, "hide-task-metrics", false, "leave metrics with names of tasks out of /metrics")
	set.BoolVar(&flags.cfg.OpenTaskMetrics, "open-task-metrics", false, "show names of tasks in /metrics, and the reasons in /readyz, to other machines without the token of the node")
	set.StringVar(&flags.cfg.TLSCert, "tls-cert", "", "file of the API's certificate")
	set.StringVar(&flags.cfg.TLSKey, "tls-key", "", "file of its key")
	set.StringArrayVar(&flags.allow, "allow-mount", nil, AllowMountHelp)
	flags.permit.Add(set)
	flags.gpus.Add(set)
	set.StringVar((*string)(&flags.cfg.CgroupDriver), "cgroup-driver", "", cgroupDriverHelp)
	set.StringVar(&flags.ports, "ports", defaultPorts, "ports to give to tasks, FIRST-LAST, or none")
	set.DurationVar(&flags.cfg.Agent.TTL, "ttl", nodeagent.DefaultTTL, "how long the node may be cut off before its tasks run elsewhere")
	flags.logs.Add(set)
	return cmd
}

const (
	ContainerdHelp   = "socket of the containerd to use, or \"private\"; default: that of the machine if there is one"
	cgroupDriverHelp = "cgroup driver of tasks: cgroupfs or systemd; default: systemd if it manages cgroup v2, else cgroupfs"
	AllowMountHelp   = "path of this machine that tasks may mount, with all below it; PATH:ro for read-only; repeat for several"
)

// config returns the configuration.
func (a *agentFlags) config(f *cmdutil.Factory) (parts.AgentConfig, error) {
	cfg := a.cfg
	var err error
	if cfg.Etcd, err = f.StoreConfig(); err != nil {
		return cfg, err
	}
	place, err := f.Place()
	if err != nil {
		return cfg, err
	}
	if place.Server != "" {
		cfg.Join = parts.Join{Server: place.Server, CACert: place.CACert, Token: place.Token}
	}
	if cfg.Agent.Node, err = HostnameOr("node", a.node); err != nil {
		return cfg, err
	}
	given, err := cmdutil.ParseRequests("capacity", a.capacity)
	if err != nil {
		return cfg, err
	}
	if cfg.Agent.Capacity, err = parts.Capacity(given); err != nil {
		return cfg, err
	}
	for _, text := range a.labels {
		label, err := types.ParseLabel("label", text)
		if err != nil {
			return cfg, err
		}
		cfg.Agent.Labels = append(cfg.Agent.Labels, label)
	}
	if cfg.Agent.AllowMounts, err = ParseAllowMounts(a.allow); err != nil {
		return cfg, err
	}
	if cfg.Agent.Permissions, err = a.permit.Permissions(); err != nil {
		return cfg, err
	}
	if cfg.Devices, err = a.gpus.config(); err != nil {
		return cfg, err
	}
	cfg.Agent.ProbeEvery = a.gpus.every
	if cfg.Agent.Ports, err = parsePorts(a.ports); err != nil {
		return cfg, err
	}
	if cfg.Agent.StateDir, err = filepath.Abs(a.stateDir); err != nil {
		return cfg, types.Errorf(types.Invalid, "state-dir: %q: %w: give an absolute path", a.stateDir, err)
	}
	self, err := f.Executable()
	if err != nil {
		return cfg, types.Errorf(types.Internal, "find the path of this program: %w", err)
	}
	if cfg.Log, err = a.logs.Logger(f); err != nil {
		return cfg, err
	}
	// containerd keeps running, with its containers.
	address := containerdAddress(a.containerd)
	cfg.Containerd = daemon.Config{
		Address: address, Named: address != "" && address == a.containerd,
		Dir: filepath.Join(cfg.Agent.StateDir, "containerd"), Keep: true,
	}
	cfg.Logger = containerd.Logger{Path: self, Subcommand: dev.LoggerSubcommand}
	cfg.Agent.Version = cmdutil.Version()
	cfg.Progress = f.ProgressLine
	cfg.Ready = func(cluster, address string) {
		way := "its API is at " + address
		if address == "" {
			way = "it opens no port"
		}
		fmt.Fprintf(f.Out, "ready: node %s of %s; %s\n", cfg.Agent.Node, cluster, way)
	}
	return cfg, nil
}

// containerdAddress returns the address for package daemon.
func containerdAddress(flag string) string {
	switch flag {
	case "":
		return daemon.DefaultAddress
	case dev.PrivateContainerd:
		return ""
	}
	return flag
}

// ParseAllowMounts reads paths, with :ro after read-only ones.
func ParseAllowMounts(texts []string) ([]nodeagent.AllowedMount, error) {
	var out []nodeagent.AllowedMount
	for _, text := range texts {
		path, readOnly := strings.CutSuffix(text, ":ro")
		if !filepath.IsAbs(path) {
			return nil, types.Errorf(types.Invalid, "allow-mount: %q is not absolute: give the full path", path)
		}
		out = append(out, nodeagent.AllowedMount{Path: path, ReadOnly: readOnly})
	}
	return out, nil
}

// parsePorts reads FIRST-LAST.
func parsePorts(text string) (nodeagent.PortRange, error) {
	if text == "none" {
		return nodeagent.PortRange{}, nil
	}
	first, last, _ := strings.Cut(text, "-")
	low, err := strconv.Atoi(first)
	high, err2 := strconv.Atoi(last)
	if err != nil || err2 != nil || low < 1 || high < low || high > types.MaxPort {
		return nodeagent.PortRange{}, types.Errorf(types.Invalid, "ports: %q is no range: write it like 20000-20999, within 1-%d, or none", text, types.MaxPort)
	}
	return nodeagent.PortRange{First: low, Last: high}, nil
}

// HostnameOr returns the name in a flag, or that of this host.
func HostnameOr(flag, given string) (string, error) {
	if given != "" {
		return given, types.ValidateName(flag, given)
	}
	host, err := os.Hostname()
	if err == nil {
		err = types.ValidateName("the name of this host", host)
	}
	if err != nil {
		return "", types.Errorf(types.Invalid, "%s: is not given, and %w: give --%s", flag, err, flag)
	}
	return host, nil
}
