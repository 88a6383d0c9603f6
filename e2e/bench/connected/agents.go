package connected

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/certs"
	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/api/tunnels"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/e2e/bench/agents"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/nodeagent/serve/tunnel"
	"github.com/escher-sched/escher/types"
)

const (
	// joining is how many agents get certificates at once, and shaking how many connect: all of them take the
	// processors of one machine here.
	joining = 16
	shaking = 16
	// sessionTTL is the time to live of the sessions.
	sessionTTL = 30 * time.Second
	// life is how long certificates are valid.
	life = time.Hour
)

// agentsPart is the hollow agents of every Of-th node, each with connections of its own.
func agentsPart(cfg rig.RoleConfig) rig.Part {
	return rig.Part{Run: func(ctx context.Context, ready func(string)) error {
		ca, err := certs.Load(cfg.Dir)
		if err != nil {
			return err
		}
		var nodes []string
		for i := cfg.Share.First; i < cfg.Share.Nodes; i += cfg.Share.Of {
			nodes = append(nodes, rig.NodeName(i))
		}
		var shown []tls.Certificate
		err = cfg.WithStore(ctx, func(store *etcdstore.Store) error {
			shown, err = join(ctx, store, ca, nodes)
			return err
		})
		if err != nil {
			return err
		}
		ready("") // the clock starts when all have joined
		return run(ctx, cfg, ca.Pool(), nodes, shown)
	}}
}

// join makes certificates of nodes, as root.
func join(ctx context.Context, store controlplane.Store, ca *certs.Authority, nodes []string) ([]tls.Certificate, error) {
	out := make([]tls.Certificate, len(nodes))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(joining)
	for i, node := range nodes {
		g.Go(func() (err error) {
			out[i], err = joinOne(ctx, store, ca, node)
			return err
		})
	}
	return out, g.Wait()
}

func joinOne(ctx context.Context, store controlplane.Store, ca *certs.Authority, node string) (cert tls.Certificate, err error) {
	key, err := certs.NewKey()
	if err != nil {
		return cert, err
	}
	request, err := certs.Request(key, node)
	if err != nil {
		return cert, err
	}
	now := time.Now()
	signed, hash, expires, err := ca.Sign(request, node, now)
	if err != nil {
		return cert, err
	}
	// Its own token would end with this.
	self := access.Caller{Identity: access.Identity{Subject: types.NodeSubject + ":" + node, Token: "join"}}
	if err := (access.Manager{Store: store, Now: time.Now}).Certify(ctx, self, node, hash, expires); err != nil {
		return cert, err
	}
	if cert, err = tls.X509KeyPair(signed, key); err != nil {
		return cert, types.Errorf(types.Internal, "join node %s: %w", node, err)
	}
	return cert, nil
}

// run runs the agents until ctx is done.
func run(ctx context.Context, cfg rig.RoleConfig, pool *x509.CertPool, nodes []string, shown []tls.Certificate) (err error) {
	hollow := agents.Config{Nodes: nodes, TTL: sessionTTL, Opening: shaking, Ready: func() {}}
	g, ctx := errgroup.WithContext(ctx)
	slots := make(chan struct{}, shaking)
	for i, node := range nodes {
		store, err := etcdstore.Open(etcdstore.Config{
			Endpoints: []string{cfg.Server}, TLS: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool, Certificates: shown[i : i+1]},
			Limits: controlplane.Limits{Ops: cfg.Ops, Bytes: etcdstore.StockLimits().Bytes},
		})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, store.Close()) }()
		hollow.Stores = append(hollow.Stores, store)
		t := tunnel.New(func(ctx context.Context) (io.ReadWriteCloser, error) {
			slots <- struct{}{}
			defer func() { <-slots }()
			c, err := client.New(client.Config{
				Server: cfg.Server, CACert: filepath.Join(cfg.Dir, certs.CAFile),
				Certificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &shown[i], nil },
			})
			if err != nil {
				return nil, err
			}
			defer c.Close()
			return tunnels.Connect(ctx, c, node)
		}, nil)
		s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "ok") // the client counts what arrives
		})}
		g.Go(func() error { return t.Run(ctx) })
		g.Go(func() error { return s.Serve(t.Listen()) })
		context.AfterFunc(ctx, func() { _ = s.Close() }) // nothing is asked any more
	}
	g.Go(func() error { return agents.Run(ctx, hollow) })
	return g.Wait()
}
