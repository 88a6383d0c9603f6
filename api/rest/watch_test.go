package rest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/escher-sched/escher/e2e/hollow"
)

// event is a server-sent event.
type event struct{ id, kind, data string }

// follow sends the events of a watch until ctx is done, or the connection is lost.
func (w *world) follow(ctx context.Context, query, last string) <-chan event {
	w.t.Helper()
	return w.eventsOf(ctx, "GET", in+"/watch"+query, last, "")
}

// events sends the events of an answer until the test ends, or the connection is lost.
func (w *world) events(method, path, last, body string) <-chan event {
	w.t.Helper()
	return w.eventsOf(w.t.Context(), method, path, last, body)
}

// eventsOf sends the events of an answer until ctx is done, or the connection is lost.
func (w *world) eventsOf(ctx context.Context, method, path, last, body string) <-chan event {
	w.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	if got := res.Header.Get("Content-Type"); got != "text/event-stream" {
		text, _ := io.ReadAll(res.Body)
		w.t.Fatalf("%s %s: %d %s %s", method, path, res.StatusCode, got, text)
	}
	out := make(chan event, 1000)
	go func() {
		defer close(out)
		defer res.Body.Close()
		var e event
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), ": ")
			switch name {
			case "id":
				e.id = value
			case "event":
				e.kind = value
			case "data":
				e.data = value
			case "":
				if e.kind != "" {
					out <- e
				}
				e = event{}
			}
		}
	}()
	return out
}

// until returns the events up to the first that holds, and the last id among them.
func until(t *testing.T, from <-chan event, last string, holds func(event) bool) (all []event, id string) {
	t.Helper()
	id = last
	for e := range from {
		if all = append(all, e); e.id != "" {
			id = e.id
		}
		if holds(e) {
			return all, id
		}
	}
	t.Fatalf("the watch ended after %v", all)
	return nil, ""
}

// TestWatch follows tasks across two restarts of the API: each end arrives once.
func TestWatch(t *testing.T) {
	w := newWorld(t)
	client, err := w.cluster.Client("team")
	if err != nil {
		t.Fatal(err)
	}
	events := w.follow(t.Context(), "", "")
	_, last := until(t, events, "", func(e event) bool { return e.kind == "synced" })
	ends := make(map[string]int)
	for round := range 3 {
		for i := range 4 {
			x := hollow.Task(100, "run", "1ms")
			x.ID = fmt.Sprintf("r%d-%d", round, i)
			if _, err := client.Launch(t.Context(), x); err != nil {
				t.Fatal(err)
			}
		}
		if round > 0 { // these were launched while nobody watched
			events = w.follow(t.Context(), "", last)
		}
		ended := 0
		_, last = until(t, events, last, func(e event) bool {
			if e.kind == "task" && strings.Contains(e.data, `"phase":"succeeded"`) {
				ends[e.data[:strings.Index(e.data, ",")]]++
				ended++
			}
			return ended == 4 && e.id != ""
		})
		w.serve()
	}
	if len(ends) != 12 {
		t.Errorf("%d tasks ended: %v", len(ends), ends)
	}
	for id, n := range ends {
		if n != 1 {
			t.Errorf("%s ended %d times", id, n)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	resources := w.follow(ctx, "?of=resources", "")
	until(t, resources, "", func(e event) bool { return e.kind == "synced" })
	w.want("POST", in+"/resources", `{"name": "slots", "capacity": "2", "where": {"cluster": true}}`)
	got, _ := until(t, resources, "", func(e event) bool { return e.kind == "resource" })
	e := got[len(got)-1]
	if !strings.Contains(e.data, `"slots"`) {
		t.Errorf("%+v", e)
	}
	w.want("POST", in+"/resources", `{"name": "seats", "capacity": "1", "where": {"cluster": true}}`)
	got, _ = until(t, w.follow(ctx, "?of=resources&after="+e.id, ""), "", func(e event) bool { return e.kind == "synced" })
	if all := fmt.Sprint(got); len(got) != 3 || !strings.Contains(all, `"seats"`) || !strings.Contains(all, `"slots"`) {
		t.Errorf("resumed after %s: %+v", e.id, got)
	}
}
