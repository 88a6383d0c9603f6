package parts

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"strings"
	"sync/atomic"

	"github.com/escher-sched/escher/api/tunnels"
	"github.com/escher-sched/escher/nodeagent/serve/tunnel"
	"github.com/escher-sched/escher/types"
)

// way is how clients reach the API of a node: at a port, or by the tunnel that its agent opens to a server.
type way struct {
	tunneled bool
	at       apiListen
	// l listens at the port, and address is the one for others.
	l       net.Listener
	address string
}

// way returns how clients reach the API of this node. Invalid: flags about a port are given, and the agent
// opens none.
func (c AgentConfig) way() (*way, error) {
	if c.Join.Server == "" || c.Listen != "" {
		at, err := c.apiListen()
		return &way{at: at}, err
	}
	for _, flag := range []struct {
		name  string
		given bool
	}{
		{"tls-cert", c.TLSCert != ""},
		{"tls-key", c.TLSKey != ""},
		{"insecure-listen", c.Insecure},
		{"open-task-metrics", c.OpenTaskMetrics},
	} {
		if flag.given {
			return nil, types.Errorf(types.Invalid, "%s: is about a port, and with --server the agent opens none: leave it out or, to open one, give --listen, too", flag.name)
		}
	}
	return &way{tunneled: true, address: types.TunnelAddress}, nil
}

// open opens the port, if there is one.
func (w *way) open(c *AgentConfig) (err error) {
	if w.tunneled {
		return nil
	}
	if w.l, err = w.at.listen(); err != nil {
		return err
	}
	w.at.warn(c.Log, c.Progress)
	w.address = c.address(w.l, w.at)
	return nil
}

// close closes the port, unless its server has.
func (w *way) close() {
	if w.l != nil {
		_ = w.l.Close() // the server has closed it already
	}
}

// serve makes the agent serve its API that way, and starts the tunnel.
func (w *way) serve(stack *Stack, c *AgentConfig, agent *Agent) {
	if c.Join.Server != "" {
		agent.Server = c.Join.nodes
	}
	if !w.tunneled {
		agent.Outline, agent.Listen = !w.at.local && !c.OpenTaskMetrics, w.at.again(w.l, w.address)
		return
	}
	join, node := c.Join, c.Agent.Node
	var shown atomic.Pointer[tls.Certificate] // at the last connection
	t := tunnel.New(func(ctx context.Context) (io.ReadWriteCloser, error) {
		shown.Store(join.identity.cert.Load())
		client, err := join.client()
		if err != nil {
			return nil, err
		}
		defer client.Close() // the connection is not idle
		return tunnels.Connect(ctx, client, node)
	}, c.Log.Named("tunnel"))
	t.Renewed = func() bool { return shown.Load() != join.identity.cert.Load() }
	agent.Listen = func(string) (net.Listener, string, error) { return t.Listen(), w.address, nil }
	stack.Start("tunnel of "+node, t.Run)
}

// shown returns the address to show to people; empty for a tunnel.
func (w *way) shown() string {
	if w.tunneled {
		return ""
	}
	shown, _, _ := strings.Cut(w.address, "#")
	return shown
}
