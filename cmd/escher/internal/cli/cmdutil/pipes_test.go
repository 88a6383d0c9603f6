package cmdutil

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestPipes: requests within a process come one after the other on a connection, and many at once, and none
// ends another one.
func TestPipes(t *testing.T) {
	l := newPipes()
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err = errors.Join(err, r.Context().Err()); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(text)
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return l.Dial(ctx) }}}
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			for range 100 {
				answer, err := client.Post("http://x/", "text/plain", strings.NewReader("hello"))
				if err != nil {
					t.Error(err)
					return
				}
				text, err := io.ReadAll(answer.Body)
				if err := errors.Join(err, answer.Body.Close()); err != nil || string(text) != "hello" {
					t.Errorf("%d %q, %v", answer.StatusCode, text, err)
				}
			}
		})
	}
	asking.Wait()
	client.CloseIdleConnections()
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		t.Error(err)
	}
	if _, err := l.Dial(t.Context()); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a connection to one that is closed: %v", err)
	}
	if l.Addr().Network() != "pipe" || l.Addr().String() == "" {
		t.Errorf("its address is %v", l.Addr())
	}
}

// TestPipesDial: a connection to a listener that does not accept ends with its context.
func TestPipesDial(t *testing.T) {
	l := newPipes()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.Dial(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Errorf("closed twice: %v", err)
	}
}
