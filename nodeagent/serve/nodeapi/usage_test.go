package nodeapi_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/measured"
)

// used is the usage: task x/t has 5 bytes, since long ago.
type used struct{ since time.Time }

func (u *used) Tasks(_ context.Context, since time.Time) []measured.Task {
	u.since = since
	one := measured.Task{Namespace: "x", Task: "t", Attempt: 1, Use: measured.Use{MemoryBytes: new(int64(5)), CPUSeconds: new(0.0)}}
	if !since.IsZero() {
		one.History = []measured.Use{{MemoryBytes: new(int64(4))}}
	}
	return []measured.Task{one}
}

func (u *used) Node(_ context.Context, since time.Time) measured.Node {
	u.since = since
	return measured.Node{Node: "n", Processors: 2, Use: measured.Use{CPUMilli: new(1500.0)}, Tasks: measured.Sum{Running: 1}}
}

func TestUsage(t *testing.T) {
	w := newWorld(t)
	all, err := w.Usage(t.Context(), time.Time{})
	if err != nil || len(all) != 1 || all[0].History != nil || !w.used.since.IsZero() {
		t.Errorf("%+v, %v; want one task without its history", all, err)
	}
	since := time.Now().Add(-time.Minute)
	one, err := w.UsageOf(t.Context(), "x", "t", 1, since)
	if err != nil || len(one.History) != 1 || !w.used.since.Equal(since) {
		t.Errorf("%+v, %v; want its history since %s, and not %s", one, err, since, w.used.since)
	}
	if _, err := w.UsageOf(t.Context(), "x", "t", 2, since); !types.Is(err, types.NotFound) || !strings.HasSuffix(err.Error(), "to find it: say describe t") {
		t.Errorf("another attempt: %v", err)
	}
	n, err := w.NodeUsage(t.Context(), time.Time{})
	if err != nil || n.Node != "n" || *n.CPUMilli != 1500 || n.Tasks.Running != 1 {
		t.Errorf("%+v, %v", n, err)
	}
}

// TestUsageSince parses the start of the history as users write it.
func TestUsageSince(t *testing.T) {
	w := newWorld(t)
	get := func(query string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.url+"/v1/usage/node?since="+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	before := time.Now()
	if code, text := get("90s"); code != http.StatusOK || w.used.since.Before(before.Add(-90*time.Second)) || w.used.since.After(time.Now().Add(-90*time.Second)) {
		t.Errorf("90s: %d, since %s: %s", code, w.used.since, text)
	}
	if code, text := get("2026-01-31T12:00:00Z"); code != http.StatusOK || w.used.since.Year() != 2026 {
		t.Errorf("a time: %d, since %s: %s", code, w.used.since, text)
	}
	for _, wrong := range []string{"-2m", "0s", "yesterday", "5"} {
		if code, text := get(wrong); code != http.StatusBadRequest || !strings.Contains(text, `since: \"`+wrong+`\" is not a time: give how long ago`) {
			t.Errorf("%s: %d: %s", wrong, code, text)
		}
	}
}

// TestUsageAsItWas tests that the first version's fields have not changed.
func TestUsageAsItWas(t *testing.T) {
	text, err := json.Marshal((new(used)).Tasks(t.Context(), time.Time{}))
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"namespace": "x", "task": "t", "attempt": 1.0, "cpuSeconds": 0.0, "memoryBytes": 5.0, "at": "0001-01-01T00:00:00Z"}
	// Unknown values are missing; zero ones are not.
	if diff := cmp.Diff(want, got[0]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestUsageIsNotSampled(t *testing.T) {
	w := newWorld(t)
	srv := httptest.NewServer(nodeapi.Handler(nodeapi.Config{Agent: w.agent, Runtime: w.runtime}))
	t.Cleanup(srv.Close)
	w.url = srv.URL
	if _, err := w.client(t, token).Usage(t.Context(), time.Time{}); !types.Is(err, types.Precondition) {
		t.Errorf("%v, want that nothing is sampled", err)
	}
}
