package gateway

import (
	"crypto/tls"
	"net"
	"runtime"
	"sync"
	"time"

	"github.com/escher-sched/escher/types"
)

const (
	// handshakesPerCore is how many handshakes are made at once for each processor, and slotTime the time after
	// which one no longer counts: its client is slow, and needs no processor.
	handshakesPerCore = 8
	slotTime          = 100 * time.Millisecond
)

// Handshakes bounds the TLS handshakes that a server makes at once. When thousands of agents connect at the same
// moment, as after a restart, each would get a small share of the processors, and all would give up before their
// handshakes end. So the first to come are served first.
type Handshakes struct {
	slots chan struct{}
}

// NewHandshakes returns a bound that fits the processors of this process.
func NewHandshakes() *Handshakes {
	return &Handshakes{slots: make(chan struct{}, handshakesPerCore*runtime.GOMAXPROCS(0))}
}

// Listen returns a listener of TLS connections.
func (h *Handshakes) Listen(l net.Listener, conf *tls.Config) net.Listener {
	conf = conf.Clone()
	conf.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		c, ok := hello.Conn.(*shaking)
		if !ok {
			return nil, types.Errorf(types.Internal, "begin a handshake: %T is not of this listener", hello.Conn)
		}
		release, err := c.begin(h.slots)
		if err != nil {
			return nil, err
		}
		own := conf.Clone()
		own.GetConfigForClient = nil
		verify := conf.VerifyConnection
		own.VerifyConnection = func(state tls.ConnectionState) error {
			release()
			if verify != nil {
				return verify(state)
			}
			return nil
		}
		return own, nil
	}
	return tls.NewListener(shakes{l}, conf)
}

// shakes accepts connections whose handshakes are counted.
type shakes struct{ net.Listener }

func (s shakes) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &shaking{Conn: c, gone: make(chan struct{})}, nil
}

// shaking is a connection that gives its slot back when it is closed.
type shaking struct {
	net.Conn
	// gone is closed when the connection is.
	gone chan struct{}

	mu      sync.Mutex
	closed  bool
	release func()
}

// begin waits for a slot, and returns what gives it back.
func (c *shaking) begin(slots chan struct{}) (func(), error) {
	select {
	case slots <- struct{}{}:
	case <-c.gone:
		return nil, net.ErrClosed
	}
	free := sync.OnceFunc(func() { <-slots })
	late := time.AfterFunc(slotTime, free)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release = func() {
		late.Stop()
		free()
	}
	if c.closed {
		c.release()
	}
	return c.release, nil
}

// Close closes the connection.
func (c *shaking) Close() error {
	c.mu.Lock()
	if !c.closed {
		c.closed = true
		close(c.gone)
		if c.release != nil {
			c.release()
		}
	}
	c.mu.Unlock()
	return c.Conn.Close()
}
