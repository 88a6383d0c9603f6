package parts

import (
	"net"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/net/netutil"
)

// restConnections bounds the connections to the HTTP API at an address. An agent has two: that of the
// gateway, and its tunnel.
const restConnections = 8192

// fullEvery is how often the log says that an address takes no more connections, at most.
const fullEvery = time.Minute

// limit returns a listener that has at most that many connections at a time. Others wait in the kernel.
func limit(l net.Listener, most int, now func() time.Time, log *zap.Logger) net.Listener {
	return netutil.LimitListener(&counting{Listener: l, most: most, now: now, log: log}, most)
}

// counting is a listener that counts its connections, and logs when there are as many as may be.
type counting struct {
	net.Listener
	most int
	now  func() time.Time
	log  *zap.Logger

	mu     sync.Mutex
	open   int
	logged time.Time
}

// Accept accepts the next connection.
func (l *counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if l.add(1) {
		l.log.Warn("no more connections fit until others end: start further servers", zap.String("address", l.Addr().String()), zap.Int("count", l.most))
	}
	return &counted{Conn: c, release: sync.OnceFunc(func() { l.add(-1) })}, nil
}

// add counts connections that begin or end, and reports whether to log that there are as many as may be.
func (l *counting) add(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.open += n
	if n < 0 || l.open < l.most || l.now().Sub(l.logged) < fullEvery {
		return false
	}
	l.logged = l.now()
	return true
}

// counted is a connection of counting.
type counted struct {
	net.Conn
	release func()
}

// Close closes the connection.
func (c *counted) Close() error {
	defer c.release()
	return c.Conn.Close()
}
