package tasksocket

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Config says whose socket it is.
type Config struct {
	// Dir is the directory of the socket, for this attempt alone: it is made,
	// and what is in the socket's place removed.
	Dir string
	// Client is of the task's namespace.
	Client *controlplane.Client
	Self   Self
	// Log is told of requests that fail for reasons of ours; nil is nobody.
	Log *zap.Logger
}

// Server serves the socket of one attempt.
type Server struct {
	cfg      Config
	listener net.Listener
	http     *http.Server
	// watches has an entry for every watch that is open.
	watches chan struct{}
}

// Listen makes the socket: requests wait until Run.
func Listen(cfg Config) (*Server, error) {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	// The container may run as any user. Who may come this far on the host is
	// decided by the directory above.
	if err := os.MkdirAll(cfg.Dir, 0o755); err != nil {
		return nil, types.Errorf(types.Unavailable, "make task socket: %w", err)
	}
	path := filepath.Join(cfg.Dir, Name)
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, types.Errorf(types.Unavailable, "make task socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, types.Errorf(types.Unavailable, "make task socket: %w", err)
	}
	if err := errors.Join(os.Chmod(cfg.Dir, 0o755), os.Chmod(path, 0o666)); err != nil {
		l.Close()
		return nil, types.Errorf(types.Unavailable, "make task socket: %w", err)
	}
	s := &Server{cfg: cfg, listener: l, watches: make(chan struct{}, maxWatches)}
	s.http = &http.Server{Handler: limited(s.routes()), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout}
	return s, nil
}

// Run serves until ctx is done; then it ends what is being served, and removes the
// socket.
func (s *Server) Run(ctx context.Context) error {
	s.http.BaseContext = func(net.Listener) context.Context { return ctx }
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		if s.http.Shutdown(last) != nil {
			_ = s.http.Close() // There is nothing to be done about it.
		}
	})
	err := s.http.Serve(s.listener)
	if !stop() {
		<-ended
		return ctx.Err()
	}
	_ = s.http.Close() // There is nothing to be done about it.
	return types.Errorf(types.Unavailable, "serve task socket: %w", err)
}
