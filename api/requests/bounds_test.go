package requests_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// TestBounds sends a request of each operation that sockets serve, also by the method HEAD, and checks what it
// uses of the bounds of the agent. A refused bound ends it.
func TestBounds(t *testing.T) {
	listings := []string{"getState", "listTasks", "listJobs", "getJob", "stopJob", "listResources", "listReservations", "listPolicies"}
	watches := []string{"watch", "watchPeers"}
	for _, op := range operations(t, api(memstore.New())) {
		if !op.Tasks {
			continue
		}
		want := tasksocket.Nothing
		switch {
		case slices.Contains(listings, op.Operation):
			want = tasksocket.Listing
		case slices.Contains(watches, op.Operation):
			want = tasksocket.Watching
		}
		methods := []string{op.method}
		if op.method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		for _, method := range methods {
			// A namespace and an object may have any name.
			if code, used := bounded(t, method, op.of("tasks", "wait"), `{}`); want != tasksocket.Nothing && (code != http.StatusServiceUnavailable || !slices.Equal(used, []tasksocket.Bound{want})) || want == tasksocket.Nothing && len(used) > 0 {
				t.Errorf("%s %s: %d, and used %v, want %v", method, op.Operation, code, used, want)
			}
		}
	}
	for body, want := range map[string]int{
		`{"tasks":[{"spec":{"image":"i"}}]}`: 0, `{"job":{"policies":[]},"tasks":[{"spec":{"image":"i"}}]}`: 0,
		`{"job":{"polic\u0069es":[{"name":"gang"}]},"tasks":[{"spec":{"image":"i"}}]}`: 1,
	} {
		if code, used := bounded(t, http.MethodPost, "/v1/namespaces/tasks/tasks", body); len(used) != want || (code == http.StatusServiceUnavailable) != (want > 0) {
			t.Errorf("%s: %d, and used %v", body, code, used)
		}
	}
}

// bounded sends a request whose bound is refused, and returns the status and what it used.
func bounded(t *testing.T, method, path, body string) (code int, used []tasksocket.Bound) {
	t.Helper()
	store := memstore.New()
	c, err := controlplane.New(store, "tasks")
	if err != nil {
		t.Fatal(err)
	}
	caller := tasksocket.Caller{Self: tasksocket.Self{Namespace: "tasks", Task: "me", Node: "n1"}, Client: c, Hold: fine, Peers: fine}
	caller.Use = func(_ context.Context, what tasksocket.Bound) (func(), error) {
		if what != tasksocket.Nothing {
			used = append(used, what)
			return nil, types.Errorf(types.Unavailable, "others use it")
		}
		return func() {}, nil
	}
	ctx, cancel := context.WithCancel(tasksocket.With(t.Context(), caller))
	defer cancel()
	w := httptest.NewRecorder()
	r := httptest.NewRequestWithContext(ctx, method, "http://x"+path+"?id=me&name=turn&verb=read&kind=tasks&timeout=1ms", strings.NewReader(body))
	if !strings.HasSuffix(path, "/wait") && !strings.HasSuffix(path, "/hold") && !strings.HasSuffix(path, "/can-i") {
		r.URL.RawQuery = ""
	}
	api(store).ServeHTTP(w, r)
	return w.Code, used
}

// TestSocketIsBounded opens watches by a socket until it refuses more, and lets them go.
func TestSocketIsBounded(t *testing.T) {
	b := newBench(t)
	const most = 16
	var open []*watching
	for range most {
		x := b.watch(requests.Watch{})
		x.next("synced")
		open = append(open, x)
	}
	if code, text := b.raw("GET", "/v1/namespaces/d/watch", ""); code != http.StatusServiceUnavailable || !strings.Contains(text, "16 watches are open") {
		t.Errorf("%d %s", code, text)
	}
	open[0].cancel()
	if err := <-open[0].ended; err == nil {
		t.Error("the watch ended without an error")
	}
	for code := 0; code != http.StatusOK; { // the agent notices it in a moment
		code, _ = b.raw("HEAD", "/v1/namespaces/d/tasks/me", "")
		x := b.watch(requests.Watch{})
		select {
		case <-x.events:
		case err := <-x.ended:
			if code = 0; !types.Is(err, types.Unavailable) {
				t.Fatal(err)
			}
		}
	}
}

// TestSharedClient asks by the client that the tasks of a node share.
func TestSharedClient(t *testing.T) {
	shared := memstore.New()
	change := controlplane.NewChange(1)
	change.Put(controlplane.TaskKey("d", "a"), &types.Task{Name: "a"})
	if _, err := shared.Commit(t.Context(), change.Txn()); err != nil {
		t.Fatal(err)
	}
	c, err := controlplane.New(shared, "d")
	if err != nil {
		t.Fatal(err)
	}
	caller := tasksocket.Caller{Self: tasksocket.Self{Namespace: "d", Task: "me", Node: "n1"}, Client: c}
	w := httptest.NewRecorder()
	api(memstore.New()).ServeHTTP(w, httptest.NewRequestWithContext(tasksocket.With(t.Context(), caller), http.MethodGet, "/v1/namespaces/d/tasks/a", nil))
	if w.Code != http.StatusOK {
		t.Errorf("%d: %s", w.Code, w.Body)
	}
}
