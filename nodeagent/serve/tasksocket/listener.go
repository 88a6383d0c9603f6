package tasksocket

import (
	"net"
	"sync"
)

// bounded is a listener with a limited number of connections. Further ones wait in the kernel,
// where they use no memory of the agent. Each socket has some guaranteed ones. Its others count
// against the limit of the whole agent.
type bounded struct {
	net.Listener
	sure, own, shared chan struct{}
	closed            chan struct{}
	close             func() error
}

func (b *Bounds) bound(l net.Listener) *bounded {
	out := &bounded{
		Listener: l, closed: make(chan struct{}), shared: b.connections,
		sure: make(chan struct{}, sureConnections), own: make(chan struct{}, maxConnections-sureConnections),
	}
	out.close = sync.OnceValue(func() error { close(out.closed); return l.Close() })
	return out
}

// Accept waits until another connection is allowed, and then accepts one.
func (l *bounded) Accept() (net.Conn, error) {
	release, ok := l.admit()
	if !ok {
		return nil, net.ErrClosed
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		release()
		return nil, err
	}
	return &admitted{Conn: conn, release: sync.OnceFunc(release)}, nil
}

// admit waits until another connection is allowed; ok is false if the listener is closed.
func (l *bounded) admit() (release func(), ok bool) {
	select {
	case l.sure <- struct{}{}:
		return func() { <-l.sure }, true
	default:
	}
	select {
	case l.sure <- struct{}{}:
		return func() { <-l.sure }, true
	case l.own <- struct{}{}:
	case <-l.closed:
		return nil, false
	}
	select {
	case l.sure <- struct{}{}:
		<-l.own
		return func() { <-l.sure }, true
	case l.shared <- struct{}{}:
		return func() { <-l.shared; <-l.own }, true
	case <-l.closed:
		<-l.own
		return nil, false
	}
}

// Close closes the listener.
func (l *bounded) Close() error { return l.close() }

// admitted is a connection that counts until it is closed.
type admitted struct {
	net.Conn
	release func()
}

// Close closes the connection.
func (c *admitted) Close() error {
	defer c.release()
	return c.Conn.Close()
}
