package tasksocket

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
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
	// Mode is what the task may do; SocketNone has no server.
	Mode types.Socket
	// Budget returns what the namespace is allowed, at once as a rule; nil is the built-in
	// budget.
	Budget func(context.Context) types.Budget
	// Bounds are shared by all sockets of the agent; nil is bounds of its own.
	Bounds *Bounds
	// Log is told of requests that fail for reasons of ours; nil is nobody.
	Log *zap.Logger
}

// Server serves the socket of one attempt.
type Server struct {
	cfg      Config
	listener net.Listener
	http     *http.Server
	// share is what the namespace may use of the bounds, until leave.
	share *share
	leave func()
	// watches has an entry for every watch that is open.
	watches chan struct{}
}

// Listen makes the socket: requests wait until Run.
func Listen(cfg Config) (*Server, error) {
	if cfg.Log == nil {
		cfg.Log = zap.NewNop()
	}
	if cfg.Budget == nil {
		cfg.Budget = builtIn
	}
	if cfg.Bounds == nil {
		cfg.Bounds = NewBounds()
	}
	// The container may run as any user. Who may come this far on the host is
	// decided by the directory above.
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
		Handler: s.handler(), ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: log.New(io.Discard, "", 0), // what a task does wrong is told to the task
	}
	return s, nil
}

// openToAll lets every user connect to the socket at path, and changes nothing but a
// socket: who may write to its directory, such as a task that an older agent started,
// may have put a link in its place that leads to a file of the machine.
func openToAll(path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return fmt.Errorf("%s is not the socket that was made there: something else took its place", path)
	}
	// A descriptor of O_PATH takes no fchmod; its name in /proc is the file itself.
	return os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o666)
}

// Run serves until ctx is done; then it ends what is being served, and removes the
// socket.
func (s *Server) Run(ctx context.Context) error {
	defer s.leave()
	err := answer.Serve(ctx, s.listener, s.http)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return types.Errorf(types.Unavailable, "serve task socket: %w", err)
}
