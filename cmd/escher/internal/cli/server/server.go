//go:build linux

// Package server holds the commands for whole clusters: dev, server, admin, audit, bench.
package server

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/api/oidc"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/agent"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/flagset"
	"github.com/escher-sched/escher/cmd/escher/internal/parts"
	"github.com/escher-sched/escher/controlplane/accounting"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/scheduler/search"
)

const serverHelp = `Binds tasks to nodes, runs policies and deletes finished objects. The etcd runs elsewhere
and serves Escher alone: start one (3.6 or later, or see --etcd-quota) with

  etcd --max-txn-ops=4096 --quota-backend-bytes=8589934592 \
       --listen-client-urls=https://0.0.0.0:2379 --advertise-client-urls=https://HOST:2379 \
       --client-cert-auth --trusted-ca-file=ca.pem --cert-file=etcd.pem --key-file=etcd.key

Several servers may run at once: they share the namespaces, and when one dies, the others
take over its part. A server keeps only a history of ended tasks on its machine, needs no
root, and waits while etcd is unreachable. Machines that run tasks run escher agent.

  escher server --endpoints https://10.0.0.1:2379 --cacert ca.pem --cert s.pem --key s.key

Metrics and health are at --ops: /metrics, /healthz, /readyz; see docs/monitoring.md.`

// addAPI adds the flags of the HTTP API.
func addAPI(set *pflag.FlagSet, addresses *[]string, cert, key *string, login *oidc.Config) {
	set.StringSliceVar(addresses, "api", nil, "addresses of the HTTP API: https://host:port for users with tokens, unix:///path of a socket for root and the user of the server; default: none")
	set.StringVar(cert, "api-cert", "", "file of the certificate for an https address of --api, in PEM")
	set.StringVar(key, "api-key", "", "file of its key, in PEM")
	set.StringVar(&login.Issuer, "oidc-issuer", "", "URL of an issuer of OpenID Connect, at which users log in; default: none")
	set.StringVar(&login.ClientID, "oidc-client-id", "", "id of the client that the issuer has for Escher")
	set.StringVar(&login.UsernameClaim, "oidc-username-claim", "email", "claim of the issuer's tokens with the name of the user")
	set.StringVar(&login.GroupsClaim, "oidc-groups-claim", "groups", "claim of the issuer's tokens with the names of groups")
	set.StringVar(&login.Prefix, "oidc-username-prefix", "oidc:", "name and colon that come before names of users and groups of the issuer")
	set.StringVar(&login.CA, "oidc-ca", "", "file of the authorities that the issuer's certificate may come from; default: those of the system")
}

// defaultDataDir is the directory of a server.
const defaultDataDir = "/var/lib/escher-server"

// addCollectAfter adds --collect-after.
func addCollectAfter(set *pflag.FlagSet, into *time.Duration) {
	set.DurationVar(into, "collect-after", 0, "how long a gang, or a task with --accumulate, waits before it collects free capacity; default: 24 times the mean run of a task, at least 30s")
	cmdutil.Preset(set, "collect-after", "", "leave it out for the default")
}

// addHistory adds --history.
func addHistory(set *pflag.FlagSet, into *time.Duration) {
	set.DurationVar(into, "history", accounting.DefaultKeep, "how long escher history has ended tasks; 0 keeps no history")
}

// placementHelp is the help of --placement of servers and dev.
const placementHelp = "of the nodes that fit a task: spread takes the least loaded, pack the fullest; auto packs tasks that request gpu or a resource of a vendor, and spreads the others"

// NewServer returns the command that runs a scheduler and a garbage collector.
func NewServer(f *cmdutil.Factory) *cobra.Command {
	var cfg parts.ServerConfig
	var logs flagset.LoggingFlags
	var quota string
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run the scheduler of a cluster whose etcd runs elsewhere",
		Long:  serverHelp,
		Args:  cmdutil.Exactly(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			var err error
			if cfg.Etcd, err = f.EtcdConfig(); err != nil {
				return err
			}
			if cfg.Name, err = agent.HostnameOr("name", cfg.Name); err != nil {
				return err
			}
			if cfg.EtcdQuota, err = cmdutil.ParseBytes("etcd-quota", quota); err != nil {
				return err
			}
			if cfg.Log, err = logs.Logger(f); err != nil {
				return err
			}
			cfg.Version = cmdutil.Version()
			cfg.Progress = f.ProgressLine
			cfg.Ready = func(cluster, ops string) {
				fmt.Fprintf(f.Out, "ready: server %s of %s; metrics and health at %s\n", cfg.Name, cluster, ops)
			}
			return parts.RunServer(cmd.Context(), cfg)
		},
	}
	set := cmd.Flags()
	set.StringVar(&cfg.Name, "name", "", "unique name of this server; default: the host's")
	set.StringVar((*string)(&cfg.Placement), "placement", string(search.Auto), placementHelp)
	addCollectAfter(set, &cfg.Collect.After)
	set.IntVar(&cfg.MaxPending, "max-pending", server.DefaultPolicy().MaxPending, "number of waiting tasks above which the server slows submissions")
	set.StringVar(&quota, "etcd-quota", "", "the --quota-backend-bytes of etcd, such as 8Gi, for an etcd before 3.6, which does not report it")
	set.StringVar(&cfg.Ops, "ops", "127.0.0.1:7420", "host:port or unix:///path for metrics and health, without a password")
	addAPI(set, &cfg.API, &cfg.APICert, &cfg.APIKey, &cfg.OIDC)
	set.StringVar(&cfg.APICA, "api-ca", "", "directory with ca.pem and ca.key of the authority that signs certificates for agents: that of escher admin certificate")
	set.StringVar(&cfg.SecretsKey, "secrets-key", "", "file of the keys that seal secrets: that of escher admin secrets-key, the same on each server; default: no secrets")
	addHistory(set, &cfg.History)
	set.StringVar(&cfg.DataDir, "data-dir", defaultDataDir, "directory of the history: this server's own copy")
	set.BoolVar(&cfg.Pprof, "pprof", false, "serve profiles at --ops, too")
	logs.Add(set)
	return cmd
}
