package requests

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// Client sends requests about a namespace to the HTTP API. Its methods may be called concurrently. Errors
// have classes of package types: Unavailable if no server answers.
type Client struct {
	api *client.Client
	ns  string
	now func() time.Time
}

// NewClient returns a client of a namespace, with a clock.
func NewClient(api *client.Client, ns string, now func() time.Time) *Client {
	return &Client{api: api, ns: ns, now: now}
}

// AtSocket returns a client of the socket of a task at path, for a namespace. Close it after use.
func AtSocket(path, ns string, now func() time.Time) (*Client, error) {
	api, err := client.New(client.Config{Server: "unix://" + path})
	return NewClient(api, ns, now), err
}

// Inside returns a client of the socket of a task at path, for the namespace of the task, and the task. In a
// container, the variable tasksocket.EnvSocket has the path. Close the client after use.
func Inside(ctx context.Context, path string, now func() time.Time) (*Client, tasksocket.Self, error) {
	c, err := AtSocket(path, "", now)
	if err != nil {
		return nil, tasksocket.Self{}, err
	}
	self, err := c.Self(ctx)
	if err != nil {
		c.Close()
		return nil, self, err
	}
	c.ns = self.Namespace
	return c, self, nil
}

// Close closes idle connections.
func (c *Client) Close() { c.api.Close() }

// path returns a path below the namespace.
func (c *Client) path(parts ...string) string { return Path(c.ns, parts...) }

// Path returns a path of the HTTP API below a namespace.
func Path(ns string, parts ...string) string {
	path := "/v1/namespaces/" + url.PathEscape(ns)
	for _, p := range parts {
		path += "/" + url.PathEscape(p)
	}
	return path
}

// Self returns the identity of the task. Precondition: the program runs in none.
func (c *Client) Self(ctx context.Context) (tasksocket.Self, error) {
	var me struct{ Task *tasksocket.Self }
	if err := c.api.Get(ctx, "/v1/whoami", nil, &me); err != nil {
		return tasksocket.Self{}, err
	}
	if me.Task == nil {
		return tasksocket.Self{}, types.Errorf(types.Precondition, "ask which task this is: the server knows no task that sends this: ask by the socket of a task")
	}
	return *me.Task, nil
}

// State returns the state of the cluster. With reads, it also has the read keys, for a Transaction
// that depends on it.
func (c *Client) State(ctx context.Context, reads bool) (out State, err error) {
	return out, c.api.Get(ctx, c.path("state"), url.Values{"reads": {strconv.FormatBool(reads)}}, &out)
}

// Set sets a resource. In a task, it is on the task's node unless s.Where is set.
func (c *Client) Set(ctx context.Context, s Set) (out Committed, err error) {
	return out, c.post(ctx, s, &out, "resources")
}

// Launch launches tasks.
func (c *Client) Launch(ctx context.Context, l Launch) (out Launched, err error) {
	return out, c.post(ctx, l, &out, "tasks")
}

// Tasks returns all tasks of the namespace. They may have changed between two pages.
func (c *Client) Tasks(ctx context.Context) (out Tasks, err error) {
	query := url.Values{"limit": {"10000"}}
	for {
		var page struct {
			Items    []Status
			Next     string
			Revision int64
		}
		if err := c.api.Get(ctx, c.path("tasks"), query, &page); err != nil {
			return out, err
		}
		out.Revision, out.Tasks = cmp.Or(out.Revision, page.Revision), append(out.Tasks, page.Items...)
		if page.Next == "" {
			return out, nil
		}
		query.Set("after", page.Next)
	}
}

// Status returns the status of a task; id may be a unique prefix.
func (c *Client) Status(ctx context.Context, id string) (out Status, err error) {
	return out, c.api.Get(ctx, c.path("tasks", id), nil, &out)
}

// Wait waits until all tasks are in a state: "ended", "healthy", "running" or "bound". After a
// timeout above 0, it returns the tasks in that state.
func (c *Client) Wait(ctx context.Context, until string, timeout time.Duration, ids ...string) (Waited, error) {
	out, deadline := Waited{Complete: true}, c.now().Add(timeout)
	for begin := 0; begin == 0 || begin < len(ids); begin += maxIDs {
		query := url.Values{"until": {cmp.Or(until, "ended")}, "id": ids[begin:min(begin+maxIDs, len(ids))]}
		if timeout > 0 {
			query.Set("timeout", max(deadline.Sub(c.now()), time.Millisecond).String())
		}
		some, err := c.wait(ctx, query)
		if err != nil {
			return Waited{}, err
		}
		out.Complete, out.Tasks = out.Complete && some.Complete, append(out.Tasks, some.Tasks...)
	}
	slices.SortFunc(out.Tasks, func(a, b Status) int { return strings.Compare(a.ID, b.ID) })
	return out, nil
}

// wait sends one request to wait. It may last for as long as ctx.
func (c *Client) wait(ctx context.Context, query url.Values) (out Waited, err error) {
	res, err := c.api.Send(ctx, http.MethodGet, c.path("wait")+"?"+query.Encode(), "", nil)
	if err != nil {
		return out, err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&out); err != nil {
		return out, types.Errorf(types.Unavailable, "read the answer to wait: %w: wait again", err)
	}
	return out, nil
}

// maxIDs is the most tasks that one request names: the ids must fit into its head.
const maxIDs = 100

// Stop ends a task for good.
func (c *Client) Stop(ctx context.Context, id string, s Stop) error {
	return c.post(ctx, s, nil, "tasks", id, "stop")
}

// Evict ends an attempt of a task, which then waits for its next one.
func (c *Client) Evict(ctx context.Context, id string, attempt int) error {
	return c.post(ctx, Evict{attempt}, nil, "tasks", id, "evict")
}

// Reserve requests a reservation of bundles: all of them or none.
func (c *Client) Reserve(ctx context.Context, r Reserve) error {
	return c.post(ctx, r, nil, "reservations")
}

// Unreserve ends a reservation.
func (c *Client) Unreserve(ctx context.Context, id string) error {
	return c.api.Do(ctx, http.MethodDelete, c.path("reservations", id), nil, nil)
}

// Commit makes several changes together.
func (c *Client) Commit(ctx context.Context, t Transaction) (out Committed, err error) {
	return out, c.post(ctx, t, &out, "transactions")
}

// post sends a request with a body, and reads its answer; nil means that it is not needed.
func (c *Client) post(ctx context.Context, body, into any, parts ...string) error {
	return c.api.Do(ctx, http.MethodPost, c.path(parts...), body, into)
}

// Watch calls handle with the current state, an event "synced", and then every change. It ends when
// ctx is done, or handle returns an error, which it returns. Unavailable: the watch broke off.
func (c *Client) Watch(ctx context.Context, w Watch, handle func(Event) error) error {
	if len(w.IDs) > maxIDs {
		w.IDs, handle = nil, onlyTasks(w.IDs, handle)
	}
	query := url.Values{"of": {cmp.Or(w.Of, "tasks")}, "id": w.IDs}
	if w.After != 0 {
		query.Set("after", strconv.FormatInt(w.After, 10))
	}
	if err := c.follow(ctx, c.path("watch"), query, handle); err != nil {
		return err
	}
	return types.Errorf(types.Unavailable, "watch %s: it was ended: watch again, after the last id", query.Get("of"))
}

// Peers calls handle with the running tasks of the job of the task, at once and after each change. It ends
// as Watch does. Only the socket of a task answers it.
func (c *Client) Peers(ctx context.Context, handle func(tasksocket.Peers) error) error {
	err := c.follow(ctx, "/v1/peers", nil, func(e Event) error {
		var all tasksocket.Peers
		if err := json.Unmarshal(e.Data, &all); err != nil {
			return types.Errorf(types.Internal, "read event: %w", err)
		}
		return handle(all)
	})
	if err == nil {
		err = types.Errorf(types.Unavailable, "watch peers: it was ended: watch again")
	}
	return err
}

// follow calls handle with the events of a request until its answer ends.
func (c *Client) follow(ctx context.Context, path string, query url.Values, handle func(Event) error) error {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return c.api.Follow(ctx, http.MethodGet, path, "", nil, handle)
}

// onlyTasks returns a handler that leaves out the events of other tasks.
func onlyTasks(ids []string, handle func(Event) error) func(Event) error {
	wanted := make(map[string]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	return func(e Event) error {
		if e.Kind != "task" {
			return handle(e)
		}
		var task struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(e.Data, &task); err != nil {
			return types.Errorf(types.Internal, "read event: %w", err)
		}
		if !wanted[task.ID] {
			return nil
		}
		return handle(e)
	}
}

// Hold waits for a unit of a resource of the task's node, and holds it until release, for at most limit;
// 0 means 10 s. The agent then gives it to the next task. NotFound: the node has no such resource.
func (c *Client) Hold(ctx context.Context, name string, limit time.Duration) (release func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var failed error // set before ended is closed
	held, ended := make(chan struct{}), make(chan struct{})
	query := url.Values{"name": {name}}
	if limit > 0 {
		query.Set("limit", limit.String())
	}
	go func() {
		defer close(ended)
		var once sync.Once
		if failed = c.follow(ctx, "/v1/hold", query, func(Event) error {
			once.Do(func() { close(held) })
			return nil
		}); failed == nil {
			failed = types.Errorf(types.Unavailable, "hold %s: it was ended: ask again", name)
		}
	}()
	select {
	case <-held:
		return sync.OnceFunc(func() { cancel(); <-ended }), nil
	case <-ended:
		cancel()
		return nil, failed
	}
}
