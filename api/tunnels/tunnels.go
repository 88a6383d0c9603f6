// Package tunnels is the servers' side of the tunnels of nodes. An agent that opens no port opens a
// connection to a server instead, and serves its API through that: package nodeagent/serve/tunnel. A
// server reaches the tunnels of the other servers by them.
package tunnels

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/nodeagent/serve/tunnel"
	"github.com/escher-sched/escher/types"
)

// The limits of the tunnels that one node opens: a second, and at once without a pause.
const (
	openRate  = 0.5
	openBurst = 20
)

// The limits of warnings: a second, and at once without a pause.
const (
	warnRate  = 1
	warnBurst = 10
)

// Config configures a registry.
type Config struct {
	// Store has the addresses of the other servers, and Name is the name of this one there; empty means that
	// there are no others. Address is host:port at which they reach this one; empty means that they do not.
	Store         controlplane.Store
	Name, Address string
	// Connect connects to an address of another server; nil means by TCP.
	Connect func(ctx context.Context, address string) (net.Conn, error)
	// Now returns the time.
	Now func() time.Time
	// Log logs tunnels; nil means no log.
	Log *zap.Logger
}

// Registry holds the tunnels of nodes that have connected to this server. Its methods may be called
// concurrently.
type Registry struct {
	cfg  Config
	self *self
	use  *access.Gauges
	// warnings bounds the warnings, as any program can cause some.
	warnings *access.Gauges

	mu sync.Mutex
	// open reports whether Run runs.
	open bool
	held map[string]*held
	// ending counts the tunnels and the streams of other servers.
	ending sync.WaitGroup
}

// held is the tunnel of a node.
type held struct {
	session *tunnel.Session
	// from is the address of its agent, and subject the identity that it has shown.
	from, subject string
	// release ends the request that opened it.
	release func()
}

// New returns a registry without tunnels. It takes some once Run runs.
func New(cfg Config) (*Registry, error) {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.Connect == nil {
		dialer := &net.Dialer{Timeout: connectTimeout}
		cfg.Connect = func(ctx context.Context, address string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", address)
		}
	}
	self, err := newSelf(cfg.Now())
	if err != nil {
		return nil, err
	}
	return &Registry{
		cfg: cfg, self: self, held: make(map[string]*held),
		use:      access.NewGauges(access.Use{Rate: openRate, Burst: openBurst}, cfg.Now),
		warnings: access.NewGauges(access.Use{Rate: warnRate, Burst: warnBurst}, cfg.Now),
	}, nil
}

// Run takes tunnels until ctx is done, and shows the other servers how they reach this one meanwhile. Then it
// closes all tunnels, and returns ctx.Err() at their end.
func (r *Registry) Run(ctx context.Context) error {
	r.mu.Lock()
	r.open = true
	r.mu.Unlock()
	err := r.show(ctx)
	r.mu.Lock()
	r.open = false
	for _, h := range r.held {
		go h.session.Close() // it takes a moment if the agent has gone
	}
	r.mu.Unlock()
	r.ending.Wait()
	return err
}

// Handler serves the requests of agents for tunnels, and those of other servers for streams. All others are
// for next. identify returns the identity of the sender of a request.
func (r *Registry) Handler(next http.Handler, authority *access.Authority, identify func(*http.Request) (access.Identity, error)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+path("{node}", tunnelOf), func(w http.ResponseWriter, req *http.Request) {
		if err := r.take(w, req, authority, identify); err != nil {
			if types.Is(err, types.Denied) {
				r.warner().Warn("a tunnel is denied", zap.String("address", req.RemoteAddr), zap.Error(err))
			} else {
				r.cfg.Log.Debug("a tunnel is refused", zap.Error(err)) // its agent says it, too
			}
			answer.Refuse(w, err)
		}
	})
	mux.HandleFunc("GET "+path("{node}", streamOf), func(w http.ResponseWriter, req *http.Request) {
		if err := r.forward(w, req); err != nil {
			answer.Refuse(w, err)
		}
	})
	mux.Handle("/", next)
	return mux
}

// take takes the tunnel of a node. Denied: the sender is not the agent of the node.
func (r *Registry) take(w http.ResponseWriter, req *http.Request, authority *access.Authority, identify func(*http.Request) (access.Identity, error)) error {
	node := req.PathValue("node")
	if err := errors.Join(types.ValidateName("node", node), upgrades(req, tunnelOf)); err != nil {
		return types.Errorf(types.Invalid, "%w", err)
	}
	id, err := identify(req)
	if err != nil {
		return err
	}
	if own := types.NodeSubject + ":" + node; !id.Root && id.Subject != own {
		return types.Errorf(types.Denied, "open a tunnel of node %s: the sender is %s: use the certificate or a token of %s", node, id.Subject, own)
	}
	if err := r.use.Message(id.Subject); err != nil {
		return err
	}
	ctx, end, err := authority.Hold(context.WithoutCancel(req.Context()), id, nil, "")
	if err != nil {
		return err
	}
	conn, err := hijack(w, tunnelOf, r.cfg.Now())
	if err != nil {
		end()
		return err
	}
	h := &held{from: hostOf(conn.RemoteAddr()), subject: id.Subject}
	if err := r.hold(ctx, node, h, conn, end); err != nil {
		r.cfg.Log.Warn("a tunnel has ended at once", zap.String("node", node), zap.Error(err))
	}
	return nil
}

// hostOf returns an address without its port, which each connection has of its own.
func hostOf(address net.Addr) string {
	host, _, err := net.SplitHostPort(address.String())
	if err != nil {
		return address.String()
	}
	return host
}

// warner returns the log for one warning; one without effect if there are too many.
func (r *Registry) warner() *zap.Logger {
	if r.warnings.Message("") != nil {
		return zap.NewNop()
	}
	return r.cfg.Log
}

// hold holds the tunnel of a node on a connection until one of them or ctx ends, and calls end then. It
// closes an older one.
func (r *Registry) hold(ctx context.Context, node string, h *held, conn net.Conn, end func()) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.open {
		end()
		return errors.Join(errEnds(), conn.Close())
	}
	session, err := tunnel.NewSession(conn, func() { go r.forget(node, h) })
	if err != nil {
		end()
		return errors.Join(err, conn.Close())
	}
	stop := context.AfterFunc(ctx, session.Close)
	h.session, h.release = session, func() { stop(); end() }
	if old := r.held[node]; old != nil {
		if old.from != h.from || old.subject != h.subject { // it may be a copy of the key of the node
			reason := "it is of " + h.subject + ", and the one before was of " + old.subject + " at " + old.from
			r.warner().Warn("a tunnel replaces one from another address", zap.String("node", node), zap.String("address", h.from), zap.String("reason", reason))
		}
		go old.session.Close() // it takes a moment if its agent has gone
	}
	r.held[node] = h
	r.ending.Add(1)
	r.cfg.Log.Debug("a tunnel is open", zap.String("node", node))
	return nil
}

// errEnds is the error of a server that does not run.
func errEnds() error {
	return types.Errorf(types.Unavailable, "this server starts or ends: try again")
}

// forget removes a tunnel that ends, and waits for its end.
func (r *Registry) forget(node string, h *held) {
	defer r.ending.Done()
	r.mu.Lock()
	if r.held[node] == h {
		delete(r.held, node)
	}
	r.mu.Unlock()
	h.session.Close()
	h.release()
	r.cfg.Log.Debug("a tunnel has ended", zap.String("node", node))
}

// of returns the tunnel of a node that this server holds; nil if there is none.
func (r *Registry) of(node string) *tunnel.Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	if h := r.held[node]; h != nil {
		return h.session
	}
	return nil
}

// Dial connects to the API of a node by its tunnel, at this server or at another one. Unavailable: no server
// holds one through which the agent answers.
func (r *Registry) Dial(ctx context.Context, node string) (net.Conn, error) {
	var problem error
	if session := r.of(node); session != nil {
		conn, err := session.Open(ctx)
		if err == nil {
			return conn, nil
		}
		problem = err
	}
	conn, err := r.elsewhere(ctx, node)
	if problem != nil && err != nil {
		err = types.Errorf(types.Unavailable, "%w (elsewhere: %w)", problem, err)
	}
	return conn, err
}

// Len returns the number of tunnels that this server holds.
func (r *Registry) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.held)
}

// path returns the path of a request about a node.
func path(node, what string) string {
	return "/v1/nodes/" + node + "/" + strings.TrimPrefix(what, "escher-")
}
