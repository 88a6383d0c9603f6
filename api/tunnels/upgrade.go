package tunnels

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

// The protocols to which requests upgrade their connections: the tunnel of an agent, and a stream of a
// tunnel for another server.
const (
	tunnelOf = "escher-tunnel"
	streamOf = "escher-stream"
)

const (
	// upgradeTimeout limits the wait for the answer to such a request.
	upgradeTimeout = 15 * time.Second
	// maxProblem bounds a refusal in bytes.
	maxProblem = 1 << 20
)

// Connect asks a server for the tunnel of a node. The caller closes the connection. Denied: the client has
// not the identity of the node. Unavailable: the server does not answer. Precondition: it takes no tunnels.
func Connect(ctx context.Context, c *client.Client, node string) (io.ReadWriteCloser, error) {
	ctx, cancel := context.WithTimeout(ctx, upgradeTimeout)
	defer cancel()
	server, base, token, transport := c.Connection()
	req, err := request(ctx, base, node, tunnelOf, token)
	if err != nil {
		return nil, err
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return nil, types.Errorf(types.Unavailable, "open a tunnel to %s: %w", server, err)
	}
	if conn, ok := res.Body.(io.ReadWriteCloser); ok && res.StatusCode == http.StatusSwitchingProtocols {
		return conn, nil
	}
	defer res.Body.Close()
	return nil, refused(server, res)
}

// request returns a request about a node that upgrades its connection to a protocol.
func request(ctx context.Context, base, node, protocol, token string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path(url.PathEscape(node), protocol), http.NoBody)
	if err != nil {
		return nil, types.Errorf(types.Internal, "make a request: %w", err)
	}
	req.Header.Set("Connection", "Upgrade")
	req.Header.Set("Upgrade", protocol)
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req, nil
}

// refused returns the error of an answer of a server.
func refused(server string, res *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxProblem)) // a part says more than why the rest is missing
	if err := answer.Error(text); err != nil {
		return err
	}
	if res.StatusCode == http.StatusNotFound {
		return types.Errorf(types.Precondition, "open a tunnel to %s: it takes none: run a server of this version there", server)
	}
	return types.Errorf(types.Unavailable, "open a tunnel to %s: it answers %d: %w", server, res.StatusCode, client.Problem(text))
}

// upgrades returns an error for a request that does not upgrade its connection to a protocol.
func upgrades(req *http.Request, protocol string) error {
	if got := req.Header.Get("Upgrade"); !strings.EqualFold(got, protocol) {
		return types.Errorf(types.Invalid, "Upgrade: %.100q is not %s: only agents and servers send this request", got, protocol)
	}
	return nil
}

// hijack takes the connection of a request over, and answers that it has the protocol from now on.
func hijack(w http.ResponseWriter, protocol string, now time.Time) (net.Conn, error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, types.Errorf(types.Internal, "take a connection over: %w", err)
	}
	if buffered.Reader.Buffered() > 0 {
		conn.Close()
		return nil, types.Errorf(types.Invalid, "the sender does not wait for the answer")
	}
	err = conn.SetDeadline(now.Add(upgradeTimeout))
	if err == nil {
		_, err = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: "+protocol+"\r\n\r\n")
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		conn.Close()
		return nil, types.Errorf(types.Unavailable, "answer on a connection: %w", err)
	}
	return conn, nil
}

// upgrade sends a request on a connection, and returns the connection with the protocol of the request.
func upgrade(conn net.Conn, server string, req *http.Request) (net.Conn, error) {
	stop := context.AfterFunc(req.Context(), func() { conn.Close() })
	err := req.Write(conn)
	if err != nil {
		return nil, types.Errorf(types.Unavailable, "ask %s: %w", server, err)
	}
	reader := bufio.NewReader(conn)
	res, err := http.ReadResponse(reader, req)
	if err != nil {
		return nil, types.Errorf(types.Unavailable, "ask %s: %w", server, err)
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		return nil, refused(server, res)
	}
	if !stop() {
		return nil, types.Errorf(types.Unavailable, "ask %s: %w", server, req.Context().Err())
	}
	return &read{conn, reader}, nil
}

// read is a connection of which a reader has read some bytes ahead.
type read struct {
	net.Conn
	ahead *bufio.Reader
}

// Read reads data.
func (r *read) Read(p []byte) (int, error) { return r.ahead.Read(p) }
