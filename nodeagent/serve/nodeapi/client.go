package nodeapi

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/fence/watchdog"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

const (
	// dialTimeout limits the connection to a node, answerTimeout the wait for the start of an
	// answer to a short request.
	dialTimeout   = 5 * time.Second
	answerTimeout = 30 * time.Second
	// maxLine and maxAnswer limit how much of an answer is read at once.
	maxLine   = 1 << 20
	maxAnswer = 64 << 20
)

// Client is a client of the API of one node, in one of its sessions. Its methods may be called
// concurrently. Errors have the classes that the node gave them. Unavailable: the agent does not
// answer, or has a new session.
type Client struct {
	node, address, base, token string
	http                       *http.Client
	here                       bool
}

// Dialer finds nodes.
type Dialer struct {
	Store controlplane.Store
	// TLS is for nodes with an https address; nil means the system's trusted authorities.
	TLS *tls.Config
	// Server, unless nil, reaches the nodes; then they are not dialed.
	Server *Server
	// Tunnel connects to nodes whose agents open no port; nil means that these cannot be reached.
	Tunnel func(ctx context.Context, node string) (net.Conn, error)
}

// Server reaches nodes by the HTTP API of a server.
type Server struct {
	Node func(name string) *Client
	// Logged is Dialer.Logged.
	Logged func(ctx context.Context, ns, id string) (all []LoggedAt, away []string, err error)
}

// Through returns the client of a node that transport reaches at a base URL, with a token of a server.
func Through(node, server, base, token string, transport http.RoundTripper) *Client {
	return &Client{node: node, address: server, base: base, token: token, http: &http.Client{Transport: transport}}
}

// Trusting returns a configuration that trusts the authorities of etcd for nodes, and shows them no
// certificate; nil for nil.
func Trusting(etcd *tls.Config) *tls.Config {
	if etcd == nil {
		return nil
	}
	conf := etcd.Clone()
	conf.ServerName = ""
	conf.Certificates, conf.GetClientCertificate = nil, nil // they are for etcd alone
	return conf
}

// Dial returns the client of a node, with its stored address and token. It does not connect yet.
// The caller must call Close. NotFound: there is no such node. Unavailable: its agent is not alive.
// Precondition: it has no API.
func (d Dialer) Dial(ctx context.Context, node string) (*Client, error) {
	if err := types.ValidateName("node", node); err != nil {
		return nil, err
	}
	if d.Server != nil {
		return d.Server.Node(node), nil
	}
	var n types.Node
	found, err := read(ctx, d.Store, controlplane.NodeKey(node), &n)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, types.Errorf(types.NotFound, "there is no node %s: %s", node, action.ListNodes.Of())
	}
	var alive types.Alive
	if found, err = read(ctx, d.Store, controlplane.AliveKey(node), &alive); err != nil {
		return nil, err
	}
	if !found {
		return nil, types.Errorf(types.Unavailable, "ask node %s: its agent is not alive: start it again there", node)
	}
	token := types.Token{Token: alive.Token} // of an older agent
	if _, err = read(ctx, d.Store, controlplane.TokenKey(node), &token); err != nil {
		return nil, err
	}
	return d.client(node, n.Address, token.Token)
}

// client returns the client of a node with that address and token. Precondition: there is no way to the
// address.
func (d Dialer) client(node, address, token string) (*Client, error) {
	if address != types.TunnelAddress {
		return New(node, address, token, d.TLS)
	}
	if d.Tunnel == nil {
		return nil, types.Errorf(types.Precondition, "ask node %s: its agent opens no port, and only servers reach it: %s", node, action.AskServer.Of())
	}
	transport := &http.Transport{
		DialContext:     func(ctx context.Context, _, _ string) (net.Conn, error) { return d.Tunnel(ctx, node) },
		IdleConnTimeout: time.Minute, DisableCompression: true, ExpectContinueTimeout: answerTimeout,
	}
	return &Client{node: node, address: address, base: "http://" + node, token: token, http: client(transport)}, nil
}

// client returns an HTTP client of a node, which follows no redirect: a node has no say about other addresses.
func client(transport http.RoundTripper) *http.Client {
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// read reads one key; found is false if it does not exist.
func read(ctx context.Context, store controlplane.Store, key string, into types.Message) (found bool, err error) {
	page, err := store.List(ctx, controlplane.ListOptions{Key: key})
	if err != nil || len(page.KVs) == 0 {
		return false, err
	}
	return controlplane.Read(page.KVs[0], into), nil
}

// New returns the client of a node with that address and token. Precondition: address is not an
// API's.
func New(node, address, token string, conf *tls.Config) (*Client, error) {
	dialer := &net.Dialer{Timeout: dialTimeout}
	transport := &http.Transport{
		DialContext: dialer.DialContext, TLSClientConfig: conf, TLSHandshakeTimeout: dialTimeout,
		IdleConnTimeout: time.Minute, DisableCompression: true, ExpectContinueTimeout: answerTimeout,
	}
	c := &Client{node: node, address: address, base: strings.TrimSuffix(address, "/"), token: token, http: client(transport)}
	u, err := url.Parse(address)
	if err == nil && u.Fragment != "" {
		// It listens on loopback, and that address is the same on every machine.
		if u.Fragment != watchdog.BootID() {
			return nil, types.Errorf(types.Precondition, "ask node %s: its API listens on loopback of its own machine alone: ask from there, or %s %s and %s",
				node, action.StartAgentWith.Of(), action.AgentCert.Of(), action.AgentKey.Of())
		}
		c.base, _, _ = strings.Cut(c.base, "#")
		c.address, c.here = c.base, true
	}
	switch {
	case err != nil || u.Scheme != "unix" && u.Scheme != "http" && u.Scheme != "https":
		return nil, types.Errorf(types.Precondition, "ask node %s: it names no address of an API but %q: run an agent of this version there", node, address)
	case u.Scheme == "unix":
		// The socket replaces the host.
		c.base, c.here = "http://"+node, true
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", u.Path)
		}
	}
	return c, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Node returns the name of the node.
func (c *Client) Node() string { return c.node }

// Here reports whether the node is known to be this machine.
func (c *Client) Here() bool { return c.here }

// request returns the path of a request about an attempt; attempt 0 omits the attempt.
func request(what, ns, id string, attempt int, query url.Values) string {
	p := "/v1/" + what + "/" + url.PathEscape(ns) + "/" + url.PathEscape(id)
	if attempt > 0 {
		p += "/" + strconv.Itoa(attempt)
	}
	if len(query) > 0 {
		p += "?" + query.Encode()
	}
	return p
}

// do sends a request and returns its answer. The caller must close the body. It returns an error
// for an answer with an error.
func (c *Client) do(ctx context.Context, method, path string, body io.Reader) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		cancel(nil)
		return nil, types.Errorf(types.Invalid, "ask node %s: %w", c.node, err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	if body != nil {
		// Do not send a body that will be refused.
		req.Header.Set("Expect", "100-continue")
	}
	defer c.mustBegin(body != nil, cancel)()
	res, err := c.http.Do(req)
	if err != nil {
		defer cancel(nil)
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, c.broken(err)
	}
	res.Body = &cancelling{res.Body, cancel}
	if res.StatusCode == http.StatusOK {
		return res, nil
	}
	defer res.Body.Close()
	return nil, c.refusal(res)
}

// cancelling cancels a request when its answer is closed.
type cancelling struct {
	io.ReadCloser
	cancel context.CancelCauseFunc
}

// Close closes the answer.
func (b *cancelling) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

// doJSON sends a request with v as its body.
func (c *Client) doJSON(ctx context.Context, method, path string, v any) (*http.Response, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, types.Errorf(types.Invalid, "ask node %s: %w", c.node, err)
	}
	return c.do(ctx, method, path, bytes.NewReader(text))
}

// get sends a request without a body, and decodes its answer.
func (c *Client) get(ctx context.Context, path string, into any) error {
	res, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return c.decode(res, into)
}

// decode decodes an answer.
func (c *Client) decode(res *http.Response, into any) error {
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return c.broken(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return c.garbled(err)
	}
	return nil
}

// errLast ends the reading of lines.
var errLast = errors.New("this was the last line")

// lines calls each with every line of an answer, until it returns an error. A line with an error
// ends it with that error.
func (c *Client) lines(res *http.Response, each func([]byte) error) error {
	scanner := bufio.NewScanner(res.Body)
	scanner.Buffer(nil, maxLine)
	scanner.Split(wholeLine)
	for scanner.Scan() {
		if err := answer.Error(scanner.Bytes()); err != nil {
			return err
		}
		if err := each(scanner.Bytes()); err != nil {
			return err
		}
	}
	if err := scanner.Err(); err != nil {
		return c.broken(err)
	}
	return nil
}

// wholeLine is bufio.ScanLines for text whose last line ends, too: the rest of a line that broke off
// is no line.
func wholeLine(text []byte, atEOF bool) (advance int, line []byte, err error) {
	advance, line, err = bufio.ScanLines(text, false)
	if advance == 0 && atEOF && len(text) > 0 {
		err = io.ErrUnexpectedEOF
	}
	return advance, line, err
}

// broken returns the error for a missing or incomplete answer. It does not blame the agent if the
// caller canceled the request.
func (c *Client) broken(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return types.Errorf(types.Unavailable, "ask node %s: %w", c.node, err)
	}
	where := types.Textf("look whether its agent runs there, and whether this address can be reached from here")
	if c.address == types.TunnelAddress {
		if u, ok := errors.AsType[*url.Error](err); ok {
			err = u.Err
		}
		return types.Errorf(types.Unavailable, "ask node %s: %w", c.node, err)
	}
	if strings.HasPrefix(c.address, "unix:") {
		where = types.Textf("%s; its socket answers only on that machine, and to that user", action.CheckDev.Of())
	}
	return types.Errorf(types.Unavailable, "ask node %s at %s: %w: %s", c.node, c.address, err, where)
}

func (c *Client) garbled(err error) error {
	return types.Errorf(types.Internal, "read the answer of node %s: %w", c.node, err)
}
