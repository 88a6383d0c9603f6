package cli

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/cmd/escher/internal/parts"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
)

const serverHelp = `Runs what binds tasks to nodes, and deletes what is finished, over an etcd that runs
elsewhere and is Escher's own: start one (3.6 or later, or see --etcd-quota) with

  etcd --max-txn-ops=4096 --quota-backend-bytes=8589934592 \
       --listen-client-urls=https://0.0.0.0:2379 --advertise-client-urls=https://HOST:2379 \
       --client-cert-auth --trusted-ca-file=ca.pem --cert-file=etcd.pem --key-file=etcd.key

Several servers may run at once: they share the namespaces, and when one dies the
others take over what was its. A server keeps nothing on its machine, needs no root, and
waits while etcd is away. Machines that run tasks run escher agent.

Metrics and health are at --ops: /metrics, /healthz, /readyz; see docs/monitoring.md.`

// placementHelp is what servers and dev say of --placement.
const placementHelp = "spread or pack: of the nodes that fit a task, take the least loaded or the fullest"

// newServer makes the command that runs a scheduler and a collector.
func newServer(f *Factory) *cobra.Command {
	var cfg parts.ServerConfig
	var logs loggingFlags
	var quota string
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run the scheduler of a cluster over an etcd elsewhere",
		Long:  serverHelp,
		Args:  exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if cfg.Etcd, err = f.etcdConfig(); err != nil {
				return err
			}
			if cfg.Name, err = hostnameOr("name", cfg.Name); err != nil {
				return err
			}
			if cfg.EtcdQuota, err = parseBytes("etcd-quota", quota); err != nil {
				return err
			}
			if cfg.Log, err = logs.logger(f); err != nil {
				return err
			}
			cfg.Version = Version()
			cfg.Progress = f.progressLine
			cfg.Ready = func(cluster, ops string) {
				fmt.Fprintf(f.Out, "ready: server %s of %s; metrics and health at %s\n", cfg.Name, cluster, ops)
			}
			return parts.RunServer(cmd.Context(), cfg)
		},
	}
	set := cmd.Flags()
	set.StringVar(&cfg.Name, "name", "", "name of this server, unlike that of any other; default: the host's")
	set.StringVar((*string)(&cfg.Placement), "placement", string(scheduler.Spread), placementHelp)
	set.IntVar(&cfg.MaxPending, "max-pending", server.DefaultPolicy().MaxPending, "how many tasks may wait before whoever submits more is slowed")
	set.StringVar(&quota, "etcd-quota", "", "what --quota-backend-bytes of etcd is, such as 8Gi, for an etcd before 3.6, which does not tell it")
	set.StringVar(&cfg.Ops, "ops", "127.0.0.1:7420", "host:port or unix:///path for metrics and health, which ask for no password")
	set.BoolVar(&cfg.Pprof, "pprof", false, "serve profiles at --ops, too")
	logs.add(set)
	return cmd
}

// progressLine tells how far something is that takes its time.
func (f *Factory) progressLine(format string, args ...any) {
	f.tell(""+format+"", args...)
}

// hostnameOr returns the name given by a flag, or that of this host.
func hostnameOr(flag, given string) (string, error) {
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
