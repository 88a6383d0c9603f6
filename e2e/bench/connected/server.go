package connected

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/certs"
	"github.com/escher-sched/escher/api/gateway"
	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/api/tunnels"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

const (
	// host is the name in the certificates of servers, whose files are beside those of the authority.
	host     = "localhost"
	certFile = "server.pem"
	keyFile  = "server.key"
	// held is the counter of a server for the tunnels that it holds.
	held = "tunnels"
	// askPath asks the agent of a node, by its tunnel, for an answer.
	askPath = "/ask/{node}"
)

// serverPart is the port of a server: the gateway, and tunnels.
func serverPart(cfg rig.RoleConfig) rig.Part {
	var registry atomic.Pointer[tunnels.Registry]
	return rig.Part{
		Stats: func() map[string]float64 { return map[string]float64{held: float64(registry.Load().Len())} },
		Run: func(ctx context.Context, ready func(string)) error {
			return cfg.WithStore(ctx, func(store *etcdstore.Store) error {
				r, err := tunnels.New(tunnels.Config{Now: time.Now})
				if err != nil {
					return err
				}
				registry.Store(r)
				return serve(ctx, cfg, store, r, ready)
			})
		},
	}
}

// serve serves the port until ctx is done.
func serve(ctx context.Context, cfg rig.RoleConfig, store *etcdstore.Store, registry *tunnels.Registry, ready func(string)) error {
	conf, err := portTLS(cfg.Dir)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", host+":0")
	if err != nil {
		return types.Errorf(types.Precondition, "serve agents: %w", err)
	}
	authority := access.New(store, time.Now, zap.NewNop())
	use, watching := gateway.NewUse(time.Now)
	calls := gateway.New(gateway.Config{
		Etcd: store.Client().ActiveConnection(), Limits: store.Limits(), Authority: authority,
		Identify: gateway.Bearer(authority), Known: authority.Knows, Use: use, Watching: watching, Now: time.Now,
	})
	others := http.NewServeMux()
	others.HandleFunc(askPath, func(w http.ResponseWriter, r *http.Request) { ask(w, r, registry) })
	handler := registry.Handler(others, authority, rest.Bearer(authority))
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return authority.Run(ctx) })
	g.Go(func() error { return registry.Run(ctx) })
	g.Go(func() error {
		return gateway.Serve(ctx, gateway.NewHandshakes().Listen(l, conf), calls, func(ctx context.Context, l net.Listener) error {
			return answer.Serve(ctx, l, &http.Server{Handler: handler, ConnContext: gateway.Shown, ReadHeaderTimeout: time.Minute})
		})
	})
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		return types.Errorf(types.Internal, "serve agents: %w", err)
	}
	ready("https://" + net.JoinHostPort(host, port))
	return g.Wait()
}

// portTLS returns the configuration of a server's port: agents show certificates.
func portTLS(dir string) (*tls.Config, error) {
	ca, err := certs.Load(dir)
	if err != nil {
		return nil, err
	}
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
	if err != nil {
		return nil, types.Errorf(types.Internal, "serve agents: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{cert}, ClientCAs: ca.Pool(), ClientAuth: tls.VerifyClientCertIfGiven,
		NextProtos: []string{"http/1.1", "h2"},
	}, nil
}

// ask passes on the answer of the agent of a node, which comes by its tunnel.
func ask(w http.ResponseWriter, r *http.Request, registry *tunnels.Registry) {
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return registry.Dial(ctx, r.PathValue("node"))
	}}
	next, err := http.NewRequestWithContext(r.Context(), http.MethodGet, "http://node/", http.NoBody)
	if err == nil {
		var answer *http.Response
		if answer, err = transport.RoundTrip(next); err == nil {
			defer answer.Body.Close()
			w.WriteHeader(answer.StatusCode)
			_, _ = io.Copy(w, answer.Body) // the client counts what arrives
			return
		}
	}
	http.Error(w, err.Error(), http.StatusBadGateway)
}
