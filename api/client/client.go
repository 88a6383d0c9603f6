// Package client is a client of the HTTP API: package api/rest serves it.
package client

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

const (
	// dialTimeout limits the connection, and answerTimeout the wait for the begin of an answer to a
	// short request.
	dialTimeout   = 10 * time.Second
	answerTimeout = time.Minute
	// maxAnswer bounds an answer in bytes.
	maxAnswer = 256 << 20
)

// Config says where the API is.
type Config struct {
	// Server is https://host:port, http://host:port of this machine, or unix:///path of a socket.
	Server string
	// CACert is the file of the authorities of the server's certificate; empty means the system's.
	CACert string
	// Token is the token to show; empty means none, for a socket.
	Token string
	// Certificate returns the certificate to show instead; nil means none.
	Certificate func(*tls.CertificateRequestInfo) (*tls.Certificate, error)
}

// Client is a client of the HTTP API. Its methods may be called concurrently.
type Client struct {
	server, base, token string
	http                *http.Client
}

// New returns a client. It does not connect yet. Invalid: the server is no address, or its authorities
// cannot be read.
func New(cfg Config) (*Client, error) {
	dialer := &net.Dialer{Timeout: dialTimeout}
	transport := &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: dialTimeout, IdleConnTimeout: time.Minute, Proxy: http.ProxyFromEnvironment}
	c := &Client{server: cfg.Server, base: strings.TrimSuffix(cfg.Server, "/"), token: cfg.Token, http: &http.Client{Transport: transport}}
	u, err := url.Parse(cfg.Server)
	switch {
	case err != nil || u.Host == "" && u.Scheme != "unix" || u.Scheme == "unix" && u.Path == "" || strings.Trim(u.Path, "/") != "" && u.Scheme != "unix":
	case u.Scheme == "unix":
		c.base = "http://escher"
		transport.Proxy = nil // a socket needs none
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", u.Path)
		}
		return c, nil
	case u.Scheme == "https":
		transport.TLSClientConfig, err = trust(cfg.CACert)
		if err == nil {
			transport.TLSClientConfig.GetClientCertificate = cfg.Certificate
		}
		return c, err
	case u.Scheme == "http" && isLoopback(u.Hostname()):
		return c, nil
	case u.Scheme == "http":
		return nil, types.Errorf(types.Invalid, "server: %q: a token is not sent without encryption: write https://%s", cfg.Server, u.Host)
	}
	return nil, types.Errorf(types.Invalid, "server: %q is no address: write https://host:port, or unix:///path of a socket", types.Cut(cfg.Server, types.MaxText))
}

// Through returns a client of a server with a name, to which dial connects.
func Through(name string, dial func(context.Context) (net.Conn, error)) *Client {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) }}
	return &Client{server: name, base: "http://escher", http: &http.Client{Transport: transport}}
}

// isLoopback reports whether a host is this machine.
func isLoopback(host string) bool { return host == "localhost" || net.ParseIP(host).IsLoopback() }

// trust returns a configuration that trusts the authorities in a file; empty means the system's.
func trust(file string) (*tls.Config, error) {
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if file == "" {
		return conf, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, types.Errorf(types.Invalid, "cacert: %w: give the file of the authority of the server's certificate", err)
	}
	conf.RootCAs = x509.NewCertPool()
	if !conf.RootCAs.AppendCertsFromPEM(text) {
		return nil, types.Errorf(types.Invalid, "cacert: %s has no certificate in PEM: give the file of the authority of the server's certificate", file)
	}
	return conf, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Get reads an answer in JSON.
func (c *Client) Get(ctx context.Context, path string, query url.Values, into any) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.Do(ctx, http.MethodGet, path, nil, into)
}

// Do sends a request with a body in JSON, unless it is nil, and reads the answer. Errors have the
// classes that the server gave them. Unavailable: the server does not answer. Unknown: the request was
// sent, may have been performed, and was not answered.
func (c *Client) Do(ctx context.Context, method, path string, body, into any) error {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return types.Errorf(types.Internal, "write a request: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	res, err := c.Send(ctx, method, path, "application/json", bytes.NewReader(text))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return c.failed(method, err)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return types.Errorf(types.Internal, "read the answer of %s: %w", c.server, err)
	}
	return nil
}

// Send sends a request, and returns an answer that is no error. The caller closes its body.
func (c *Client) Send(ctx context.Context, method, path, contentType string, body io.Reader) (*http.Response, error) {
	return c.send(ctx, method, path, http.Header{"Content-Type": {contentType}}, body)
}

// send is Send with a header.
func (c *Client) send(ctx context.Context, method, path string, header http.Header, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return nil, types.Errorf(types.Internal, "make a request: %w", err)
	}
	req.Header = header
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return nil, c.failed(method, err)
	}
	if res.StatusCode < http.StatusMultipleChoices {
		return res, nil
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20)) // a part says more than why the rest is missing
	err = Problem(text)
	if errors.Is(err, errNoProblem) {
		err = types.Errorf(types.Internal, "%s answers %d: %w", c.server, res.StatusCode, err)
	}
	return nil, err
}

// Connection returns what other clients of the server need: its name, the base of its paths, the token to
// show, and the transport.
func (c *Client) Connection() (server, base, token string, transport http.RoundTripper) {
	return c.server, c.base, c.token, c.http.Transport
}

// failed returns the error of a request without a whole answer.
func (c *Client) failed(method string, err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	class := types.Unavailable
	op, ok := errors.AsType[*net.OpError](err)
	if sent := !ok || op.Op != "dial"; method != http.MethodGet && sent {
		class = types.Unknown
	}
	remedy := "is the address right, and does a server with --api run there?"
	if strings.HasPrefix(c.server, "unix:") {
		remedy = "does what serves this socket run still?"
	}
	if _, wrong := errors.AsType[*tls.CertificateVerificationError](err); wrong {
		class, remedy = types.Unavailable, "give the authority of its certificate with --cacert, or correct the address"
	}
	return types.Errorf(class, "ask %s: %w: %s", c.server, err, remedy)
}

// Problem returns the error that a problem describes: see answer.Problem. Internal: it is none.
func Problem(text []byte) error { return cmp.Or(answer.Error(text), error(errNoProblem)) }

// errNoProblem is about an answer that is not of the API.
var errNoProblem = types.Errorf(types.Internal, "it does not answer as the API does: is that the address of one?")
