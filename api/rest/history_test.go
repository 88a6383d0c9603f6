package rest_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/controlplane"
)

// recorded waits until the history has everything that has ended.
func (w *world) recorded() {
	w.t.Helper()
	page, err := w.cluster.Store.List(w.t.Context(), controlplane.ListOptions{Key: controlplane.ClusterKey(), KeysOnly: true})
	if err != nil {
		w.t.Fatal(err)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for until := time.Now().Add(time.Minute); w.cluster.History.Recorded() < page.Revision; <-tick.C {
		if time.Now().After(until) {
			w.t.Fatalf("recorded up to %d of %d", w.cluster.History.Recorded(), page.Revision)
		}
	}
}

// TestHistory: ended tasks are listed after they are removed, page by page, and usage is summed up.
func TestHistory(t *testing.T) {
	w := newWorld(t)
	for id, user := range map[string]string{"a": "alice", "b": "bob", "c": "alice"} {
		w.want("POST", in+"/tasks", fmt.Sprintf(`{"tasks": [{"id": %q, "labels": {"user": %q, "team": "x"}, "requests": {"cpu": "2"}, "spec": {"image": "x:1", "command": ["run", "10ms"]}}]}`, id, user))
		w.want("GET", in+"/wait?timeout=1m&id="+id, "")
	}
	w.want("DELETE", in+"/tasks/a", "")
	w.recorded()
	page := w.want("GET", "/v1/history?limit=2&since=1h&phase=succeeded,failed", "")
	second := w.want("GET", "/v1/history?limit=2&after="+fmt.Sprint(page["next"]), "")
	got := slices.Sorted(slices.Values(append(items(page, "id"), items(second, "id")...)))
	if !slices.Equal(got, []string{"a", "b", "c"}) || second["next"] != nil {
		t.Errorf("the history has %s, and then %v", got, second["next"])
	}
	if page["complete"] == nil {
		t.Error("it does not say that it lacks what ended before it began")
	}
	if got := items(w.want("GET", "/v1/history?namespace=team&user=bob&selector=team%3Dx", ""), "id"); !slices.Equal(got, []string{"b"}) {
		t.Errorf("bob's are %s", got)
	}
	usage := w.want("GET", "/v1/usage?by=user,label%3Dteam&since=1h", "")
	if got := items(usage, "by"); len(got) != 2 || !slices.Contains(got, "map[label=team:x user:alice]") {
		t.Errorf("usage: %v", usage)
	}
	if got := w.want("GET", "/v1/usage?by=user&limit=1", ""); len(items(got, "by")) != 1 || fmt.Sprint(got["left"]) != "1" {
		t.Errorf("one of two: %v", got)
	}
	for query, field := range map[string]string{"/v1/history?since=soon": "since", "/v1/usage?by=job": "by", "/v1/history?selector=%21%21": "selector", "/v1/history?after=x": "after"} {
		if status, p := w.ask("GET", query, ""); status != http.StatusBadRequest || p["field"] != field {
			t.Errorf("%s: %d %v", query, status, p)
		}
	}
	w.server.Config.Handler = rest.Handler(rest.Config{Store: w.cluster.Store, Now: time.Now})
	if status, p := w.ask("GET", "/v1/history", ""); status != http.StatusServiceUnavailable || !strings.Contains(fmt.Sprint(p["detail"]), "keeps none") {
		t.Errorf("without a history: %d %v", status, p)
	}
}
