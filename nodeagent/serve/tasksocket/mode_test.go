package tasksocket

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/nodeagent/peers"
	"github.com/escher-sched/escher/types"
)

// asked is a request in a mode.
type asked struct{ path, body string }

// modes has the permitted and the refused requests of each route with SocketSelf.
func modes() map[string]struct{ may, mayNot []asked } {
	return map[string]struct{ may, mayNot []asked }{
		"GET /v1/self":       {may: []asked{{"/v1/self", ""}}},
		"GET /v1/state":      {mayNot: []asked{{"/v1/state", ""}, {"/v1/state?reads=true", ""}}},
		"GET /v1/tasks":      {mayNot: []asked{{"/v1/tasks", ""}}},
		"GET /v1/tasks/{id}": {may: []asked{{"/v1/tasks/me", ""}}, mayNot: []asked{{"/v1/tasks/other", ""}, {"/v1/tasks/m", ""}}},
		"GET /v1/wait": {
			may:    []asked{{"/v1/wait?id=me&until=running", ""}},
			mayNot: []asked{{"/v1/wait?id=other", ""}, {"/v1/wait?id=me&id=other", ""}, {"/v1/wait", ""}},
		},
		"GET /v1/watch": {
			may:    []asked{{"/v1/watch?id=me", ""}, {"/v1/watch?of=peers", ""}},
			mayNot: []asked{{"/v1/watch", ""}, {"/v1/watch?of=resources&id=me", ""}, {"/v1/watch?of=resources", ""}, {"/v1/watch?id=me&id=other", ""}},
		},
		"GET /v1/hold": {mayNot: []asked{{"/v1/hold?name=theirs", ""}}},
		"POST /v1/resources": {
			may: []asked{
				{"/v1/resources", `{"name":"new","capacity":"1"}`}, {"/v1/resources", `{"name":"new","capacity":"2","lifetime":"task"}`},
				{"/v1/resources", `{"name":"new","capacity":"0","where":{"nodes":["n1"]},"owner":"me","lifetime":"task"}`},
			},
			mayNot: []asked{
				{"/v1/resources", `{"name":"theirs","capacity":"5"}`}, {"/v1/resources", `{"name":"theirs","capacity":"0"}`},
				{"/v1/resources", `{"name":"x","capacity":"1","where":{"nodes":["n2"]}}`}, {"/v1/resources", `{"name":"x","capacity":"1","where":{}}`},
				{"/v1/resources", `{"name":"x","capacity":"1","where":{"cluster":true}}`}, {"/v1/resources", `{"name":"x","capacity":"1","lifetime":"job"}`},
				{"/v1/resources", `{"name":"x","capacity":"1","lifetime":"task","owner":"other"}`},
				{"/v1/resources", `{"name":"x","capacity":"1","where":{"nodes":["n1"],"available":{"cpu":"1"}}}`},
			},
		},
		"POST /v1/tasks":               {mayNot: []asked{{"/v1/tasks", `{"tasks":[{"spec":{"image":"i"}}]}`}}},
		"POST /v1/tasks/{id}/stop":     {may: []asked{{"/v1/tasks/me/stop", `{}`}}, mayNot: []asked{{"/v1/tasks/other/stop", `{}`}, {"/v1/tasks/m/stop", `{}`}}},
		"POST /v1/tasks/{id}/evict":    {may: []asked{{"/v1/tasks/me/evict", `{}`}}, mayNot: []asked{{"/v1/tasks/other/evict", `{}`}}},
		"POST /v1/reservations":        {mayNot: []asked{{"/v1/reservations", `{"id":"r","bundles":[{"requests":{"cpu":"1"}}]}`}}},
		"DELETE /v1/reservations/{id}": {mayNot: []asked{{"/v1/reservations/r", ""}}},
		"POST /v1/transactions":        {mayNot: []asked{{"/v1/transactions", `{"set":[{"name":"x","capacity":"1"}]}`}}},
	}
}

// TestModes tests every route in every mode: a refused request changes nothing and reveals nothing.
func TestModes(t *testing.T) {
	s := &Server{cfg: Config{Mode: types.SocketSelf, Bounds: NewBounds(), Budget: builtIn}, watches: make(chan struct{}, maxWatches)}
	table := modes()
	for _, r := range s.routes() {
		row, ok := table[r.pattern]
		if !ok || len(row.may)+len(row.mayNot) == 0 {
			t.Errorf("%s has no row", r.pattern)
		}
		method, _, _ := strings.Cut(r.pattern, " ")
		for _, a := range row.may {
			for mode, want := range map[types.Socket]bool{types.SocketNamespace: true, types.SocketSelf: true, types.SocketNone: false} {
				if code, text := ask(t, mode, method, a); (code == http.StatusOK) != want {
					t.Errorf("%s %s %s in mode %s: %d: %s", method, a.path, a.body, mode, code, text)
				}
			}
		}
		for _, a := range row.mayNot {
			for _, mode := range []types.Socket{types.SocketSelf, types.SocketNone} {
				if code, text := ask(t, mode, method, a); code != http.StatusPreconditionFailed {
					t.Errorf("%s %s %s in mode %s: %d: %s", method, a.path, a.body, mode, code, text)
				}
			}
		}
		delete(table, r.pattern)
	}
	for pattern := range table {
		t.Errorf("%s is no route", pattern)
	}
}

// ask serves one request on a new store, and checks that a refused one writes nothing.
func ask(t *testing.T, mode types.Socket, method string, a asked) (code int, text string) {
	t.Helper()
	store := memstore.New()
	change := controlplane.NewChange(1)
	for _, node := range []string{"n1", "n2"} {
		change.Put(controlplane.NodeKey(node), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 2000})})
		change.Put(controlplane.AliveKey(node), &types.Alive{TTLSeconds: 15})
	}
	for _, id := range []string{"me", "other"} {
		change.Put(controlplane.TaskKey("d", id), &types.Task{Name: id})
		change.Put(controlplane.StatusKey("d", id), &types.Status{Phase: types.Running, Node: "n1", Attempt: 1})
	}
	change.Put(controlplane.ResourceKey("d", "theirs", "n1"), &types.Resource{Capacity: 1000, Lifetime: types.OfTask, Owner: "other", NodeSession: 1})
	res, err := store.Commit(t.Context(), change.Txn())
	if err != nil {
		t.Fatal(err)
	}
	c, err := controlplane.New(store, "d")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{cfg: Config{Client: c, Mode: mode, Bounds: NewBounds(), Budget: builtIn, Self: Self{Namespace: "d", Task: "me", Attempt: 1, Node: "n1"}, Peers: noPeers}, watches: make(chan struct{}, maxWatches)}
	s.share, _ = s.cfg.Bounds.join("d")
	ctx, cancel := context.WithCancel(t.Context())
	if strings.HasPrefix(a.path, "/v1/watch") {
		cancel() // a watch has no other end
	}
	defer cancel()
	w := httptest.NewRecorder()
	s.handler().ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, "http://x"+a.path, strings.NewReader(a.body)))
	if w.Code != http.StatusOK && store.Revision() != res.Revision {
		t.Errorf("%s was refused, and wrote", a.path)
	}
	return w.Code, w.Body.String()
}

// TestModesDocumented finds each route in the table of the documentation, with its rule for
// SocketSelf.
func TestModesDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/task-api.md")
	if err != nil {
		t.Fatal(err)
	}
	for pattern, row := range modes() {
		want := "| `" + pattern + "` | yes | "
		if len(row.may) == 0 {
			want += "no |"
		}
		if !strings.Contains(string(text), want) || len(row.may) > 0 && strings.Contains(string(text), want+"no |") {
			t.Errorf("docs/task-api.md has no row %s", want)
		}
	}
}

// noPeers follows the peers of a task that has none.
func noPeers(context.Context, func([]peers.Peer) error) error { return nil }
