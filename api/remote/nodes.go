package remote

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

const (
	// maxProblem and maxAnswer bound an error and a list in bytes.
	maxProblem, maxAnswer = 1 << 20, 64 << 20
)

// Nodes reaches nodes by a server.
func Nodes(c *client.Client) *nodeapi.Server {
	server, base, token, transport := c.Connection()
	return &nodeapi.Server{
		Node: func(name string) *nodeapi.Client {
			return nodeapi.Through(name, server, base, token, &through{name, transport})
		},
		Logged: func(ctx context.Context, ns, id string) ([]nodeapi.LoggedAt, []string, error) {
			return logged(ctx, c, ns, id)
		},
	}
}

// logged returns the attempts of a task whose output nodes keep, and the nodes that do not answer.
func logged(ctx context.Context, c *client.Client, ns, id string) ([]nodeapi.LoggedAt, []string, error) {
	var all struct {
		Items []nodeapi.LoggedAt
		Away  []string
	}
	err := c.Get(ctx, "/v1/namespaces/"+url.PathEscape(ns)+"/tasks/"+url.PathEscape(id)+"/attempts", nil, &all)
	return all.Items, all.Away, err
}

// through sends requests for the API of a node to the operations of a server, and returns their answers
// as the node has them.
type through struct {
	node string
	next http.RoundTripper
}

// form is how an answer of the server differs from that of a node.
type form int

const (
	same form = iota
	// list has its elements in a field, and lines are to be a line each. stream is server-sent events.
	list
	lines
	stream
)

// RoundTrip sends a request.
func (t *through) RoundTrip(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	path, query, as := t.operation(r.Method, r.URL)
	out.URL.RawPath, out.URL.RawQuery = path, query.Encode()
	out.URL.Path, _ = url.PathUnescape(path)
	out.Header.Del("Expect")
	if as == stream {
		out.Header.Set("Accept", client.EventStream)
	}
	res, err := t.next.RoundTrip(out)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= http.StatusBadRequest {
		return refusal(res), nil
	}
	switch as {
	case same:
	case list, lines:
		err = t.elements(res, as == lines)
	case stream:
		res.Body = streamed(res.Body)
	}
	return res, err
}

// operation returns the path and the query of the operation for a request of the API of a node.
func (t *through) operation(method string, u *url.URL) (path string, query url.Values, as form) {
	query = u.Query()
	parts := strings.Split(strings.TrimPrefix(u.EscapedPath(), "/v1/"), "/")
	onNode := "/v1/nodes/" + url.PathEscape(t.node) + "/"
	if len(parts) < 4 {
		what := strings.Join(parts, "/")
		switch {
		case what == "usage":
			return onNode + "usage/tasks", query, list
		case what == "usage/node":
			return onNode + "usage", query, same
		case what == "images":
			return onNode + what, query, list
		case what == "images/pull" && method == http.MethodPost:
			return onNode + what, query, stream
		}
		return onNode + what, query, same
	}
	what := parts[0]
	query.Set("attempt", parts[3])
	query.Set("node", t.node)
	path = "/v1/namespaces/" + parts[1] + "/tasks/" + parts[2] + "/" + what
	switch {
	case what == "ports" && len(parts) > 4:
		path += "/" + parts[4]
	case what == "files" && query.Get("stat") != "":
		path += "/stat"
		query.Del("stat")
	case what == "events":
		follow := query.Get("follow") == "true"
		query.Del("follow")
		if follow {
			return path, query, stream
		}
		return path, query, lines
	}
	return path, query, same
}

// refusal returns an answer with an error as a node has it.
func refusal(res *http.Response) *http.Response {
	text, _ := io.ReadAll(io.LimitReader(res.Body, maxProblem)) // a part says more than why the rest is missing
	res.Body.Close()
	out, _ := json.Marshal(answer.ProblemOf(client.Problem(text))) // it is two texts
	if res.StatusCode == http.StatusUnauthorized {
		res.StatusCode = http.StatusForbidden // to a client of a node, the other means a new session
	}
	res.Body = io.NopCloser(bytes.NewReader(out))
	return res
}

// elements replaces the object with a list by the list, or by a line for each element.
func (t *through) elements(res *http.Response, each bool) error {
	text, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	res.Body.Close()
	if err != nil {
		return err
	}
	var all struct{ Items []json.RawMessage }
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	var out bytes.Buffer
	for _, item := range all.Items {
		out.Write(item)
		out.WriteByte('\n')
	}
	if !each {
		out.Reset()
		_ = json.NewEncoder(&out).Encode(all.Items) // a buffer takes all
	}
	res.Body, res.ContentLength = io.NopCloser(&out), -1
	return nil
}

// events is the body of an answer with server-sent events, as lines.
type events struct {
	*io.PipeReader
	from io.Closer
}

// Close ends the reading.
func (e events) Close() error {
	err := e.from.Close()
	_ = e.PipeReader.Close() // it never fails
	return err
}

// streamed returns the data of events, a line each: those of steps as they are, and the result as an image.
func streamed(from io.ReadCloser) io.ReadCloser {
	r, w := io.Pipe()
	go func() {
		ended := false
		err := client.Events(from, func(e client.Event) error {
			data := []byte(e.Data)
			switch e.Kind {
			case "over":
				ended = true
				return nil
			case "result":
				ended, data = true, slices.Concat([]byte(`{"image":`), data, []byte("}"))
			}
			_, err := w.Write(append(data, '\n'))
			return err
		})
		if problem, ok := errors.AsType[*types.Error](err); ok {
			text, _ := json.Marshal(answer.ProblemOf(problem)) // it is two texts
			_, err = w.Write(append(text, '\n'))
		} else if err == nil && !ended {
			err = io.ErrUnexpectedEOF
		}
		w.CloseWithError(err) // nil means io.EOF
	}()
	return events{r, from}
}
