package keep_test

import (
	"context"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/keep"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/measured"
)

// questions are nodes that tell what they use, and count how often they are asked.
type questions struct {
	mu    sync.Mutex
	asked map[string]int
	// since counts the questions for a history; hang are nodes that do not answer; milli is the usage.
	since int
	hang  map[string]bool
	milli float64
	// stuck is when a node last measured; zero means now.
	stuck time.Time
}

func (q *questions) answer(ctx context.Context, node string, since time.Time) (measured.Answer, error) {
	q.mu.Lock()
	q.asked[node]++
	if !since.IsZero() {
		q.since++
	}
	hangs, at, milli := q.hang[node], q.stuck, q.milli
	q.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return measured.Answer{}, types.Errorf(types.Unavailable, "ask node %s: %w", node, ctx.Err())
	}
	if at.IsZero() {
		at = time.Now()
	}
	use := measured.Use{At: at, CPUMilli: &milli}
	return measured.Answer{Tasks: []measured.Task{{Namespace: "d", Task: "t", Attempt: 1, Use: use}}}, nil
}

// count returns how often each node was asked since the last call.
func (q *questions) count() map[string]int {
	synctest.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	defer func() { q.asked = make(map[string]int) }()
	return q.asked
}

func (q *questions) set(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	f()
}

// measuring runs f with a job whose policy wants the nodes of wants to be measured; seen has the usage
// of its last call.
func measuring(t *testing.T, wants map[string]time.Duration, f func(w *esltest.World, q *questions, seen func() map[string]types.Quantity)) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var last map[string]types.Quantity
		w := esltest.NewWorld(t, esltest.NewRecord(func(_ string, s *esl.State) esl.Plan {
			mu.Lock()
			defer mu.Unlock()
			last = make(map[string]types.Quantity)
			for node := range wants {
				if u := s.Usage(node); u != nil {
					last[node] = u.Attempts[esl.Attempt{Task: esltest.IDOf("t"), Number: 1}].CPU
				}
			}
			return esl.Plan{RequeueAfter: s.Now.Add(time.Second)}
		}))
		w.Asked.Wants(wants)
		q := &questions{asked: make(map[string]int), hang: make(map[string]bool), milli: 100}
		w.Keep(w.Store, func(o *keep.Options) { o.Measure = q.answer })
		f(w, q, func() map[string]types.Quantity {
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			return maps.Clone(last)
		})
	})
}

// TestMeasured asks the nodes that a policy names, as often as it says, while it runs; the first time
// for their history, too.
func TestMeasured(t *testing.T) {
	wants := map[string]time.Duration{"n1": 2 * time.Second, "n2": 10 * time.Second, "n3": time.Millisecond}
	measuring(t, wants, func(w *esltest.World, q *questions, seen func() map[string]types.Quantity) {
		w.Submit("a", 1, &esltest.Counter{Name: "a"})
		esltest.Pass(time.Minute)
		if n := q.count(); len(n) > 0 {
			t.Errorf("no policy wants it, and %v were asked", n)
		}
		job := w.Submit("m", 1, &esltest.Measuring{Counter: esltest.Counter{Name: "m"}})
		esltest.Pass(time.Minute)
		if n := q.count(); n["n1"] < 29 || n["n1"] > 32 || n["n2"] < 6 || n["n2"] > 8 || n["n3"] < 58 || n["n3"] > 62 || q.since != 3 {
			t.Errorf("in a minute %v were asked, %d for their history", n, q.since)
		}
		if got := seen(); len(got) != 3 || got["n1"] != 100 {
			t.Errorf("it sees %v", got)
		}
		q.set(func() { q.milli = 700 })
		esltest.Pass(1100 * time.Millisecond)
		if got := seen(); got["n3"] != 700 {
			t.Errorf("soon after, it sees %v", got)
		}
		w.Put("/escher/policies/d/"+job.Job, &types.Policies{Job: job.Job})
		esltest.Pass(10 * time.Second)
		q.count()
		esltest.Pass(time.Minute)
		if n := q.count(); len(n) > 0 {
			t.Errorf("the policy is gone, and %v were asked", n)
		}
	})
}

// TestSilent: nodes that do not answer are asked less and less often, delay no other one, and are unknown
// after a minute; so is a node that answers and measures nothing new.
func TestSilent(t *testing.T) {
	wants := map[string]time.Duration{"good": 2 * time.Second}
	silent := make(map[string]bool)
	for i := range 3000 {
		name := "bad" + string(rune('a'+i%26)) + time.Duration(i).String()
		wants[name], silent[name] = 2*time.Second, true
	}
	measuring(t, wants, func(w *esltest.World, q *questions, seen func() map[string]types.Quantity) {
		q.set(func() { q.hang = silent })
		w.Submit("m", 1, &esltest.Measuring{Counter: esltest.Counter{Name: "m"}})
		esltest.Pass(2 * time.Minute)
		n := q.count()
		if n["good"] < 30 {
			t.Errorf("the good one was asked %d times in two minutes", n["good"])
		}
		all := 0
		for name, times := range n {
			if silent[name] {
				all += times
			}
		}
		if each := float64(all) / 3000; each < 3 || each > 8 {
			t.Errorf("a silent one was asked %.1f times in two minutes", each)
		}
		if got := seen(); len(got) != 1 {
			t.Errorf("%d nodes are known", len(got))
		}
		q.set(func() { q.stuck = time.Now().Add(-time.Hour) })
		esltest.Pass(50 * time.Second)
		if got := seen(); len(got) != 1 {
			t.Error("it is forgotten at once")
		}
		esltest.Pass(15 * time.Second)
		if got := seen(); len(got) != 0 {
			t.Error("what has measured nothing for a minute is known")
		}
	})
}

// TestRate: however many nodes policies want, at most 1,000 a second are asked.
func TestRate(t *testing.T) {
	wants := make(map[string]time.Duration)
	for i := range 5000 {
		wants[time.Duration(i).String()] = time.Second
	}
	measuring(t, wants, func(w *esltest.World, q *questions, _ func() map[string]types.Quantity) {
		w.Submit("m", 1, &esltest.Measuring{Counter: esltest.Counter{Name: "m"}})
		esltest.Pass(time.Second)
		q.count()
		esltest.Pass(10 * time.Second)
		all, most := 0, 0
		for _, n := range q.count() {
			all, most = all+n, max(most, n)
		}
		if all < 9000 || all > 10_010 || most > 3 {
			t.Errorf("%d questions in ten seconds, up to %d to a node", all, most)
		}
	})
}

// TestPeak rises at once, is held for a minute, and falls by half each 30 s; bursts renew it.
func TestPeak(t *testing.T) {
	at := time.Unix(1000, 0)
	p := esl.Peak{Amount: esl.Unknown}.With(100, at).With(800, at.Add(time.Second)).With(100, at.Add(2*time.Second))
	for after, want := range map[time.Duration]types.Quantity{time.Second: 800, time.Minute: 800, 91 * time.Second: 400, 121 * time.Second: 200} {
		if got := p.Counts(at.Add(after)); got != want {
			t.Errorf("after %s it counts %d, want %d", after, got, want)
		}
	}
	if got := p.With(750, at.Add(time.Minute)).Counts(at.Add(2 * time.Minute)); got != 800 {
		t.Errorf("a burst of nearly that amount leaves %d", got)
	}
	if got := p.With(esl.Unknown, at.Add(time.Hour)).With(50, at.Add(time.Hour)).Amount; got != 50 {
		t.Errorf("an hour later it is %d", got)
	}
}
