package integrations_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// receiver is what a webhook calls. It keeps the keys of the calls that it has accepted.
type receiver struct {
	t *testing.T
	// trouble says what happens to a call, in place of an answer; nil means nothing.
	trouble func() func(http.ResponseWriter)

	mu       sync.Mutex
	accepted map[change]types.Phase
	// new receives each new key.
	new chan change
}

// ServeHTTP accepts a call.
func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	var job struct {
		ID       string
		Phase    types.Phase
		Revision int64
	}
	if err := json.NewDecoder(req.Body).Decode(&job); err != nil {
		r.t.Error(err)
	}
	end := change{job.Revision, job.ID}
	if got, want := req.Header.Get("Idempotency-Key"), fmt.Sprintf("%d/%s", end.revision, end.task); got != want {
		r.t.Errorf("the key is %q, want %q", got, want)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	happens := r.trouble()
	if _, known := r.accepted[end]; !known && happens == nil {
		r.accepted[end] = job.Phase
		r.new <- end
	}
	if happens != nil {
		happens(w)
	}
}

// jobs submits jobs of two tasks each, and returns their ids.
func (w *world) jobs(n int) (ids []string) {
	w.t.Helper()
	for range n {
		var tasks []controlplane.Submission
		for i := range 2 {
			tasks = append(tasks, task(w.random.IntN(20), i*w.random.IntN(2)))
		}
		job, err := w.client.Submit(w.ctx, controlplane.Job{Name: "job", Tasks: tasks})
		if err != nil {
			w.t.Fatal(err)
		}
		ids = append(ids, job.Job)
	}
	return ids
}

// endedJobs returns the ends of jobs, once all have ended: each is the last change of its tasks.
func (w *world) endedJobs(ids []string) map[change]types.Phase {
	w.t.Helper()
	out := make(map[change]types.Phase)
	_, err := w.cluster.Await(w.ctx, func(v *cluster.View) bool {
		clear(out)
		for _, id := range ids {
			end, phase := change{task: id}, types.Succeeded
			for _, t := range v.Members(cluster.ID{Namespace: namespace, ID: id}) {
				if !t.Phase().Ended() {
					return false
				}
				end.revision = max(end.revision, t.Status.Mod)
				if t.Phase() == types.Failed {
					phase = types.Failed
				}
			}
			out[end] = phase
		}
		return true
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// TestWebhook kills the program while it calls, before or after a call is accepted, and while jobs end.
func TestWebhook(t *testing.T) {
	w := newWorld(t, nil)
	r := &receiver{t: t, accepted: make(map[change]types.Phase), new: make(chan change, 1000)}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	file := filepath.Join(w.dir, "position")
	start := func() *process { return w.start("", "webhook/webhook.py", w.socket, namespace, server.URL, file) }

	var submitted []string
	for round := range rounds {
		if round%2 == 1 { // these end while it is away
			submitted = append(submitted, w.jobs(3)...)
			w.endedJobs(submitted)
		}
		p := (*process)(nil)
		begun, left := make(chan struct{}), w.random.IntN(3)
		r.mu.Lock()
		r.trouble = func() func(http.ResponseWriter) {
			<-begun
			if left--; left >= 0 {
				return nil
			}
			defer p.kill()
			switch w.random.IntN(3) {
			case 0: // it is killed before its call is accepted
				return func(http.ResponseWriter) {}
			case 1: // it is killed while it waits to call again
				return func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }
			}
			return nil // it is killed before it knows that its call is accepted
		}
		r.mu.Unlock()
		p = start()
		close(begun)
		if round%2 == 0 {
			submitted = append(submitted, w.jobs(3)...)
		}
		p.rest() // until it is killed
	}
	refused := 0
	r.mu.Lock()
	r.trouble = func() func(http.ResponseWriter) {
		if refused++; refused > 2 {
			return nil
		}
		return func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) }
	}
	r.mu.Unlock()
	want := w.endedJobs(append(submitted, w.jobs(1)...))
	p := start()
	for range want {
		next(w, r.new)
	}
	p.kill()
	p.rest()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !maps.Equal(r.accepted, want) {
		t.Errorf("the receiver has\n%v\nthe store has\n%v", r.accepted, want)
	}
}

// TestReceiver calls a receiver twice with one key, and again after a kill: it prints the first call alone.
func TestReceiver(t *testing.T) {
	w := newWorld(t, nil)
	database := filepath.Join(w.dir, "ends")
	for round, want := range [][]string{{"1/a one\n", "2/b three\n"}, {"3/c last\n"}} {
		p := w.start("", "webhook/receiver.py", "0", database)
		url, _ := next(w, p.lines)
		for _, call := range [][2]string{{"1/a", "one"}, {"1/a", "two"}, {"2/b", "three"}, {"3/c", "last"}}[:3+round] {
			req, err := http.NewRequestWithContext(w.ctx, http.MethodPost, strings.TrimSpace(url), strings.NewReader(call[1]))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Idempotency-Key", call[0])
			answer, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if answer.Body.Close(); answer.StatusCode != http.StatusNoContent {
				t.Errorf("%v: %s", call, answer.Status)
			}
		}
		p.kill()
		if got := p.rest(); !slices.Equal(got, want) {
			t.Errorf("it prints %q, want %q", got, want)
		}
	}
}
