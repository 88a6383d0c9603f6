package tasksocket

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// FuzzHandler sends any request to a task socket: it is answered, and never with an internal error.
func FuzzHandler(f *testing.F) {
	for _, r := range (&Server{}).routes() {
		method, path, _ := strings.Cut(r.pattern, " ")
		if strings.Contains(path, "wait") || strings.Contains(path, "watch") {
			continue // they last
		}
		f.Add(method, strings.ReplaceAll(path, "{id}", "a"), "", `{}`)
	}
	f.Add("POST", "/v1/transactions", "", `{"set":[{"name":"x","capacity":"1","where":{"cluster":true}}],"tasks":[{"name":"a","spec":{"image":"x"}}],"if":{"/escher/nodes/n1":0}}`)
	f.Add("POST", "/v1/resources", "", `{"name":"x","capacity":"inf","where":{"nodes":["n1"]}}`)
	f.Add("POST", "/v1/reservations", "", `{"id":"r","bundles":[{"requests":{"cpu":"1"}}]}`)
	f.Add("POST", "/v1/tasks/a/stop", "", `{"reason":"x","grace":"1ns"}`)
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		if strings.Contains(path, "wait") || strings.Contains(path, "watch") {
			return
		}
		store := memstore.New()
		change := controlplane.NewChange(1)
		change.Put(controlplane.NodeKey("n1"), &types.Node{})
		change.Put(controlplane.AliveKey("n1"), &types.Alive{})
		if _, err := store.Commit(t.Context(), change.Txn()); err != nil {
			t.Fatal(err)
		}
		c, err := controlplane.New(store, "d")
		if err != nil {
			t.Fatal(err)
		}
		s, err := Listen(Config{Dir: t.TempDir() + "/s", Client: c, Self: Self{Namespace: "d", Task: "me", Attempt: 1, Node: "n1"}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.listener.Close()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://escher/", strings.NewReader(body))
		if err != nil {
			return // it cannot be sent
		}
		r.URL.Path, r.URL.RawQuery = path, query
		w := httptest.NewRecorder()
		s.handler().ServeHTTP(w, r)
		if w.Code == http.StatusInternalServerError || w.Body.Len() > 64<<10+8*len(body) {
			t.Fatalf("%s %s %q: %d, %d bytes: %.300s", method, path, body, w.Code, w.Body.Len(), w.Body)
		}
	})
}
