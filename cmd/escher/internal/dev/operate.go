//go:build linux

package dev

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/escher-sched/escher/api/secrets"
	"github.com/escher-sched/escher/cmd/escher/internal/ops"
	"github.com/escher-sched/escher/cmd/escher/internal/parts"
	"github.com/escher-sched/escher/cmd/escher/internal/policylog"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/sockets"
)

// metrics returns those of all components, etcd's included.
func (c *running) metrics() prometheus.Gatherer {
	return prometheus.Gatherers{c.registry, ops.Etcd()}
}

// operate serves metrics and health: on a socket in the directory, and at the further address.
func (c *running) operate(context.Context) error {
	if _, err := sockets.Make(string(c.cfg.Dir)); err != nil {
		return err
	}
	addresses := []string{c.cfg.Dir.OpsSocket()}
	if c.cfg.Ops != "" {
		addresses = append(addresses, c.cfg.Ops)
	}
	for i, address := range addresses {
		cfg := ops.Config{Address: address, Metrics: c.metrics(), Health: c.health, Logger: c.cfg.Log.Named("ops")}
		if i == 0 { // the memory of the process, and what policies decide, are for its user alone
			cfg.Pprof, cfg.Policies = c.cfg.Pprof, policylog.Handler(c.decisions, "")
		}
		s, err := ops.New(cfg)
		if err != nil {
			return err
		}
		c.info.Ops = append(c.info.Ops, address)
		c.stack.Start("ops at "+address, s.Run)
	}
	return nil
}

// api serves the HTTP API on a socket in the directory.
func (c *running) api(context.Context) error {
	c.info.API = c.cfg.Dir.APISocket()
	var err error
	if c.secrets, err = secrets.Open(c.cfg.Dir.secretsKey()); err != nil {
		return err
	}
	addresses := append([]string{c.info.API}, c.cfg.API...)
	return parts.StartREST(c.stack, parts.RESTConfig{
		Etcd:      &etcdstore.Config{Endpoints: []string{c.info.Endpoint}, Limits: etcdstore.ServerLimits()},
		Addresses: addresses, Cert: c.cfg.APICert, Key: c.cfg.APIKey, OIDC: c.cfg.OIDC, Store: c.store, History: c.history, Secrets: c.secrets, Tunnels: c.tunnels, Version: c.cfg.Version, Log: c.cfg.Log.Named("api"),
	})
}
