package rig

import (
	"context"
	"net"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/metadata"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/gateway"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// startGateway starts a gateway, and makes the token of the schedulers.
func (c *Cluster) startGateway() error {
	m, root := access.Manager{Store: c.Store, Now: time.Now}, access.From(c.ctx)
	const subject = types.ServiceSubject + ":scheduler"
	err := m.Grant(c.ctx, root, "scheduler", types.Right{
		Subjects: []string{subject}, Role: rights.Viewer, Allow: []string{"read bindings", "write bindings"}, Namespaces: []string{types.Everywhere},
	})
	if err != nil {
		return err
	}
	if _, c.token, err = m.MakeToken(c.ctx, root, types.Credential{Subject: subject}, 0); err != nil {
		return err
	}
	p, err := c.Start(roleGateway, roleGateway, RoleConfig{Endpoint: c.Endpoint, Ops: c.Config.Ops})
	if err == nil {
		c.gateway, err = p.Ready(c.ctx)
	}
	return err
}

// gatewayPart is a gateway for bearers of tokens and, without one, for root.
func gatewayPart(cfg RoleConfig) Part {
	return Part{Run: func(ctx context.Context, ready func(string)) error {
		return cfg.WithStore(ctx, func(store *etcdstore.Store) error {
			authority := access.New(store, time.Now, zap.NewNop())
			identify := func(ctx context.Context) (access.Identity, error) {
				if md, _ := metadata.FromIncomingContext(ctx); len(md.Get("authorization")) > 0 {
					return gateway.Bearer(authority)(ctx)
				}
				return access.Root("root"), nil
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return types.Errorf(types.Precondition, "gateway: %w", err)
			}
			use, watching := gateway.NewUse(time.Now)
			s := gateway.New(gateway.Config{
				Etcd: store.Client().ActiveConnection(), Limits: store.Limits(), Authority: authority, Identify: identify, Use: use, Watching: watching, Now: time.Now,
			})
			g, ctx := errgroup.WithContext(ctx)
			g.Go(func() error { return authority.Run(ctx) })
			g.Go(func() error { return s.Serve(l) })
			context.AfterFunc(ctx, s.Stop)
			ready(l.Addr().String())
			return g.Wait()
		})
	}}
}
