package client

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestEvents reads events with ids and several lines, and leaves out one in which the stream broke off.
func TestEvents(t *testing.T) {
	for name, c := range map[string]struct {
		stream, want, fails string
	}{
		"some":          {": watching\n\nid: 7\nevent: task\ndata: {}\n\nevent: synced\ndata: 1\n\n", "task 7 {}; synced 0 1; ", ""},
		"several lines": {"event: a\r\ndata: 1\r\ndata: 2\r\n\r\n", "a 0 1\n2; ", ""},
		"cut off":       {"event: a\ndata: 1\n\nid: 9\nevent: b\ndata: {\"x\"", "a 0 1; ", ""},
		"without end":   {"event: a\ndata: 1\n", "", ""},
		"a comment":     {": nothing new\n\n\n\n", "", ""},
		"an error":      {"event: error\ndata: {\"detail\":\"gone\",\"class\":\"compacted\"}\n\nevent: a\ndata: 1\n\n", "", "gone"},
		"no number":     {"id: x\n", "", "is no number"},
		"too long":      {"data: " + strings.Repeat("x", maxEvent) + "\n\n", "", "more than"},
	} {
		got := ""
		err := Events(strings.NewReader(c.stream), func(e Event) error {
			got += fmt.Sprintf("%s %d %s; ", e.Kind, e.ID, e.Data)
			return nil
		})
		if got != c.want || (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// TestNoProxy asks a socket without the proxy of the environment.
func TestNoProxy(t *testing.T) {
	c, err := New(Config{Server: "unix:///run/escher/task.sock"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, transport := c.Connection(); proxied(transport) {
		t.Error("a proxy is asked for a socket")
	}
	c, err = New(Config{Server: "https://host:1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, transport := c.Connection(); !proxied(transport) {
		t.Error("no proxy is asked for a server")
	}
}

// proxied reports whether a transport may use a proxy.
func proxied(transport http.RoundTripper) bool { return transport.(*http.Transport).Proxy != nil }
