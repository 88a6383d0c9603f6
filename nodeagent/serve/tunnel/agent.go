package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/yamux"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// Agent is the agent's side of a tunnel.
type Agent struct {
	// connect connects to a server, and asks it for a tunnel.
	connect func(ctx context.Context) (io.ReadWriteCloser, error)
	log     *zap.Logger
	// Renewed, unless nil, reports whether the node has a newer certificate than that of the last connection,
	// which ends the tunnel when its own ends. Then the agent connects again as soon as no stream is open.
	Renewed func() bool
	// conns passes streams to listeners, and slots has an entry for each open stream.
	conns chan net.Conn
	slots chan struct{}
}

// New returns the agent's side of a tunnel. Run must run. connect connects to a server with the identity that
// the node has then, and asks it for a tunnel. A nil log means none.
func New(connect func(ctx context.Context) (io.ReadWriteCloser, error), log *zap.Logger) *Agent {
	if log == nil {
		log = zap.NewNop()
	}
	return &Agent{connect: connect, log: log, conns: make(chan net.Conn), slots: make(chan struct{}, MaxStreams)}
}

// Run keeps the tunnel open until ctx is done: it connects again, after a growing pause, when the
// connection has ended.
func (a *Agent) Run(ctx context.Context) error {
	schedule, said := supervise.NewSchedule(), ""
	for {
		began := time.Now()
		opened, err := a.serve(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if errors.Is(err, errRenewed) {
			continue
		}
		if opened {
			said = ""
		}
		if text := err.Error(); text != said {
			a.log.Warn("the tunnel to the server is not open", zap.Error(err))
			said = text
		}
		if err := schedule.Pause(ctx, time.Since(began)); err != nil {
			return err
		}
	}
}

// errRenewed ends a connection with an older certificate.
var errRenewed = errors.New("the certificate was renewed")

// serve opens the tunnel, and accepts streams until it ends or ctx is done. It reports whether the tunnel
// was open.
func (a *Agent) serve(ctx context.Context) (opened bool, err error) {
	conn, err := a.connect(ctx)
	if err != nil {
		return false, err
	}
	w := watch(conn, nil)
	mux, err := yamux.Server(w, settings())
	if err != nil {
		return false, types.Errorf(types.Internal, "begin a tunnel: %w", err)
	}
	a.log.Info("the tunnel to the server is open")
	g, ctx := supervise.WithContext(ctx)
	g.Go(func() error {
		<-ctx.Done()
		end(mux, w)
		return ctx.Err()
	})
	g.Go(func() error {
		for {
			if err := supervise.Pause(ctx, heartbeat); err != nil {
				return err
			}
			_, _ = mux.Ping() // without an answer, the connection closes itself
			if a.Renewed != nil && mux.NumStreams() == 0 && a.Renewed() {
				return errRenewed
			}
		}
	})
	g.Go(func() error { return a.accept(ctx, mux) })
	return true, g.Wait()
}

// accept passes streams to listeners, until the tunnel ends.
func (a *Agent) accept(ctx context.Context, mux *yamux.Session) error {
	for {
		inner, err := mux.AcceptStream()
		if err != nil {
			return types.Errorf(types.Unavailable, "the connection to the server has ended: %w", err)
		}
		select {
		case a.slots <- struct{}{}:
		default:
			_ = inner.Close() // the server sees that it is not greeted
			continue
		}
		conn := &stream{Stream: inner, release: func() { <-a.slots }}
		select {
		case a.conns <- conn:
		case <-ctx.Done():
			_ = conn.Close() // with the tunnel
			return ctx.Err()
		}
	}
}

// Listen returns a listener that accepts the streams of the tunnel, also of later connections.
func (a *Agent) Listen() net.Listener { return &listener{agent: a, closed: make(chan struct{})} }

// listener accepts streams.
type listener struct {
	agent  *Agent
	once   sync.Once
	closed chan struct{}
}

// Accept returns the next stream, with a greeting to the server.
func (l *listener) Accept() (net.Conn, error) {
	for {
		select {
		case <-l.closed:
			return nil, net.ErrClosed
		case conn := <-l.agent.conns:
			if _, err := conn.Write([]byte{greeting}); err == nil {
				return conn, nil
			}
			_ = conn.Close() // the tunnel has ended, or the server does not want the stream any more
		}
	}
}

// Close closes the listener. Streams go on.
func (l *listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns the name of the network.
func (l *listener) Addr() net.Addr { return address{} }

// address is that of all tunnels.
type address struct{}

// Network returns the name of the network.
func (address) Network() string { return "tunnel" }

// String returns the address of a node that is reached by its tunnel.
func (address) String() string { return types.TunnelAddress }
