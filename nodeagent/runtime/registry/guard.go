// Package registry keeps the password of a namespace for a registry from all other hosts.
package registry

import (
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/escher-sched/escher/nodeagent/secrets"
	"github.com/escher-sched/escher/types"
)

// guard is the transport of the pulls with a login.
type guard struct {
	http.RoundTripper
	login secrets.Login
}

// Guard returns a transport that sends the password of a login, and tokens of its registry, neither without
// TLS beyond this machine nor to the host of a redirect. It returns NotFound for a request that would.
// containerd's client alone decides by the host of a request, and Go's by its name without the port.
func Guard(base http.RoundTripper, login secrets.Login) http.RoundTripper {
	if login.Secret == "" {
		return base
	}
	return guard{base, login}
}

// RoundTrip implements http.RoundTripper.
func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if first := origin(req); first.URL.Host != req.URL.Host {
		if req.Body != nil {
			return nil, g.refuse(req, "redirects to")
		}
		if sent := req.Header.Get("Authorization"); sent != "" && sent == first.Header.Get("Authorization") {
			req = req.Clone(req.Context()) // A transport must not change a request.
			req.Header.Del("Authorization")
		}
	}
	if req.URL.Scheme != "https" && !isHere(req.URL.Hostname()) && g.carries(req) {
		return nil, g.refuse(req, "has no TLS at")
	}
	return g.RoundTripper.RoundTrip(req)
}

// origin returns the request that was redirected; without a redirect, the request itself.
func origin(req *http.Request) *http.Request {
	for req.Response != nil && req.Response.Request != nil {
		req = req.Response.Request
	}
	return req
}

// isHere reports whether a host is this machine.
func isHere(host string) bool {
	return host == "localhost" || net.ParseIP(host).IsLoopback()
}

// carries reports whether a request has the password, or a token of the registry.
func (g guard) carries(req *http.Request) bool {
	if user, password, ok := req.BasicAuth(); ok && user == g.login.Username && password == g.login.Password {
		return true
	}
	if req.Header.Get("Authorization") != "" && secrets.SameRegistry(req.URL.Host, g.login.Registry) {
		return true
	}
	if req.Body == nil || req.GetBody == nil {
		return req.Body != nil
	}
	body, err := req.GetBody()
	if err != nil {
		return true
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	form, invalid := url.ParseQuery(string(text))
	return err != nil || invalid != nil || form.Get("password") == g.login.Password
}

// refuse drops a request.
func (g guard) refuse(req *http.Request, why string) error {
	if req.Body != nil {
		_ = req.Body.Close() // nothing reads it
	}
	return types.Errorf(types.NotFound, "registry %s %s %s, which must not get the password of secret %s: give the registry TLS, or ask its owner", g.login.Registry, why, types.Cut(req.URL.Host, types.MaxName), g.login.Secret)
}

// Hide returns an error without its text if that has the password of a login: registries choose parts of
// such texts.
func Hide(err error, login secrets.Login) error {
	if err == nil || login.Password == "" {
		return err
	}
	basic := base64.StdEncoding.EncodeToString([]byte(login.Username + ":" + login.Password))
	for _, form := range []string{login.Password, url.QueryEscape(login.Password), basic} {
		if strings.Contains(err.Error(), form) {
			return types.Errorf(types.ClassOf(err), "its answer has the password of secret %s, and is left out", login.Secret)
		}
	}
	return err
}
