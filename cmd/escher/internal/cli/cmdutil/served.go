package cmdutil

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// Served reports whether the cluster is reached by the HTTP API of a server, without etcd.
func (f *Factory) Served() bool {
	place, err := f.Place()
	return err == nil && place.Server != ""
}

// OnlyDirectly returns an error about something that needs etcd; nil if the cluster is reached by it.
func (f *Factory) OnlyDirectly(what string) error {
	if !f.Served() {
		return nil
	}
	return types.Errorf(types.Precondition, "%s: is not possible by the HTTP API yet: give --endpoints, as an administrator, or leave it out", what)
}

// Path returns the path of the API below the namespace.
func (f *Factory) Path(parts ...string) string {
	path := "/v1/namespaces/" + url.PathEscape(f.Namespace())
	for _, p := range parts {
		path += "/" + url.PathEscape(p)
	}
	return path
}

// Pages reads all pages of a list of the API.
func Pages[T any](ctx context.Context, c *client.Client, path string, query url.Values) (all []T, err error) {
	if query == nil {
		query = url.Values{}
	}
	query.Set("limit", "1000")
	for {
		var page struct {
			Items []T
			Next  string
		}
		if err := c.Get(ctx, path, query, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if page.Next == "" {
			return all, nil
		}
		query.Set("after", page.Next)
	}
}

// served performs the requests of a task socket by the HTTP API of a server.
type served struct {
	c *client.Client
	f *Factory
}

// State reads the state of the cluster.
func (s served) State(ctx context.Context, reads bool) (state tasksocket.State, err error) {
	return state, s.c.Get(ctx, s.f.Path("state"), url.Values{"reads": {strconv.FormatBool(reads)}}, &state)
}

// Set sets a resource.
func (s served) Set(ctx context.Context, set tasksocket.Set) (out tasksocket.Committed, err error) {
	return out, s.c.Do(ctx, http.MethodPost, s.f.Path("resources"), set, &out)
}

// Launch launches tasks.
func (s served) Launch(ctx context.Context, l tasksocket.Launch) (out tasksocket.Launched, err error) {
	return out, s.c.Do(ctx, http.MethodPost, s.f.Path("tasks"), l, &out)
}

// Tasks returns all tasks of the namespace.
func (s served) Tasks(ctx context.Context) (out tasksocket.Tasks, err error) {
	out.Tasks, err = Pages[tasksocket.Status](ctx, s.c, s.f.Path("tasks"), nil)
	return out, err
}

// waitAtOnce is how long one request waits: proxies end requests that are silent for longer.
const waitAtOnce = 30 * time.Second

// idsAtOnce is how many tasks one request names: the ids must fit into its head.
const idsAtOnce = 100

// Wait waits until all tasks are in a state. It asks again until then, or until ctx is done.
func (s served) Wait(ctx context.Context, until string, _ time.Duration, ids ...string) (out tasksocket.Waited, err error) {
	out.Complete = true
	for some := range slices.Chunk(ids, idsAtOnce) {
		query := url.Values{"until": {until}, "id": some, "timeout": {waitAtOnce.String()}}
		for complete := false; !complete; {
			var answer tasksocket.Waited
			if err = s.c.Get(ctx, s.f.Path("wait"), query, &answer); err != nil {
				return out, err
			}
			if complete = answer.Complete; complete {
				out.Tasks = append(out.Tasks, answer.Tasks...)
			}
		}
	}
	return out, nil
}

// Stop ends a task for good.
func (s served) Stop(ctx context.Context, id string, stop tasksocket.Stop) error {
	return s.c.Do(ctx, http.MethodPost, s.f.Path("tasks", id, "stop"), stop, nil)
}
