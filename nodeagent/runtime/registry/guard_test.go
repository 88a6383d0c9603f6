package registry

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/escher-sched/escher/nodeagent/secrets"
	"github.com/escher-sched/escher/types"
)

func login() secrets.Login {
	return secrets.Login{Secret: "registry-reg.example", Registry: "reg.example", Username: "ann", Password: "se same"}
}

// network answers requests by the path of their redirects, and keeps what each host got.
type network struct {
	redirects map[string]string
	got       []string
}

func (n *network) RoundTrip(req *http.Request) (*http.Response, error) {
	body := ""
	if req.Body != nil {
		text, _ := io.ReadAll(req.Body)
		body = " " + string(text)
	}
	n.got = append(n.got, fmt.Sprintf("%s %s %q%s", req.Method, req.URL, req.Header.Get("Authorization"), body))
	res := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: req}
	if to := n.redirects[req.URL.String()]; to != "" {
		res.StatusCode = http.StatusTemporaryRedirect
		res.Header.Set("Location", to)
	}
	return res, nil
}

// TestGuard sends a password, and the token of its registry, to no host but its own, and there only by TLS.
func TestGuard(t *testing.T) {
	basic := "Basic YW5uOnNlIHNhbWU="
	form := url.Values{"password": {"se same"}}.Encode()
	for name, c := range map[string]struct {
		method, at, auth, body string
		redirects              map[string]string
		got                    []string // with the reason of a refusal
	}{
		"by TLS":                {at: "https://reg.example/v2/", auth: basic, got: []string{`GET https://reg.example/v2/ "` + basic + `"`}},
		"a token service":       {at: "https://auth.example/token", auth: basic, got: []string{`GET https://auth.example/token "` + basic + `"`}},
		"a token service, POST": {method: "POST", at: "https://auth.example/token", body: form, got: []string{`POST https://auth.example/token "" ` + form}},
		"this machine":          {at: "http://127.0.0.1:5000/v2/", auth: basic, got: []string{`GET http://127.0.0.1:5000/v2/ "` + basic + `"`}},
		"this machine by name":  {at: "http://localhost:5000/v2/", auth: basic, got: []string{`GET http://localhost:5000/v2/ "` + basic + `"`}},
		"this machine, IPv6":    {at: "http://[::1]:5000/v2/", auth: basic, got: []string{`GET http://[::1]:5000/v2/ "` + basic + `"`}},
		"not this machine":      {at: "http://localhost.example:5000/v2/", auth: basic, got: []string{"has no TLS at localhost.example:5000"}},
		"plain, without it":     {at: "http://reg.example/v2/", got: []string{`GET http://reg.example/v2/ ""`}},
		"plain":                 {at: "http://reg.example/v2/", auth: basic, got: []string{"reg.example has no TLS at reg.example"}},
		"plain, a token":        {at: "http://reg.example/v2/", auth: "Bearer abc", got: []string{"has no TLS at reg.example"}},
		"plain token service":   {at: "http://auth.example/token", auth: basic, got: []string{"has no TLS at auth.example"}},
		"plain, POST":           {method: "POST", at: "http://auth.example/token", body: form, got: []string{"has no TLS at auth.example"}},
		"plain, of the node":    {at: "http://mirror.lan/v2/", auth: "Basic bm9kZTpub2Rl", got: []string{`GET http://mirror.lan/v2/ "Basic bm9kZTpub2Rl"`}},
		"plain, POST of the node": {
			method: "POST", at: "http://auth.lan/token", body: "password=other", got: []string{`POST http://auth.lan/token "" password=other`},
		},
		"redirected": {
			at: "https://reg.example/a", auth: basic, redirects: map[string]string{"https://reg.example/a": "https://cdn.example/b"},
			got: []string{`GET https://reg.example/a "` + basic + `"`, `GET https://cdn.example/b ""`},
		},
		"redirected to another port": {
			at: "https://reg.example/a", auth: basic, redirects: map[string]string{"https://reg.example/a": "https://reg.example:8443/b"},
			got: []string{`GET https://reg.example/a "` + basic + `"`, `GET https://reg.example:8443/b ""`},
		},
		"redirected below, twice": {
			at: "https://reg.example/a", auth: "Bearer abc", redirects: map[string]string{"https://reg.example/a": "https://x.reg.example/b", "https://x.reg.example/b": "https://x.reg.example/c"},
			got: []string{`GET https://reg.example/a "Bearer abc"`, `GET https://x.reg.example/b ""`, `GET https://x.reg.example/c ""`},
		},
		"redirected on the host": {
			at: "https://reg.example/a", auth: basic, redirects: map[string]string{"https://reg.example/a": "https://reg.example/b"},
			got: []string{`GET https://reg.example/a "` + basic + `"`, `GET https://reg.example/b "` + basic + `"`},
		},
		"redirected to plain HTTP": {
			at: "https://reg.example/a", auth: basic, redirects: map[string]string{"https://reg.example/a": "http://reg.example/a"},
			got: []string{`GET https://reg.example/a "` + basic + `"`, "has no TLS at reg.example"},
		},
		"redirected POST": {
			method: "POST", at: "https://auth.example/token", body: form, redirects: map[string]string{"https://auth.example/token": "https://evil.example/token"},
			got: []string{`POST https://auth.example/token "" ` + form, "redirects to evil.example"},
		},
	} {
		n := &network{redirects: c.redirects}
		req, err := http.NewRequestWithContext(t.Context(), c.method, c.at, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		if c.body == "" {
			req.Body, req.GetBody, req.ContentLength = nil, nil, 0
		}
		if c.auth != "" {
			req.Header.Set("Authorization", c.auth)
		}
		res, err := (&http.Client{Transport: Guard(n, login())}).Do(req)
		if err == nil {
			res.Body.Close()
		} else {
			n.got = append(n.got, err.Error())
		}
		same := len(n.got) == len(c.got)
		for i := range min(len(n.got), len(c.got)) {
			same = same && strings.Contains(n.got[i], c.got[i])
		}
		if refused, ok := errors.AsType[*types.Error](err); !same || err != nil && (!ok || !types.Is(refused, types.NotFound) || strings.Contains(err.Error(), "se same")) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(n.got, "\n"), strings.Join(c.got, "\n"))
		}
	}
}

// TestGuardOfNothing leaves the transport of a pull without a login.
func TestGuardOfNothing(t *testing.T) {
	n := new(network)
	if Guard(n, secrets.Login{}) != http.RoundTripper(n) {
		t.Error("it has a guard")
	}
}

// TestHide drops the text of an error that has a password, in all forms, and keeps the class.
func TestHide(t *testing.T) {
	const hidden = "its answer has the password of secret registry-reg.example, and is left out"
	for text, want := range map[string]string{
		"the registry says se same":            hidden,
		"at ?password=se+same&x":               hidden,
		"it got Basic YW5uOnNlIHNhbWU=, hence": hidden,
		"nothing":                              "nothing",
	} {
		err := Hide(types.Errorf(types.NotFound, "%s", text), login())
		if !types.Is(err, types.NotFound) || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if Hide(nil, login()) != nil || Hide(io.EOF, secrets.Login{}) != io.EOF { //nolint:errorlint // it is the same
		t.Error("it changes what has no password")
	}
}
