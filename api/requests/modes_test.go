package requests_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/nodeagent/peers"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// operation is an operation of the HTTP API, with its row of the table of rights.
type operation struct {
	access.Row
	method, path string
}

// of returns its path for a namespace, and an object.
func (o operation) of(ns, id string) string {
	return strings.NewReplacer("{namespace}", ns, "{id}", id, "{name}", id, "{node}", id, "{pull}", id, "{digest}", id).Replace(o.path)
}

// operations lists the operations that a handler serves, by its description.
func operations(t testing.TB, handler http.Handler) (all []operation) {
	t.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/openapi.json", nil))
	var described struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &described); err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]access.Row)
	for _, row := range access.Table() {
		rows[row.Operation] = row
	}
	for path, methods := range described.Paths {
		for method, op := range methods {
			row, ok := rows[op.OperationID]
			if !ok {
				t.Errorf("%s %s has no row", method, path)
			}
			all = append(all, operation{row, strings.ToUpper(method), path})
		}
	}
	return all
}

// asked is a request below the namespace, or one of the cluster.
type asked struct{ path, body string }

// itself has the permitted and the refused requests of each operation with SocketSelf.
func itself() map[string]struct{ may, mayNot []asked } {
	return map[string]struct{ may, mayNot []asked }{
		"whoAmI":     {may: []asked{{"/v1/whoami", ""}}},
		"watchPeers": {may: []asked{{"/v1/peers", ""}}},
		"getTask":    {may: []asked{{"tasks/me", ""}}, mayNot: []asked{{"tasks/other", ""}, {"tasks/m", ""}}},
		"waitTasks": {
			may:    []asked{{"wait?id=me&until=running", ""}},
			mayNot: []asked{{"wait?id=other", ""}, {"wait?id=me&id=other", ""}, {"wait", ""}},
		},
		"watch": {
			may:    []asked{{"watch?id=me", ""}},
			mayNot: []asked{{"watch", ""}, {"watch?of=resources&id=me", ""}, {"watch?of=resources", ""}, {"watch?id=me&id=other", ""}},
		},
		"setResource": {
			may: []asked{
				{"resources", `{"name":"new","capacity":"1"}`}, {"resources", `{"name":"new","capacity":"2","lifetime":"task"}`},
				{"resources", `{"name":"new","capacity":"0","where":{"nodes":["n1"]},"owner":"me","lifetime":"task"}`},
			},
			mayNot: []asked{
				{"resources", `{"name":"theirs","capacity":"5"}`}, {"resources", `{"name":"theirs","capacity":"0"}`},
				{"resources", `{"name":"x","capacity":"1","where":{"nodes":["n2"]}}`}, {"resources", `{"name":"x","capacity":"1","where":{}}`},
				{"resources", `{"name":"x","capacity":"1","where":{"cluster":true}}`}, {"resources", `{"name":"x","capacity":"1","lifetime":"job"}`},
				{"resources", `{"name":"x","capacity":"1","lifetime":"task","owner":"other"}`},
				{"resources", `{"name":"x","capacity":"1","where":{"nodes":["n1"],"available":{"cpu":"1"}}}`},
			},
		},
		"stopTask":  {may: []asked{{"tasks/me/stop", `{}`}}, mayNot: []asked{{"tasks/other/stop", `{}`}, {"tasks/m/stop", `{}`}}},
		"evictTask": {may: []asked{{"tasks/me/evict", `{}`}}, mayNot: []asked{{"tasks/other/evict", `{}`}}},
	}
}

// whole has a permitted request of each other operation that sockets with SocketNamespace serve.
func whole() map[string]asked {
	return map[string]asked{
		"getState": {"state?reads=true", ""}, "listTasks": {"tasks", ""}, "launchTasks": {"tasks", `{"tasks":[{"spec":{"image":"i"}}]}`},
		"listJobs": {"jobs", ""}, "getJob": {"jobs/j", ""}, "stopJob": {"jobs/j/stop", `{}`},
		"listResources": {"resources", ""}, "listReservations": {"reservations", ""}, "listPolicies": {"policies", ""},
		"reserve": {"reservations", `{"id":"new","bundles":[{"requests":{"cpu":"1"}}]}`}, "unreserve": {"reservations/r", ""},
		"canI":     {"/v1/can-i?verb=read&kind=tasks&namespace=d", ""},
		"holdUnit": {"/v1/hold?name=theirs", ""},
		"transact": {"transactions", `{"set":[{"name":"x","capacity":"1"}]}`},
	}
}

// TestModes sends a request of every operation by sockets with every right, in the own namespace and in
// another one: a refused request changes nothing and tells nothing.
func TestModes(t *testing.T) {
	own, all := itself(), whole()
	for _, op := range operations(t, api(memstore.New())) {
		rows, isOwn := own[op.Operation]
		one, isWhole := all[op.Operation]
		if isOwn != op.Itself || (isOwn || isWhole) != op.Tasks {
			t.Errorf("%s is served to tasks: %t, to one about itself: %t", op.Operation, op.Tasks, op.Itself)
		}
		delete(own, op.Operation)
		delete(all, op.Operation)
		for _, a := range rows.may {
			op.is(t, types.SocketNamespace, "d", a, true)
			op.is(t, types.SocketSelf, "d", a, true)
			op.is(t, types.SocketNamespace, "e", a, strings.HasPrefix(a.path, "/"))
		}
		for _, a := range rows.mayNot {
			op.is(t, types.SocketSelf, "d", a, false)
		}
		if isWhole {
			op.is(t, types.SocketNamespace, "d", one, true)
			op.is(t, types.SocketNamespace, "e", one, strings.HasPrefix(one.path, "/"))
			op.is(t, types.SocketSelf, "d", one, false)
		}
		if !op.Tasks && !op.Public {
			other := asked{op.of("d", "me"), `{}`}
			op.is(t, types.SocketNamespace, "d", other, false)
			op.is(t, types.SocketSelf, "d", other, false)
		}
	}
	if len(own)+len(all) > 0 {
		t.Errorf("no operations: %v %v", own, all)
	}
}

// is sends a request by a socket, and checks whether it is permitted.
func (o operation) is(t *testing.T, mode types.Socket, ns string, a asked, may bool) {
	t.Helper()
	path := a.path
	if !strings.HasPrefix(path, "/") {
		path = "/v1/namespaces/" + ns + "/" + path
	}
	code, text := ask(t, mode, o.method, asked{path, a.body})
	if (code == http.StatusOK) != may || !may && code != http.StatusForbidden && !strings.Contains(text, "does not belong to task me") {
		t.Errorf("%s: %s %s %s with %s: %d: %s", o.Operation, o.method, path, a.body, mode, code, text)
	}
}

// ask serves one request of a task on a new store, and checks that a refused one writes nothing.
func ask(t *testing.T, mode types.Socket, method string, a asked) (code int, text string) {
	t.Helper()
	store := memstore.New()
	change := controlplane.NewChange(1)
	for _, node := range []string{"n1", "n2"} {
		change.Put(controlplane.NodeKey(node), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 2000})})
		change.Put(controlplane.AliveKey(node), &types.Alive{TTLSeconds: 15})
	}
	for _, ns := range []string{"d", "e"} {
		for _, id := range []string{"me", "other"} {
			change.Put(controlplane.TaskKey(ns, id), &types.Task{Name: id, Job: "j"})
			change.Put(controlplane.StatusKey(ns, id), &types.Status{Phase: types.Running, Node: "n1", Attempt: 1})
		}
		change.Put(controlplane.JobKey(ns, "j"), &types.Job{Tasks: 2})
		change.Put(controlplane.ReservationKey(ns, "r"), &types.Reservation{})
		change.Put(controlplane.ResourceKey(ns, "theirs", "n1"), &types.Resource{Capacity: 1000, Lifetime: types.OfTask, Owner: "other", NodeSession: 1})
	}
	res, err := store.Commit(t.Context(), change.Txn())
	if err != nil {
		t.Fatal(err)
	}
	c, err := controlplane.New(store, "d")
	if err != nil {
		t.Fatal(err)
	}
	caller := tasksocket.Caller{Self: tasksocket.Self{Namespace: "d", Task: "me", Attempt: 1, Node: "n1"}, Own: mode == types.SocketSelf, Client: c, Hold: fine, Peers: fine}
	ctx, cancel := context.WithCancel(tasksocket.With(t.Context(), caller))
	if strings.Contains(a.path, "/watch") {
		cancel() // a watch has no other end
	}
	defer cancel()
	w := httptest.NewRecorder()
	api(store).ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, "http://x"+a.path, strings.NewReader(a.body)))
	if w.Code != http.StatusOK && store.Revision() != res.Revision {
		t.Errorf("%s was refused, and wrote", a.path)
	}
	return w.Code, w.Body.String()
}

// fine answers as an agent does.
func fine(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

// TestOwnRequests sends the requests that the agent answers itself.
func TestOwnRequests(t *testing.T) {
	for mode, holds := range map[types.Socket]bool{types.SocketNamespace: true, types.SocketSelf: false} {
		c, err := controlplane.New(memstore.New(), "d")
		if err != nil {
			t.Fatal(err)
		}
		client, _ := serve(t, tasksocket.Config{
			Dir: filepath.Join(t.TempDir(), "s"), Client: c, Mode: mode, Self: tasksocket.Self{Namespace: "d", Task: "me", Node: "n1"},
			Peers: func(_ context.Context, tell func([]peers.Peer) error) error {
				return tell([]peers.Peer{{Task: "a", Index: 3}})
			},
		})
		if _, err := client.Hold(t.Context(), "turn", 0); types.Is(err, types.NotFound) != holds || types.Is(err, types.Denied) == holds {
			t.Errorf("%s: hold: %v", mode, err)
		}
		told := 0
		err = client.Peers(t.Context(), func(all tasksocket.Peers) error {
			told += len(all.Peers)
			return errEnough
		})
		if told != 1 || err == nil {
			t.Errorf("%s: %d peers, %v", mode, told, err)
		}
	}
}
