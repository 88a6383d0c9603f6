package requests_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// errEnough ends a watch.
var errEnough = errors.New("enough")

// watching is a watch in the background.
type watching struct {
	t      *testing.T
	events chan requests.Event
	ended  chan error
	cancel context.CancelFunc
}

func (b *bench) watch(w requests.Watch) *watching {
	ctx, cancel := context.WithCancel(b.t.Context())
	x := &watching{t: b.t, events: make(chan requests.Event), ended: make(chan error, 1), cancel: cancel}
	b.t.Cleanup(cancel)
	go func() {
		x.ended <- b.client.Watch(ctx, w, func(e requests.Event) error {
			select {
			case x.events <- e:
				return nil
			case <-ctx.Done():
				return errEnough
			}
		})
	}()
	return x
}

// next fails unless the next event has that kind and contains the texts.
func (x *watching) next(kind string, says ...string) requests.Event {
	x.t.Helper()
	select {
	case e := <-x.events:
		if e.Kind != kind {
			x.t.Fatalf("%s %s, want %s", e.Kind, e.Data, kind)
		}
		for _, s := range says {
			if !strings.Contains(string(e.Data), s) {
				x.t.Errorf("%s %s does not say %s", e.Kind, e.Data, s)
			}
		}
		return e
	case err := <-x.ended:
		x.t.Fatalf("the watch has ended: %v", err)
	}
	return requests.Event{}
}

func (b *bench) status(id string, phase types.Phase) {
	b.t.Helper()
	b.put(controlplane.StatusKey("d", id), &types.Status{Phase: phase, Attempt: 1, Node: "n1"})
}

func TestWatchTasks(t *testing.T) {
	b := newBench(t)
	b.status("a", types.Running)
	b.status("b", types.Running)
	x := b.watch(requests.Watch{})
	x.next("task", `"a"`, "running")
	x.next("task", `"b"`, "running")
	synced := x.next("synced")
	if synced.ID == 0 {
		t.Error("nothing to resume after")
	}
	b.status("a", types.Succeeded)
	last := x.next("task", `"a"`, "succeeded")
	changed := fmt.Sprintf(`"revision":%d,`, last.ID)
	if !strings.Contains(string(last.Data), changed) {
		t.Errorf("%s lacks %s", last.Data, changed)
	}
	if last.ID <= synced.ID {
		t.Errorf("id %d after %d", last.ID, synced.ID)
	}
	x.cancel()

	// A resumed watch gets the changes since, and nothing else.
	b.status("b", types.Failed)
	x = b.watch(requests.Watch{After: last.ID})
	x.next("task", `"b"`, "failed")
	x.next("synced")
	x.cancel()

	// A change that is sent again has the revision that it had.
	x = b.watch(requests.Watch{After: synced.ID})
	x.next("task", `"a"`, changed, "succeeded")
	x.next("task", `"b"`, "failed")
}

func TestWatchSome(t *testing.T) {
	b := newBench(t)
	b.status("a", types.Running)
	b.status("b", types.Running)
	x := b.watch(requests.Watch{IDs: []string{"b"}})
	x.next("task", `"b"`)
	x.next("synced")
}

// TestWatchMany watches more tasks than the head of one request can name.
func TestWatchMany(t *testing.T) {
	b := newBench(t)
	b.status("a", types.Running)
	b.status("b", types.Running)
	ids := []string{"b"}
	for i := range 1000 {
		ids = append(ids, fmt.Sprintf("a-name-of-some-length-%030d", i))
	}
	x := b.watch(requests.Watch{IDs: ids})
	x.next("task", `"b"`)
	x.next("synced")
	b.status("a", types.Succeeded)
	b.status(ids[1000], types.Running)
	x.next("task", ids[1000])
}

func TestWatchResources(t *testing.T) {
	b, ctx := newBench(t), t.Context()
	set := func(capacity string) {
		t.Helper()
		if _, err := b.client.Set(ctx, requests.Set{Name: "x", Capacity: capacity}); err != nil {
			t.Fatal(err)
		}
	}
	set("0.5")
	b.put(controlplane.ResourceKey("other", "y", "n1"), &types.Resource{Capacity: 1})
	x := b.watch(requests.Watch{Of: "resources"})
	e := x.next("resource")
	want := requests.ResourceChange{Name: "x", Where: "n1", Capacity: "0.5"}
	if got := (requests.ResourceChange{}); json.Unmarshal(e.Data, &got) != nil || got != want {
		t.Errorf("%s, want %+v", e.Data, want)
	}
	x.next("synced")
	set("0")
	x.next("resource", `"x"`, `"removed":true`)
}

// TestWatchByHeader resumes like a browser.
func TestWatchByHeader(t *testing.T) {
	b := newBench(t)
	b.status("a", types.Running)
	c := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", b.path)
	}}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://x/v1/namespaces/d/watch", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Last-Event-ID", "1000000")
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		t.Error(got)
	}
	var text strings.Builder
	buf := make([]byte, 512)
	for !strings.Contains(text.String(), "synced") {
		n, err := res.Body.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(buf[:n])
	}
	if strings.Contains(text.String(), "event: task") {
		t.Error("what was seen before is told again:", text.String())
	}
}

// TestTooManyWatches tests that other requests still fit.
func TestTooManyWatches(t *testing.T) {
	b := newBench(t)
	for range 16 {
		b.watch(requests.Watch{}).next("synced")
	}
	err := b.client.Watch(t.Context(), requests.Watch{}, func(requests.Event) error { return errEnough })
	if !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "16") {
		t.Error(err)
	}
	if _, err := b.client.Self(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestTooOften refuses too frequent requests, also with the HTTP status for that.
func TestTooOften(t *testing.T) {
	b := newBench(t)
	for range 10_000 {
		_, err := b.client.Self(t.Context())
		if err == nil {
			continue
		}
		if !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "100 a second") {
			t.Fatal(err)
		}
		return
	}
	t.Error("10,000 at once are served")
}

// TestBudgetOfTheSocket lowers a namespace's budgets of requests and watches.
func TestBudgetOfTheSocket(t *testing.T) {
	var most atomic.Int64
	most.Store(2)
	b := newBenchOf(t, func(context.Context) types.Budget { return types.Budget{Requests: most.Load(), Watches: 1} })
	served := func() (n int, err error) {
		for range 50 {
			if _, err = b.client.Self(t.Context()); err != nil {
				return n, err
			}
			n++
		}
		return n, nil
	}
	if n, err := served(); n > 10 || !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "change max-requests of namespace d") {
		t.Errorf("%d were served, then %v", n, err)
	}
	most.Store(1000)
	if n, err := served(); n != 50 {
		t.Errorf("%d were served after more were allowed, then %v", n, err)
	}
	err := b.client.Watch(t.Context(), requests.Watch{}, func(requests.Event) error {
		second := b.client.Watch(t.Context(), requests.Watch{}, func(requests.Event) error { return errEnough })
		if !types.Is(second, types.Unavailable) || !strings.Contains(second.Error(), "change max-watches of namespace d") {
			t.Errorf("a second watch: %v", second)
		}
		return errEnough
	})
	if !errors.Is(err, errEnough) {
		t.Error(err)
	}
}
