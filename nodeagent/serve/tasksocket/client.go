package tasksocket

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

// Client is a client of the task socket. Its methods are the requests of the socket and may be
// called concurrently. Errors have classes of package types: Unavailable if the socket does not
// answer.
type Client struct {
	path string
	http *http.Client
}

// NewClient makes a client of the socket at path. In a container, the variable EnvSocket has the
// path.
func NewClient(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", path)
	}
	return &Client{path: path, http: &http.Client{Transport: &http.Transport{DialContext: dial}}}
}

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Self returns the identity of the task.
func (c *Client) Self(ctx context.Context) (Self, error) {
	return call[Self](ctx, c, http.MethodGet, "/v1/self", nil)
}

// State returns the state of the cluster. With reads, it also has the read keys, for a Transaction
// that depends on it.
func (c *Client) State(ctx context.Context, reads bool) (State, error) {
	return call[State](ctx, c, http.MethodGet, "/v1/state?reads="+strconv.FormatBool(reads), nil)
}

// Set sets a resource, on the node of the task unless s.Where is set.
func (c *Client) Set(ctx context.Context, s Set) (Committed, error) {
	return call[Committed](ctx, c, http.MethodPost, "/v1/resources", s)
}

// Launch launches tasks.
func (c *Client) Launch(ctx context.Context, l Launch) (Launched, error) {
	return call[Launched](ctx, c, http.MethodPost, "/v1/tasks", l)
}

// Tasks returns all tasks of the namespace.
func (c *Client) Tasks(ctx context.Context) (Tasks, error) {
	return call[Tasks](ctx, c, http.MethodGet, "/v1/tasks", nil)
}

// Status returns the status of a task; id may be a unique prefix.
func (c *Client) Status(ctx context.Context, id string) (Status, error) {
	return call[Status](ctx, c, http.MethodGet, "/v1/tasks/"+url.PathEscape(id), nil)
}

// Wait waits until all tasks are in a state: "ended", "healthy", "running" or "bound". After a
// timeout above 0, it returns the tasks in that state.
func (c *Client) Wait(ctx context.Context, until string, timeout time.Duration, ids ...string) (Waited, error) {
	out, deadline := Waited{Complete: true}, time.Now().Add(timeout)
	for begin := 0; begin == 0 || begin < len(ids); begin += maxIDs {
		query := url.Values{"until": {until}, "id": ids[begin:min(begin+maxIDs, len(ids))]}
		if timeout > 0 {
			query.Set("timeout", max(time.Until(deadline), time.Millisecond).String())
		}
		some, err := call[Waited](ctx, c, http.MethodGet, "/v1/wait?"+query.Encode(), nil)
		if err != nil {
			return Waited{}, err
		}
		out.Complete, out.Tasks = out.Complete && some.Complete, append(out.Tasks, some.Tasks...)
	}
	slices.SortFunc(out.Tasks, func(a, b Status) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// maxIDs is the most tasks that one request names: the ids must fit into its head.
const maxIDs = 100

// Stop ends a task for good.
func (c *Client) Stop(ctx context.Context, id string, s Stop) error {
	_, err := call[Committed](ctx, c, http.MethodPost, "/v1/tasks/"+url.PathEscape(id)+"/stop", s)
	return err
}

// Evict ends an attempt of a task, which then waits for its next one.
func (c *Client) Evict(ctx context.Context, id string, attempt int) error {
	_, err := call[Committed](ctx, c, http.MethodPost, "/v1/tasks/"+url.PathEscape(id)+"/evict", Evict{attempt})
	return err
}

// Reserve requests a reservation of bundles: all of them or none.
func (c *Client) Reserve(ctx context.Context, r Reserve) error {
	_, err := call[Committed](ctx, c, http.MethodPost, "/v1/reservations", r)
	return err
}

// Unreserve ends a reservation.
func (c *Client) Unreserve(ctx context.Context, id string) error {
	_, err := call[Committed](ctx, c, http.MethodDelete, "/v1/reservations/"+url.PathEscape(id), nil)
	return err
}

// Commit makes several changes together.
func (c *Client) Commit(ctx context.Context, t Transaction) (Committed, error) {
	return call[Committed](ctx, c, http.MethodPost, "/v1/transactions", t)
}

// call sends a request and decodes its answer.
func call[T any](ctx context.Context, c *Client, method, path string, body any) (T, error) {
	var out T
	var reader io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return out, types.Errorf(types.Invalid, "write request: %w", err)
		}
		reader = bytes.NewReader(text)
	}
	// The socket replaces the host.
	req, err := http.NewRequestWithContext(ctx, method, "http://escher"+path, reader)
	if err != nil {
		return out, types.Errorf(types.Invalid, "write request: %w", err)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return out, c.unanswered(method, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return out, c.unanswered(method, err)
	case res.StatusCode != http.StatusOK:
		return out, answer.Refused("the task socket", res.StatusCode, bytes.TrimSpace(text))
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return out, types.Errorf(types.Internal, "read the answer of the task socket: %w", err)
	}
	return out, nil
}

// unanswered returns the error for a missing answer: Unavailable if the request was never sent or
// changes nothing, and otherwise Unknown.
func (c *Client) unanswered(method string, err error) error {
	class := types.Unknown
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" || method == http.MethodGet {
		class = types.Unavailable
	}
	return types.Errorf(class, "ask the task socket %s: %w", c.path, err)
}
