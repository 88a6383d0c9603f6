// Package tunnel multiplexes the connections of an agent's API over one connection, which the agent opens
// to a server. So the agent opens no port. An Agent accepts the streams of a server; a Session is the
// server's side.
package tunnel

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/yamux"

	"github.com/escher-sched/escher/types"
)

// MaxStreams is the most streams of a tunnel at a time.
const MaxStreams = 2304

const (
	// heartbeat is how often an agent sends a ping. A connection without data for silence is dead, and so is
	// one that takes no data for that long.
	heartbeat = 10 * time.Second
	silence   = 30 * time.Second
	// queueing is how long data of a stream may wait for that of others. Longer than that ends the tunnel: the
	// other side would wait for the data forever.
	queueing = time.Minute
	// chunk is the most bytes of a stream between those of others.
	chunk = 32 << 10
	// greeting is the byte with which an agent begins each stream. greeted is how long a server waits for it.
	greeting = 0x06
	greeted  = 5 * time.Second
	// maxOpening bounds the streams that are being opened at a time. An agent that does not acknowledge them
	// would hold each for minutes.
	maxOpening = 128
	// pingRate and pingBurst bound the pings of an agent, per second and at once.
	pingRate, pingBurst = 1, 10
)

// settings returns the settings of a multiplexer. Pings of its own would count a busy connection as dead.
func settings() *yamux.Config {
	conf := yamux.DefaultConfig()
	conf.EnableKeepAlive = false
	conf.ConnectionWriteTimeout = queueing
	conf.StreamOpenTimeout = 0 // the greeting has a limit
	conf.LogOutput = io.Discard
	return conf
}

// Session is the server's side of a tunnel. Its methods may be called concurrently.
type Session struct {
	mux  *yamux.Session
	conn *watched
	// most bounds the streams at a time.
	most int
	// opening counts the streams that are being opened.
	opening atomic.Int64
}

// NewSession begins the server's side of a tunnel on a connection, which it closes at its end. Then it calls
// ended, which must return soon.
func NewSession(conn io.ReadWriteCloser, ended func()) (*Session, error) {
	w := watch(conn, ended)
	w.vet = newVetting()
	mux, err := yamux.Client(w, settings())
	if err != nil {
		return nil, types.Errorf(types.Internal, "begin a tunnel: %w", err)
	}
	return &Session{mux: mux, conn: w, most: MaxStreams}, nil
}

// Close ends the tunnel with all its streams, and waits for its end.
func (s *Session) Close() { end(s.mux, s.conn) }

// end ends a tunnel, and waits for its end. The connection is closed first: between the end of the
// multiplexer and that of its connection, readers of yamux's streams would spin.
func end(mux *yamux.Session, conn *watched) {
	_ = conn.Close() // nothing is left to do about it
	<-mux.CloseChan()
	_ = mux.Close() // it never fails
}

// Open opens a stream, which the agent has accepted when Open returns. Unavailable: the agent does not
// accept it in time, or has too many, or the tunnel has ended.
func (s *Session) Open(ctx context.Context) (net.Conn, error) {
	if s.mux.NumStreams() >= s.most {
		return nil, types.Errorf(types.Unavailable, "its tunnel has %d connections already: try again later", s.most)
	}
	if s.opening.Add(1) > maxOpening {
		s.opening.Add(-1)
		return nil, types.Errorf(types.Unavailable, "its agent has not answered to %d connections in its tunnel: try again later", maxOpening)
	}
	ctx, cancel := context.WithTimeout(ctx, greeted)
	defer cancel()
	type opened struct {
		conn net.Conn
		err  error
	}
	done := make(chan opened, 1)
	go func() { // it ends with the wait for the greeting, or with the tunnel
		defer s.opening.Add(-1)
		conn, err := s.open()
		done <- opened{conn, err}
	}()
	select {
	case o := <-done:
		return o.conn, o.err
	case <-ctx.Done():
	}
	go func() {
		if o := <-done; o.conn != nil {
			_ = o.conn.Close() // its caller has gone
		}
	}()
	return nil, types.Errorf(types.Unavailable, "its agent does not answer in its tunnel: %w", ctx.Err())
}

// open opens a stream, and waits for the greeting of the agent.
func (s *Session) open() (net.Conn, error) {
	inner, err := s.mux.OpenStream()
	if err != nil {
		return nil, types.Errorf(types.Unavailable, "its tunnel has ended: %w", err)
	}
	conn := &stream{Stream: inner}
	var first [1]byte
	err = conn.SetReadDeadline(time.Now().Add(greeted))
	if err == nil {
		_, err = io.ReadFull(conn, first[:])
	}
	if err != nil || first[0] != greeting {
		_ = conn.Close() // it is of no use
		return nil, types.Errorf(types.Unavailable, "its agent takes no more connections, or ends: try again later")
	}
	return conn, conn.SetReadDeadline(time.Time{})
}

// stream is a connection within a tunnel. Unlike a stream of yamux, it ends its reads when it is closed,
// and the whole tunnel when data could not be sent: the other side would wait for the data forever.
type stream struct {
	*yamux.Stream
	closed atomic.Bool
	once   sync.Once
	// release, unless nil, is called once at the end.
	release func()
}

// Read reads data.
func (s *stream) Read(p []byte) (int, error) {
	n, err := s.Stream.Read(p)
	return n, s.failed(err)
}

// Write writes data, in chunks between which those of other streams have their turn.
func (s *stream) Write(p []byte) (n int, err error) {
	for len(p) > 0 && err == nil {
		var m int
		m, err = s.Stream.Write(p[:min(len(p), chunk)])
		n, p = n+m, p[m:]
	}
	return n, s.failed(err)
}

// failed returns the error of a read or write as net.Conn has it.
func (s *stream) failed(err error) error {
	switch {
	case err == nil || errors.Is(err, io.EOF):
		return err
	case s.closed.Load():
		return net.ErrClosed
	case errors.Is(err, yamux.ErrConnectionWriteTimeout):
		go s.Session().Close() //nolint:errcheck // it never fails; this stream is part of what it ends
	}
	return err
}

// Close closes the stream.
func (s *stream) Close() error {
	s.once.Do(func() {
		s.closed.Store(true)
		_ = s.Stream.Close() // it never fails
		_ = s.Stream.SetDeadline(time.Unix(1, 0))
		if s.release != nil {
			s.release()
		}
	})
	return nil
}

// SetDeadline sets both deadlines.
func (s *stream) SetDeadline(t time.Time) error {
	return errors.Join(s.SetReadDeadline(t), s.SetWriteDeadline(t))
}

// SetReadDeadline sets the deadline of reads, unless the stream is closed.
func (s *stream) SetReadDeadline(t time.Time) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	return s.Stream.SetReadDeadline(t)
}

// SetWriteDeadline sets the deadline of writes, unless the stream is closed.
func (s *stream) SetWriteDeadline(t time.Time) error {
	if s.closed.Load() {
		return net.ErrClosed
	}
	return s.Stream.SetWriteDeadline(t)
}
