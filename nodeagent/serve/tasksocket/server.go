package tasksocket

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/peers"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

// Config configures the socket of an attempt.
type Config struct {
	// Dir is the directory of the socket, for this attempt alone. Listen makes it, and removes
	// anything in the socket's place.
	Dir string
	// Client is of the task's namespace.
	Client *controlplane.Client
	Self   Self
	// Mode is what the task may do; SocketNone has no server.
	Mode types.Socket
	// Budget returns the budget of the namespace, usually at once; nil means the built-in budget.
	Budget func(context.Context) types.Budget
	// Peers tells which tasks of the job run, and the task itself, at once and after each change,
	// until ctx is done or tell returns an error. nil means that the task has no peers.
	Peers func(ctx context.Context, tell func([]peers.Peer) error) error
	// API serves the operations of the HTTP API to the caller in the context of a request: see
	// CallerOf. nil means that there are none.
	API http.Handler
	// Bounds are shared by all sockets of the agent; nil means not shared.
	Bounds *Bounds
	// Log logs internal errors; nil means no log.
	Log *zap.Logger
}

// Server serves the socket of one attempt.
type Server struct {
	cfg      Config
	listener net.Listener
	http     *http.Server
	// share is the namespace's share of the bounds, until leave.
	share *share
	leave func()
	// watches has an entry for every open watch.
	watches chan struct{}
	// user is the user of the task, once it was read.
	user atomic.Pointer[string]
}

// Listen makes the socket. Requests wait until Run.
func Listen(cfg Config) (*Server, error) {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.Budget == nil {
		cfg.Budget = builtIn
	}
	if cfg.API == nil {
		cfg.API = answer.Missing("docs/task-api.md")
	}
	if cfg.Bounds == nil {
		cfg.Bounds = NewBounds()
	}
	// The container may run as any user. The parent directory controls access on the host.
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, types.Errorf(types.Unavailable, "make task socket: %w", err)
	}
	path := filepath.Join(cfg.Dir, Name)
	if err := os.RemoveAll(path); err != nil {
		return nil, types.Errorf(types.Unavailable, "make task socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, types.Errorf(types.Unavailable, "make task socket: %w", err)
	}
	if err := errors.Join(os.Chmod(cfg.Dir, 0o755), openToAll(path)); err != nil {
		l.Close()
		return nil, types.Errorf(types.Unavailable, "make task socket: %w", err)
	}
	s := &Server{cfg: cfg, listener: cfg.Bounds.bound(l), watches: make(chan struct{}, maxWatches)}
	s.share, s.leave = cfg.Bounds.join(cfg.Client.Namespace())
	s.http = &http.Server{
		Handler: s.limited(http.HandlerFunc(s.operation)), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(io.Discard, "", 0), // what a task does wrong is reported to the task
	}
	return s, nil
}

// Run serves until ctx is done. Then it ends requests under way, and removes the socket.
func (s *Server) Run(ctx context.Context) error {
	defer s.leave()
	err := answer.Serve(ctx, s.listener, s.http)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return types.Errorf(types.Unavailable, "serve task socket: %w", err)
}
