package gateway_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/gateway"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/controlplane/storetest"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// world is an etcd with a gateway in front of it.
type world struct {
	t *testing.T
	access.Manager
	// direct is the store of etcd itself.
	direct    *etcdstore.Store
	srv       *etcdtest.Server
	address   string
	authority *access.Authority
	use       *access.Gauges
}

// start starts a gateway. identify nil means by tokens.
func start(t *testing.T, identify func(context.Context) (access.Identity, error)) *world {
	t.Helper()
	srv := etcdtest.Start(t)
	direct := etcdstore.New(srv.Client, etcdstore.ServerLimits())
	authority := access.New(direct, time.Now, zap.NewNop())
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- authority.Run(ctx) }()
	var known func(string) bool
	if identify == nil {
		identify, known = gateway.Bearer(authority), authority.Knows
	}
	use, watching := gateway.NewUse(time.Now)
	s := gateway.New(gateway.Config{
		Etcd: srv.Client.ActiveConnection(), Limits: etcdstore.ServerLimits(), Authority: authority, Identify: identify, Known: known, Use: use, Watching: watching,
		Rules: share.Rules(direct), Now: time.Now,
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error)
	go func() { served <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		cancel()
		if err := errors.Join(ignoreCanceled(<-served), ignoreCanceled(<-ended)); err != nil {
			t.Error(err)
		}
	})
	return &world{t, access.Manager{Store: direct, Now: time.Now}, direct, srv, l.Addr().String(), authority, use}
}

func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return err
}

// grant gives subjects rights, and waits until the gateway knows that.
func (w *world) grant(name string, r types.Right) {
	w.t.Helper()
	if err := w.Grant(w.t.Context(), access.From(w.t.Context()), name, r); err != nil {
		w.t.Fatal(err)
	}
	need, ns := rights.Need{Verb: rights.Read, Kind: rights.Tasks}, r.Namespaces[0]
	if ns == types.Everywhere {
		ns = ""
	}
	w.await("the right is known", func() bool { return w.authority.May(access.Identity{Subject: r.Subjects[0]}, need, ns) == nil })
}

// as returns the store of a subject, with the id of its token.
func (w *world) as(subject string, opts ...etcdstore.Option) (*etcdstore.Store, string) {
	w.t.Helper()
	id, token, err := w.MakeToken(w.t.Context(), access.From(w.t.Context()), types.Credential{Subject: subject}, time.Hour)
	if err != nil {
		w.t.Fatal(err)
	}
	return w.bearing(token, opts...), id
}

// bearing returns the store of the bearer of a token, once the gateway knows that.
func (w *world) bearing(token string, opts ...etcdstore.Option) *etcdstore.Store {
	w.t.Helper()
	s, err := etcdstore.Open(etcdstore.Config{Endpoints: []string{w.address}, Token: token, Options: append(opts, etcdstore.WithProgressInterval(50*time.Millisecond))})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = s.Close() })
	w.await("the token is known", func() bool {
		_, err := s.List(w.t.Context(), controlplane.ListOptions{Key: "/escher/"})
		return err == nil || !strings.Contains(err.Error(), "unknown")
	})
	return s
}

// await waits until something holds.
func (w *world) await(what string, holds func() bool) {
	w.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(20 * time.Second); !holds(); <-tick.C {
		if time.Now().After(until) {
			w.t.Fatalf("not in time: %s", what)
		}
	}
}

// put puts values directly.
func (w *world) put(values map[string]types.Message) {
	w.t.Helper()
	change := controlplane.NewChange(controlplane.NewBatch())
	for key, m := range values {
		change.Put(key, m)
	}
	if res, err := w.direct.Commit(w.t.Context(), change.Txn()); err != nil || !res.Committed {
		w.t.Fatal(res, err)
	}
}

// full is a store whose etcd a test fills.
type full struct {
	*etcdstore.Store
	srv *etcdtest.Server
}

func (f full) SetFull(ctx context.Context, full bool) error { return f.srv.SetFull(ctx, full) }

// TestConformance: behind the gateway, root has the store that it has without it.
func TestConformance(t *testing.T) {
	w := start(t, func(context.Context) (access.Identity, error) { return access.Root("root"), nil })
	s, err := etcdstore.Dial(t.Context(), etcdstore.Config{Endpoints: []string{w.address}, Options: []etcdstore.Option{etcdstore.WithProgressInterval(50 * time.Millisecond)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if s.Limits() != etcdstore.ServerLimits() {
		t.Errorf("limits %v", s.Limits())
	}
	storetest.Run(t, func(*testing.T) controlplane.Store { return full{s, w.srv} })
}

// TestConformanceOfSharedWatches: so are many watches on one stream.
func TestConformanceOfSharedWatches(t *testing.T) {
	w := start(t, func(context.Context) (access.Identity, error) { return access.Root("root"), nil })
	s := w.bearing("", etcdstore.SharedWatches())
	storetest.Run(t, func(*testing.T) controlplane.Store { return full{s, w.srv} }, "Watch", "Compact", "Full", "Context")
}

// caller returns an administrator.
func caller(t *testing.T) access.Caller { return access.From(t.Context()) }
