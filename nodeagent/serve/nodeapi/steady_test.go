package nodeapi

import (
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// pipes is a listener of connections within the test.
type pipes struct{ conns chan net.Conn }

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p.conns
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "test", Net: "unix"} }

// TestSteady cuts off a client that neither sends nor receives, and no slow one.
func TestSteady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		read, written := make(chan error, 1), make(chan error, 1)
		mux := http.NewServeMux()
		mux.HandleFunc("PUT /", func(w http.ResponseWriter, r *http.Request) {
			body, end := steadyBody(w, r)
			defer end()
			_, err := io.Copy(io.Discard, body)
			read <- err
		})
		mux.HandleFunc("GET /", func(w http.ResponseWriter, _ *http.Request) {
			out, end := steadily(w)
			defer end()
			_, err := io.Copy(out, io.LimitReader(zeros{}, 1<<20))
			written <- err
		})
		l := pipes{make(chan net.Conn)}
		srv := &http.Server{Handler: mux, ReadHeaderTimeout: headerTimeout}
		go func() { _ = srv.Serve(l) }()
		dial := func() net.Conn {
			client, server := net.Pipe()
			l.conns <- server
			return client
		}
		say := func(c net.Conn, text string) {
			if _, err := c.Write([]byte(text)); err != nil {
				t.Error(err)
			}
		}

		slow := dial()
		say(slow, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n")
		for range 3 {
			time.Sleep(stallTimeout - time.Second)
			say(slow, "x")
		}
		if err := <-read; err != nil {
			t.Errorf("a slow client was cut off: %v", err)
		}
		began, stalled := time.Now(), dial()
		say(stalled, "PUT / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nx")
		if err := <-read; err == nil || time.Since(began) != stallTimeout {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		began, deaf := time.Now(), dial()
		say(deaf, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
		if err := <-written; err == nil || time.Since(began) != stallTimeout {
			t.Errorf("%v after %s", err, time.Since(began))
		}
		_ = slow.Close()
		_ = stalled.Close()
		_ = deaf.Close()
		close(l.conns)
		_ = srv.Close()
	})
}

// zeros has no end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }
