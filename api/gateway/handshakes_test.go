package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/api/certs"
)

// piped is a listener of pipes.
type piped chan net.Conn

func (p piped) Accept() (net.Conn, error) {
	if c, ok := <-p; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (p piped) Close() error   { return nil }
func (p piped) Addr() net.Addr { return nil }

// mute is a connection of a client that sends its first message, and reads no answer.
type mute struct {
	net.Conn
	gone chan struct{}
}

func (m *mute) Read([]byte) (int, error) {
	<-m.gone
	return 0, net.ErrClosed
}

// TestHandshakes connects clients while others hold up all handshakes that are made at once.
func TestHandshakes(t *testing.T) {
	dir := t.TempDir()
	server, roots := serverCert(t, dir)
	synctest.Test(t, func(t *testing.T) {
		l := make(piped)
		h := &Handshakes{slots: make(chan struct{}, 2)}
		at := h.Listen(l, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{server}, Time: time.Now})
		var group sync.WaitGroup
		defer group.Wait()
		defer close(l)
		group.Go(func() {
			for {
				c, err := at.Accept()
				if err != nil {
					return
				}
				group.Go(func() {
					defer c.Close()
					_, _ = c.Write(nil) // shakes hands; the clients tell
					_, _ = c.Read(make([]byte, 1))
				})
			}
		})
		dial := func(wrap func(net.Conn) net.Conn) *tls.Conn {
			ours, theirs := net.Pipe()
			l <- theirs
			return tls.Client(wrap(ours), &tls.Config{MinVersion: tls.VersionTLS12, ServerName: "localhost", RootCAs: roots, Time: epoch})
		}
		gone := make(chan struct{})
		stall := func() (end func()) {
			c := dial(func(c net.Conn) net.Conn { return &mute{c, gone} })
			group.Go(func() { _ = c.Handshake() })
			return func() { _ = c.NetConn().Close() }
		}
		plain := func(c net.Conn) net.Conn { return c }
		connects := func(want time.Duration) {
			t.Helper()
			began := time.Now()
			c := dial(plain)
			defer func() { _ = c.Close() }()
			if err := c.Handshake(); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != want {
				t.Errorf("a handshake takes %s, want %s", took, want)
			}
		}
		connects(0)
		ends := []func(){stall(), stall()}
		synctest.Wait()
		connects(slotTime) // until the others no longer count
		connects(0)
		ends = append(ends, stall(), stall())
		synctest.Wait()
		for _, end := range ends {
			end()
		}
		synctest.Wait()
		connects(0) // they gave their slots back
		if n := len(h.slots); n != 0 {
			t.Errorf("%d slots are taken", n)
		}
		close(gone)
	})
}

// epoch is the time of certificates in a bubble.
func epoch() time.Time { return time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) }

// serverCert returns the certificate of a server, and its authority.
func serverCert(t *testing.T, dir string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	ca, err := certs.Open(dir, epoch())
	if err == nil {
		err = ca.Server(dir, "s.pem", "s.key", []string{"localhost"}, epoch(), time.Hour)
	}
	var cert tls.Certificate
	if err == nil {
		cert, err = tls.LoadX509KeyPair(filepath.Join(dir, "s.pem"), filepath.Join(dir, "s.key"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return cert, ca.Pool()
}
