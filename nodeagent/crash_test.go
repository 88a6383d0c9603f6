package nodeagent_test

import (
	"encoding/json"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// replaceRevision sets a future revision in a state file.
func replaceRevision(text []byte) []byte {
	var s map[string]any
	if err := json.Unmarshal(text, &s); err != nil {
		panic(err)
	}
	s["revision"] = 1_000_000
	out, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return out
}

// steps counts the steps of an agent, and crashes it at one of them.
type steps struct {
	mu    sync.Mutex
	n, at int
	crash func()
	// crashed reports whether it did.
	crashed bool
}

// next reports whether this step is the last.
func (s *steps) next() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	if s.n != s.at {
		return false
	}
	s.crashed = true
	s.crash()
	return true
}

// disarm prevents further crashes. It reports whether this matters, because the agent crashed.
func (s *steps) disarm() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == 0 || !s.crashed {
		return false
	}
	s.at = 0
	return true
}

// end prevents further crashes, and returns the number of steps and whether the agent crashed.
func (s *steps) end() (n int, crashed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = 0
	return s.n, s.crashed
}

// TestCrashAnywhere runs one life of four tasks, one of which restarts twice. It crashes the agent
// before and after each call of the runtime and each commit: nothing runs twice, nothing is lost,
// and nothing is left.
func TestCrashAnywhere(t *testing.T) {
	total := 1
	for at := 1; at <= total+1; at++ {
		crashes := false
		synctest.Test(t, func(t *testing.T) {
			n, crashed := crashAt(t, at)
			crashes = crashed
			if !crashed {
				total = n
			} else {
				total = at
			}
		})
		if t.Failed() {
			t.Fatalf("crashed at step %d", at)
		}
		if !crashes {
			break
		}
	}
	if total < 30 {
		t.Errorf("only %d steps", total)
	}
}

// crashAt runs the life with a crash at one step, and returns the number of steps.
func crashAt(t *testing.T, at int) (n int, crashed bool) {
	s := &steps{at: at}
	rt := simruntime.Config{Script: func(c nodeagent.Container) (simruntime.Behaviour, error) {
		if c.Attempt.Task == "r" {
			return simruntime.Behaviour{Run: time.Second, Code: 2 - c.Restart}, nil // The second restart succeeds.
		}
		return simruntime.Behaviour{Run: 5 * time.Second, Code: 3, StopAfter: time.Second, StopCode: 0}, nil
	}}
	rt.Fault = func(simruntime.Op, string) simruntime.Fault {
		switch {
		case s.next():
			return simruntime.Refused
		case s.next():
			return simruntime.Unanswered
		}
		return simruntime.NoFault
	}
	b := newBench(t, rt)
	s.crash = func() { b.cancel() }
	b.store.step = func(bool) bool { return s.next() }
	b.start()
	restart := func() {
		if s.disarm() {
			<-b.done
			b.start()
		}
	}
	b.pass(3 * time.Second)
	restart()
	b.pass(3 * time.Second)
	for _, task := range []string{"a", "b", "k"} {
		b.bind(task)
	}
	b.bind("r", b.runs(func(s *types.Spec) { s.Restart = &types.Restart{When: types.RestartOnFailure} }))
	b.pass(3 * time.Second)
	restart()
	b.stop("b", types.Stop{Reason: "enough", Grace: 5 * time.Second})
	for range 12 {
		b.pass(time.Second)
		restart()
		for _, task := range []string{"a", "b", "k", "r"} {
			if r := b.report(task); r.Phase == types.ReportExited {
				check(t, task, r)
				b.release(task)
			}
		}
	}
	b.pass(3 * time.Second)
	b.crash()
	n, crashed = s.end()
	b.once()
	b.honest()
	if runs := len(b.runtime.Runs()); runs != 3+3 {
		t.Errorf("%d processes ran: 3 tasks, and one with two restarts", runs)
	}
	for _, task := range []string{"a", "b", "k", "r"} {
		if b.report(task).Phase != "" {
			t.Errorf("%s is still reported", task)
		}
	}
	if left := b.left(); left != 0 {
		t.Errorf("%d containers are left", left)
	}
	return n, crashed
}

// check checks how a task of the life ended.
func check(t *testing.T, task string, r types.Report) {
	t.Helper()
	switch {
	case r.Fenced || r.Reason != "":
		t.Errorf("%s: %+v", task, r)
	case task == "b" && (!r.Stopped || r.ExitCode != 0):
		t.Errorf("stopped: %+v", r)
	case task == "r":
		if r.ExitCode != 0 || r.Restarts != 2 || r.Stopped {
			t.Errorf("restarted: %+v", r)
		}
	case task != "b" && (r.Stopped || r.ExitCode != 3):
		t.Errorf("%s, which ended by itself: %+v", task, r)
	}
}
