package requests_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// FuzzTasks sends any request as a task: it is answered, never with an internal error, and writes nothing
// outside of the namespace of the task.
func FuzzTasks(f *testing.F) {
	store := memstore.New()
	for _, op := range operations(f, api(store)) {
		if op.Tasks && !strings.HasSuffix(op.path, "/wait") && !strings.HasSuffix(op.path, "/watch") { // they last
			f.Add(op.method, op.of("d", "a"), "", `{}`)
		}
	}
	const in = "/v1/namespaces/d/"
	f.Add("POST", in+"transactions", "", `{"set":[{"name":"x","capacity":"1","where":{"cluster":true}}],"launch":[{"tasks":[{"name":"a","spec":{"image":"x"}}]}],"if":{"/escher/nodes/n1":0}}`)
	f.Add("POST", in+"resources", "", `{"name":"x","capacity":"inf","where":{"nodes":["n1"]}}`)
	f.Add("POST", in+"reservations", "", `{"id":"r","bundles":[{"requests":{"cpu":"1"}}]}`)
	f.Add("POST", in+"tasks/a/stop", "", `{"reason":"x","grace":"1ns"}`)
	f.Add("POST", "/v1/namespaces/e/resources", "", `{"name":"x","capacity":"1","where":{"nodes":["n1"]}}`)
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		if strings.Contains(path, "wait") || strings.Contains(path, "watch") {
			return
		}
		store := memstore.New()
		change := controlplane.NewChange(1)
		change.Put(controlplane.NodeKey("n1"), &types.Node{})
		change.Put(controlplane.AliveKey("n1"), &types.Alive{})
		res, err := store.Commit(t.Context(), change.Txn())
		if err != nil {
			t.Fatal(err)
		}
		c, err := controlplane.New(store, "d")
		if err != nil {
			t.Fatal(err)
		}
		self := tasksocket.Self{Namespace: "d", Task: "me", Attempt: 1, Node: "n1"}
		r, err := http.NewRequestWithContext(tasksocket.With(t.Context(), tasksocket.Caller{Self: self, Client: c, Hold: fine, Peers: fine}), method, "http://escher/", strings.NewReader(body))
		if err != nil {
			return // it cannot be sent
		}
		r.URL.Path, r.URL.RawQuery = path, query
		w := httptest.NewRecorder()
		api(store).ServeHTTP(w, r)
		if w.Code == http.StatusInternalServerError || !strings.HasPrefix(path, "/openapi") && path != "/docs" && w.Body.Len() > 64<<10+8*len(body) {
			t.Fatalf("%s %s %q: %d, %d bytes: %.300s", method, path, body, w.Code, w.Body.Len(), w.Body)
		}
		all, err := store.List(t.Context(), controlplane.ListOptions{Prefix: controlplane.Root})
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range all.KVs {
			if k, ok := controlplane.Parse(kv.Key); kv.ModRevision > res.Revision && (!ok || k.Namespace != "d") {
				t.Errorf("%s %s %s wrote %s", method, path, body, kv.Key)
			}
		}
	})
}
