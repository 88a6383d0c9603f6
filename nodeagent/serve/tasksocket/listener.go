package tasksocket

import (
	"net"
	"sync"
)

// bounded is a listener that accepts a bounded number of connections. More of them wait
// in the kernel, where they take no memory of the agent. Each socket is sure of some;
// what it has beyond these counts for the whole agent.
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

// Accept waits until there may be one more connection, and for that.
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

// admit waits until one more connection is allowed; ok is false if the listener is closed.
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

// Close ends it.
func (l *bounded) Close() error { return l.close() }

// admitted is a connection that counts until it is closed.
type admitted struct {
	net.Conn
	release func()
}

// Close closes it.
func (c *admitted) Close() error {
	defer c.release()
	return c.Conn.Close()
}
