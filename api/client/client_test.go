package client

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/escher-sched/escher/types"
)

// answering returns a client of a server that answers each request in one way.
func answering(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	c, err := New(Config{Server: s.URL, Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestNew(t *testing.T) {
	junk := filepath.Join(t.TempDir(), "junk")
	if err := os.WriteFile(junk, []byte("junk"), 0o600); err != nil {
		t.Fatal(err)
	}
	for server, says := range map[string]string{
		"": "is no address", "host:1": "is no address", "unix://": "is no address", "https://": "is no address", "https://host:1/path": "is no address",
		"ftp://host:1": "is no address", "%": "is no address", "http://host:1": "write https://host:1", "http://10.0.0.1:1": "not sent without encryption",
	} {
		if _, err := New(Config{Server: server}); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", server, err)
		}
	}
	for _, file := range []string{junk, junk + "2"} {
		if _, err := New(Config{Server: "https://host:1", CACert: file}); !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), "cacert: ") {
			t.Errorf("%s: %v", file, err)
		}
	}
	for _, server := range []string{"https://host:1", "https://host:1/", "http://localhost:1", "http://127.0.0.1:1", "http://[::1]:1", "unix:///run/api.sock"} {
		if c, err := New(Config{Server: server}); err != nil || c == nil {
			t.Errorf("%s: %v", server, err)
		}
	}
}

// TestDo sends bodies, queries and the token, and reads answers.
func TestDo(t *testing.T) {
	c := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" || r.URL.Query().Get("a b") != "c&d" {
			t.Errorf("%s %v", r.URL, r.Header)
		}
		_, _ = w.Write([]byte(`{"name": "` + r.Method + `"}`))
	})
	var got struct{ Name string }
	if err := c.Get(t.Context(), "/x", url.Values{"a b": {"c&d"}}, &got); err != nil || got.Name != "GET" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := c.Do(t.Context(), http.MethodPost, "/x?a+b=c%26d", map[string]string{"x": "y"}, &got); err != nil || got.Name != "POST" {
		t.Errorf("%+v, %v", got, err)
	}
	if err := c.Do(t.Context(), http.MethodPost, "/x", make(chan int), nil); !types.Is(err, types.Internal) {
		t.Errorf("a body that is no JSON: %v", err)
	}
}

// TestErrors returns errors with the classes of the server, and those of answers that are none of the
// API.
func TestErrors(t *testing.T) {
	for _, class := range types.Classes() {
		c := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusTeapot)
			_, _ = w.Write([]byte(`{"class": "` + class.String() + `", "detail": "field: wrong"}`))
		})
		if err := c.Get(t.Context(), "/", nil, nil); !types.Is(err, class) || err.Error() != "field: wrong" {
			t.Errorf("%s: %v", class, err)
		}
	}
	for _, body := range []string{"", "<html>", `{"class": "new", "detail": "x"}`, `{"class": "invalid"}`, "[]"} {
		c := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = w.Write([]byte(body))
		})
		if err := c.Get(t.Context(), "/", nil, nil); !types.Is(err, types.Internal) || !strings.Contains(err.Error(), "answers 502") {
			t.Errorf("%q: %v", body, err)
		}
	}
	c := answering(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
	if err := c.Get(t.Context(), "/", nil, new(struct{})); !types.Is(err, types.Internal) {
		t.Errorf("an answer that is no JSON: %v", err)
	}
}

// TestUnanswered tells requests that were not sent from those that may have been performed.
func TestUnanswered(t *testing.T) {
	cut := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
	})
	if err := cut.Do(t.Context(), http.MethodPost, "/", map[string]int{}, nil); !types.Is(err, types.Unknown) {
		t.Errorf("a change that is not answered: %v", err)
	}
	if err := cut.Get(t.Context(), "/", nil, nil); !types.Is(err, types.Unavailable) {
		t.Errorf("a read that is not answered: %v", err)
	}
	reset := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			err = conn.(*net.TCPConn).SetLinger(0)
		}
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
	})
	if err := reset.Do(t.Context(), http.MethodPost, "/", map[string]int{}, nil); !types.Is(err, types.Unknown) {
		t.Errorf("a change whose connection is reset: %v", err)
	}
	nowhere := Through("nowhere", func(context.Context) (net.Conn, error) {
		return nil, &net.OpError{Op: "dial", Err: os.ErrNotExist}
	})
	if err := nowhere.Do(t.Context(), http.MethodPost, "/", nil, nil); !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "ask nowhere") {
		t.Errorf("a change that was not sent: %v", err)
	}
}
