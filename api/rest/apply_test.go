package rest_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// TestAppliesTogether applies one new file several times at once: each succeeds, and one launches it.
func TestAppliesTogether(t *testing.T) {
	w := newWorld(t)
	for round := range 5 {
		doc := fmt.Sprintf("apiVersion: escher.dev/v1\nkind: Task\nname: r%d\nimage: x:1\ncommand: [stop, 1ms]\n", round)
		var group sync.WaitGroup
		actions := make([]string, 4)
		for i := range actions {
			group.Go(func() {
				status, d := w.ask(http.MethodPost, in+"/apply", doc)
				actions[i] = fmt.Sprint(status, d["detail"])
				if changes, ok := d["changes"].([]any); ok && len(changes) == 1 {
					actions[i] = changes[0].(map[string]any)["action"].(string)
				}
			})
		}
		group.Wait()
		if slices.Sort(actions); !slices.Equal(actions, []string{"launch", "unchanged", "unchanged", "unchanged"}) {
			t.Errorf("round %d: %q", round, actions)
		}
	}
}

// TestUpdates follows an update of a job, which replaces one task after the other.
func TestUpdates(t *testing.T) {
	w := newWorld(t)
	job := "apiVersion: escher.dev/v1\nkind: Job\nname: web\ncount: 2\nupdate: {atOnce: 1, healthy: 10ms}\ntemplate: {image: \"x:%d\", command: [stop, 1ms]}\n"
	w.want(http.MethodPost, in+"/apply", fmt.Sprintf(job, 1))
	w.want(http.MethodGet, in+"/wait?until=running&id="+strings.Join(items(w.want(http.MethodGet, in+"/tasks", ""), "id"), "&id="), "")
	all, _ := until(t, w.events(http.MethodPost, in+"/apply?replace=true", "", fmt.Sprintf(job, 2)), "", func(e event) bool { return e.kind == "result" || e.kind == "error" })
	var kinds []string
	for _, e := range all {
		kinds = append(kinds, e.kind)
	}
	if !slices.Equal(kinds, []string{"progress", "progress", "result"}) || !strings.Contains(all[1].data, `"done":2,"of":2`) || !strings.Contains(all[2].data, `"action":"update"`) {
		t.Errorf("the update: %+v", all)
	}
	// A refused one is answered with a status.
	status, p := w.ask(http.MethodPost, in+"/apply", fmt.Sprintf(job, 3))
	if status != http.StatusPreconditionFailed {
		t.Errorf("without replace: %d %v", status, p)
	}
}
