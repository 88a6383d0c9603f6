package nodeapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httputil"
	"net/url"
	"time"

	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

// Path returns the path of a request about an attempt, such as that of its logs; attempt 0 omits the
// attempt.
func Path(what, ns, id string, attempt int) string { return request(what, ns, id, attempt, nil) }

// Pass passes a request on to the node, with another path and query, and passes the answer back as it
// comes, also that of a WebSocket. It ends with the client. It gives an error to refuse, also one with
// which the node answers; then nothing was written to w.
func (c *Client) Pass(w http.ResponseWriter, r *http.Request, path string, query url.Values, refuse func(error)) {
	ctx, cancel := context.WithCancelCause(r.Context())
	defer cancel(nil)
	in := r.WithContext(ctx)
	sends := r.Body != nil && r.ContentLength != 0
	if sends {
		in.Body = io.NopCloser(r.Body) // the rest is read below, if it is refused
	}
	begun := c.mustBegin(sends, cancel)
	proxy := &httputil.ReverseProxy{
		Transport:     c.http.Transport,
		FlushInterval: -1, // at once
		ErrorLog:      log.New(io.Discard, "", 0),
		Rewrite:       func(pr *httputil.ProxyRequest) { c.rewrite(pr, path, query, sends) },
		ModifyResponse: func(res *http.Response) error {
			begun()
			if res.StatusCode == http.StatusOK || res.StatusCode == http.StatusSwitchingProtocols {
				return nil
			}
			return refused{c.refusal(res)}
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			begun()
			if said, ok := errors.AsType[refused](err); ok {
				err = said.error
			} else if cause := context.Cause(ctx); cause != nil {
				err = c.broken(cause)
			} else {
				err = c.broken(err)
			}
			if sends {
				Drain(w, r)
			}
			refuse(err)
		},
	}
	proxy.ServeHTTP(w, in)
}

// Drain reads the rest of a refused body, within limits of size and time: a client that still sends would
// not see the answer.
func Drain(w http.ResponseWriter, r *http.Request) {
	body, end := steadyBody(w, r)
	defer end()
	drain(body)
}

// refused is an error with which the node has answered.
type refused struct{ error }

// rewrite makes a request one for the node.
func (c *Client) rewrite(pr *httputil.ProxyRequest, path string, query url.Values, sends bool) {
	base, _ := url.Parse(c.base) // New has parsed the address
	pr.Out.URL.Scheme, pr.Out.URL.Host = base.Scheme, base.Host
	pr.Out.URL.Path, _ = url.PathUnescape(base.Path + path)
	pr.Out.URL.RawPath, pr.Out.URL.RawQuery = base.Path+path, query.Encode()
	pr.Out.Host = pr.In.Host // a WebSocket compares it with its origin
	pr.Out.Header.Del("Cookie")
	pr.Out.Header.Set("Authorization", "Bearer "+c.token)
	if sends {
		pr.Out.Header.Set("Expect", "100-continue")
	}
}

// mustBegin cancels a request without a body to which the node does not begin to answer in time. The
// caller calls begun when it has.
func (c *Client) mustBegin(sends bool, cancel context.CancelCauseFunc) (begun func()) {
	if sends {
		return func() {} // The time to send a body is not limited.
	}
	late := types.Errorf(types.Unavailable, "it has not begun to answer for %s", answerTimeout)
	timer := time.AfterFunc(answerTimeout, func() { cancel(late) })
	return func() { timer.Stop() }
}

// refusal returns the error of an answer with an unexpected status.
func (c *Client) refusal(res *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxLine)) // A part says more than why the rest is missing.
	if res.StatusCode == http.StatusUnauthorized {
		return types.Errorf(types.Unavailable, "ask node %s: its agent has begun a new session: try again", c.node)
	}
	return answer.Refused("node "+c.node, res.StatusCode, bytes.TrimSpace(text))
}
