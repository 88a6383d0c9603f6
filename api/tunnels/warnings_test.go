package tunnels_test

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// connect opens a tunnel of a node from an address of this machine, and returns the status of the answer. The
// connection lasts until the end of the test.
func (c *cluster) connect(s *server, node, token, from string) int {
	c.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	req, err := http.NewRequestWithContext(c.Context(), http.MethodGet, s.url+"/v1/nodes/"+node+"/tunnel", http.NoBody)
	if err != nil {
		c.Fatal(err)
	}
	req.Header = http.Header{"Connection": {"Upgrade"}, "Upgrade": {"escher-tunnel"}, "Authorization": {"Bearer " + token}}
	transport := &http.Transport{DialContext: dialer.DialContext}
	c.Cleanup(transport.CloseIdleConnections)
	res, err := transport.RoundTrip(req)
	if err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() { res.Body.Close() })
	return res.StatusCode
}

// TestWarnings warns of a program that may have the key of a node, and of those that try to have its tunnel.
func TestWarnings(t *testing.T) {
	t.Parallel() // it mostly waits
	c := newCluster(t)
	core, logged := observer.New(zapcore.WarnLevel)
	c.log = zap.New(core)
	s := c.start("s1")
	n1, n2 := c.token("node:n1"), c.token("node:n2")
	for i, x := range []struct {
		node, token, from string
		status            int
		says              string
	}{
		{"n1", n1, "127.0.0.1", http.StatusSwitchingProtocols, ""},
		{"n1", n1, "127.0.0.1", http.StatusSwitchingProtocols, ""}, // from another port
		{"n2", n2, "127.0.0.2", http.StatusSwitchingProtocols, ""},
		{"n1", n1, "127.0.0.2", http.StatusSwitchingProtocols, "a tunnel replaces one from another address"},
		{"n1", n2, "127.0.0.2", http.StatusForbidden, "a tunnel is denied"},
		{"n1", "escher_x_y", "127.0.0.2", http.StatusForbidden, "a tunnel is denied"},
		{"a b", n1, "127.0.0.1", http.StatusBadRequest, ""},
	} {
		if got := c.connect(s, strings.ReplaceAll(x.node, " ", "%20"), x.token, x.from); got != x.status {
			t.Errorf("%d: %d, want %d", i, got, x.status)
		}
		if x.status == http.StatusSwitchingProtocols {
			c.await("the server holds it", func() bool { return s.Len() == min(i/2+1, 2) })
		}
		if x.says != "" {
			c.await("it warns", func() bool { return logged.Len() > 0 })
		}
		all := logged.TakeAll()
		if x.says == "" && len(all) != 0 || x.says != "" && (len(all) != 1 || !strings.HasPrefix(all[0].Message, x.says)) {
			t.Errorf("%d: %+v", i, all)
		}
		if len(all) == 1 && i == 3 {
			if fields := all[0].ContextMap(); fields["node"] != "n1" || fields["address"] != "127.0.0.2" || fields["reason"] != "it is of node:n1, and the one before was of node:n1 at 127.0.0.1" {
				t.Errorf("it has %v", fields)
			}
		}
	}
	for range 50 {
		c.connect(s, "n1", "escher_x_y", "127.0.0.1")
	}
	if n := len(logged.TakeAll()); n < 5 || n > 30 {
		t.Errorf("it warns %d times", n)
	}
}
