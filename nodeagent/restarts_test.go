package nodeagent_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// again makes a failed process restart, three times at most.
func again(s *types.Spec) {
	s.Restart = &types.Restart{When: types.RestartOnFailure, Limit: 3, Delay: 2 * time.Second}
}

// steps returns the steps of the first attempt of a task.
func (b *bench) steps(task string) string {
	events, _ := b.agent.Events("d", task, 1, 0)
	var steps []string
	for i, e := range events {
		if e.Seq != i+1 || e.At.IsZero() {
			b.t.Errorf("event %d: %+v", i, e)
		}
		steps = append(steps, string(e.Step))
	}
	return strings.Join(steps, " ")
}

func TestRestarts(t *testing.T) {
	var made []nodeagent.Container
	rt := simruntime.Config{
		Script: func(c nodeagent.Container) (simruntime.Behaviour, error) {
			made = append(made, c)
			return simruntime.Behaviour{Run: time.Second, Code: 7}, nil
		},
		Resolve: func(string) string { return "img@sha256:1" },
	}
	bubble(t, rt, func(t *testing.T, b *bench) {
		began := time.Now()
		id := b.bind("a", b.runs(again))
		synctest.Wait()
		for i, want := range []struct {
			reason string
			wait   time.Duration
		}{
			{"exit code 7: restarts in 2s (1 of 3)", 2 * time.Second},
			{"exit code 7: restarts in 4s (2 of 3)", 4 * time.Second},
			{"exit code 7: restarts in 8s (3 of 3)", 8 * time.Second},
		} {
			b.alive(1)
			if r := b.expect("a", types.ReportRunning); r.Ended != 0 || r.Restarts != i || r.Image != "img@sha256:1" || r.Reason != "" {
				t.Fatalf("run %d: %+v", i, r)
			}
			b.pass(time.Second)
			b.alive(0)
			if r := b.expect("a", types.ReportRunning); r.Reason != want.reason || r.Restarts != i+1 || r.ExitCode != 7 || r.Started != began.UnixNano() {
				t.Fatalf("end %d: %+v", i, r)
			}
			b.pass(want.wait - time.Millisecond)
			b.alive(0)
			b.pass(time.Millisecond)
		}
		b.pass(time.Second)
		if r := b.expect("a", types.ReportExited); r.Reason != "after 3 restarts" || r.ExitCode != 7 || r.Restarts != 3 || r.Started != began.UnixNano() {
			t.Errorf("%+v", r)
		}
		for i, c := range made {
			if c.ID != id || c.Restart != i || c.LogPath != made[0].LogPath {
				t.Errorf("container %d: %+v", i, c)
			}
		}
		// A restart runs the same image, even if its name refers to another one now.
		if len(made) != 4 || made[0].Image != "img" || made[3].Image != "img@sha256:1" {
			t.Errorf("%d containers: %+v", len(made), made)
		}
		if want := "bound starting started exited" + strings.Repeat(" restarting starting started exited", 3); b.steps("a") != want {
			t.Errorf("%s\nwant %s", b.steps("a"), want)
		}
	})
}

// TestWritesOfALife tests how often an agent writes: once when the process runs, once after its
// end, twice for each restart.
func TestWritesOfALife(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*types.Spec)
		want int64
	}{
		"once":          {func(*types.Spec) {}, 2},
		"four in a row": {again, 2 + 3*2},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, does(simruntime.Behaviour{Run: 5 * time.Second, Code: 1}), func(t *testing.T, b *bench) {
				spec := b.runs(c.edit)
				before := b.store.Revision() + 1 // The binding is the test's.
				b.bind("a", spec)
				b.pass(time.Hour)
				b.expect("a", types.ReportExited)
				if wrote := b.store.Revision() - before; wrote != c.want {
					t.Errorf("%d writes, want %d", wrote, c.want)
				}
			})
		})
	}
}

// TestWhatIsNotRestarted tests ends that are not the process's own.
func TestWhatIsNotRestarted(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*types.Binding)
		do   func(*bench)
		want string
	}{
		"stopped":       {func(*types.Binding) {}, func(b *bench) { b.stop("a", types.Stop{Reason: "enough"}) }, ""},
		"ran too long":  {func(x *types.Binding) { x.MaxRun = 10 * time.Second }, func(*bench) {}, "ran longer than 10s"},
		"past deadline": {func(x *types.Binding) { x.Deadline = time.Now().Add(10 * time.Second).UnixNano() }, func(*bench) {}, "its deadline passed"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, does(simruntime.Behaviour{Forever: true, StopCode: 1}), func(t *testing.T, b *bench) {
				b.bind("a", b.runs(func(s *types.Spec) { s.Restart = &types.Restart{When: types.RestartAlways} }), c.edit)
				b.pass(9 * time.Second)
				b.expect("a", types.ReportRunning)
				c.do(b)
				b.pass(2 * time.Second)
				if r := b.expect("a", types.ReportExited); r.Reason != c.want || r.Stopped != (name == "stopped") || r.Restarts != 0 {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

// TestStopDuringBackOff stops an attempt that has no process at the time.
func TestStopDuringBackOff(t *testing.T) {
	bubble(t, does(simruntime.Behaviour{Run: time.Second, Code: 7}), func(t *testing.T, b *bench) {
		b.bind("a", b.runs(again))
		b.pass(2 * time.Second)
		b.crash()
		b.start() // A restarted agent knows as much.
		b.alive(0)
		b.stop("a", types.Stop{Reason: "enough"})
		synctest.Wait()
		if r := b.expect("a", types.ReportExited); !r.Stopped || r.ExitCode != 7 || r.Restarts != 1 {
			t.Errorf("%+v", r)
		}
	})
}

// TestMaxRunCountsRestarts tests that the limit of the running time includes restarts.
func TestMaxRunCountsRestarts(t *testing.T) {
	bubble(t, does(simruntime.Behaviour{Run: 4 * time.Second, Code: 7}), func(t *testing.T, b *bench) {
		b.bind("a", b.runs(again), func(x *types.Binding) { x.MaxRun = 8 * time.Second })
		b.pass(7 * time.Second)
		b.alive(1)
		b.pass(time.Second)
		if r := b.expect("a", types.ReportExited); r.Reason != "ran longer than 8s" || r.Restarts != 1 {
			t.Errorf("%+v", r)
		}
	})
}

func TestDeadlineBeforeTheStart(t *testing.T) {
	bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
		b.runtime.SetDown(true)
		b.bind("a", func(x *types.Binding) { x.Deadline = time.Now().Add(20 * time.Second).UnixNano() })
		b.pass(19 * time.Second)
		b.expect("a", types.ReportStarting)
		b.runtime.SetDown(false)
		b.bind("late", func(x *types.Binding) { x.Deadline = time.Now().UnixNano() })
		synctest.Wait()
		if r := b.expect("late", types.ReportExited); r.Reason != "its deadline passed before it started" || r.Stopped {
			t.Errorf("%+v", r)
		}
		if want := "bound failed"; b.steps("late") != want {
			t.Errorf("%s, want %s", b.steps("late"), want)
		}
	})
}

func TestStopSignal(t *testing.T) {
	bubble(t, does(simruntime.Behaviour{Forever: true, Deaf: true}), func(t *testing.T, b *bench) {
		id := b.bind("a", b.runs(func(s *types.Spec) { s.StopSignal = "SIGUSR1" }))
		synctest.Wait()
		b.stop("a", types.Stop{Reason: "enough", Grace: 3 * time.Second})
		b.pass(3 * time.Second)
		if got := b.runtime.Signals(id); !slices.Equal(got, []syscall.Signal{syscall.SIGUSR1, syscall.SIGKILL}) {
			t.Error(got)
		}
		// The answer to the signal, and the end of the process, come in any order.
		if got := b.steps("a"); got != "bound starting started signalled killed exited" && got != "bound starting started signalled exited killed" {
			t.Error(got)
		}
	})
}

// TestImageOfTheBinding tests the image that an earlier attempt ran.
func TestImageOfTheBinding(t *testing.T) {
	var got nodeagent.Container
	rt := simruntime.Config{
		Script: func(c nodeagent.Container) (simruntime.Behaviour, error) {
			got = c
			return simruntime.Behaviour{Forever: true}, nil
		},
		Resolve: func(ref string) string { return ref },
	}
	bubble(t, rt, func(t *testing.T, b *bench) {
		b.bind("a", func(x *types.Binding) { x.Image = "img@sha256:7" })
		synctest.Wait()
		if got.Image != "img@sha256:7" || !slices.Contains(got.Env, "ESCHER_IMAGE=img") {
			t.Errorf("%+v", got)
		}
		b.crash()
		b.start()
		b.stop("a", types.Stop{})
		b.pass(time.Minute)
		if r := b.expect("a", types.ReportExited); r.Image != "img@sha256:7" {
			t.Errorf("%+v", r)
		}
	})
}

// TestTrouble tests that trouble is reported when it begins, and, at intervals, when it changes.
func TestTrouble(t *testing.T) {
	var trouble atomic.Pointer[string]
	set := func(text string) { trouble.Store(&text) }
	set("the registry does not answer")
	rt := simruntime.Config{Script: func(nodeagent.Container) (simruntime.Behaviour, error) {
		if text := *trouble.Load(); text != "" {
			return simruntime.Behaviour{}, types.Errorf(types.Unavailable, "%s", text)
		}
		return simruntime.Behaviour{Forever: true}, nil
	}}
	bubble(t, rt, func(t *testing.T, b *bench) {
		b.crash()
		b.cfg.Logger = nil // The logger would get all of that too.
		b.start()
		b.bind("a")
		b.pass(5 * time.Second)
		if r := b.expect("a", types.ReportStarting); r.Reason != *trouble.Load() {
			t.Errorf("%+v", r)
		}
		before := b.store.Revision()
		b.pass(10 * time.Minute)
		if n := b.store.Revision() - before; n != 0 {
			t.Errorf("%d reports of the same", n)
		}
		for i := range 60 {
			set(strings.Repeat("no ", i+1))
			b.pass(2 * time.Second)
		}
		if n := b.store.Revision() - before; n < 3 || n > 5 {
			t.Errorf("%d reports in two minutes", n)
		}
		set("")
		b.pass(3 * time.Second)
		if r := b.expect("a", types.ReportRunning); r.Reason != "" {
			t.Errorf("%+v", r)
		}
	})
}

// TestScratch tests that all processes of an attempt share a scratch directory, and no others.
func TestScratch(t *testing.T) {
	var made []string
	rt := simruntime.Config{Script: func(c nodeagent.Container) (simruntime.Behaviour, error) {
		dir := c.Mounts[0].Source
		made = append(made, dir)
		// The image is also remembered over a restart of the agent.
		if want := map[bool]string{true: "img@sha256:1", false: "img"}[c.Restart > 0]; c.Image != want {
			t.Errorf("restart %d of %s", c.Restart, c.Image)
		}
		// The next process sees the files of the previous one.
		if _, err := os.Stat(dir + "/left"); err == nil != (c.Restart > 0) {
			t.Errorf("restart %d: %v", c.Restart, err)
		}
		return simruntime.Behaviour{Run: time.Second, Code: 1}, os.WriteFile(dir+"/left", nil, 0o600)
	}, Resolve: func(string) string { return "img@sha256:1" }}
	bubble(t, rt, func(t *testing.T, b *bench) {
		scratch := func(s *types.Spec) {
			again(s)
			s.Mounts = []types.Mount{{Target: "/tmp"}}
		}
		lost := b.cfg.StateDir + "/scratch/lost"
		b.bind("a", b.runs(scratch))
		b.pass(2 * time.Second)
		if err := os.MkdirAll(lost, 0o700); err != nil {
			t.Fatal(err)
		}
		b.crash()
		b.start()
		if _, err := os.Stat(lost); err == nil {
			t.Error("what no task has is still there")
		}
		b.pass(time.Minute)
		b.expect("a", types.ReportExited)
		if len(made) != 4 || made[3] != made[0] {
			t.Errorf("%v", made)
		}
		if _, err := os.Stat(made[0]); !os.IsNotExist(err) {
			t.Errorf("it outlives the attempt: %v", err)
		}
		b.bind("never", b.runs(scratch), func(x *types.Binding) { x.MaxRun = 1 })
		b.pass(10 * time.Second)
		b.release("never")
		b.pass(time.Second)
		if left, err := os.ReadDir(b.cfg.StateDir + "/scratch"); err != nil || len(left) != 0 {
			t.Errorf("%v, %v", left, err)
		}
	})
}

// late is a runtime whose first answer to Wait takes long.
type late struct {
	*simruntime.Runtime
	asked atomic.Int64
}

func (l *late) Wait(ctx context.Context, id string) (nodeagent.Exit, error) {
	exit, err := l.Runtime.Wait(ctx, id)
	if l.asked.Add(1) == 1 {
		time.Sleep(30 * time.Second)
	}
	return exit, err
}

// TestLateExit tests an answer that comes after a restart: it does not count for the new process.
func TestLateExit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, does(simruntime.Behaviour{Run: 55 * time.Second, Code: 7}))
		b.cfg.Runtime = &late{Runtime: b.runtime}
		b.start()
		defer b.crash()
		b.bind("a", b.runs(again))
		b.pass(90 * time.Second)
		b.alive(1)
		if r := b.expect("a", types.ReportRunning); r.Restarts != 1 || r.Ended != 0 {
			t.Errorf("%+v", r)
		}
	})
}

// TestLateCopies tests reports that arrive a second time after later ones.
func TestLateCopies(t *testing.T) {
	bubble(t, does(simruntime.Behaviour{Run: 5 * time.Second, Code: 1}), func(t *testing.T, b *bench) {
		b.bind("a", b.runs(again))
		b.pass(6 * time.Second)
		b.crash()
		b.start()
		b.pass(time.Hour)
		b.expect("a", types.ReportExited)
		before := b.store.Revision()
		for _, txn := range b.store.sent {
			if _, err := b.store.Store.Commit(t.Context(), txn); err != nil {
				t.Fatal(err)
			}
		}
		if b.store.Revision() != before {
			t.Error("an earlier report took the place of the last one")
		}
	})
}

// TestEndedWhileNobodyWatched tests a process that ends after a signal, while its agent is gone: it
// did not end by itself.
func TestEndedWhileNobodyWatched(t *testing.T) {
	bubble(t, does(simruntime.Behaviour{Forever: true, StopAfter: 4 * time.Second, StopCode: 1}), func(t *testing.T, b *bench) {
		b.bind("a", b.runs(again), func(x *types.Binding) { x.Deadline = time.Now().Add(10 * time.Second).UnixNano() })
		b.pass(11 * time.Second)
		b.crash()
		b.pass(4 * time.Second)
		b.alive(0)
		b.start()
		b.pass(time.Second)
		if r := b.expect("a", types.ReportExited); r.Reason != "its deadline passed" || r.ExitCode != 1 {
			t.Errorf("%+v", r)
		}
	})
}

// TestSpecGoneAtTheEnd tests a process that ended while its spec no longer exists: its end counts.
func TestSpecGoneAtTheEnd(t *testing.T) {
	bubble(t, does(simruntime.Behaviour{Run: 5 * time.Second, Code: 7}), func(t *testing.T, b *bench) {
		b.bind("a")
		b.pass(time.Second)
		b.crash()
		b.delete(controlplane.SpecKey("d", b.digest))
		b.pass(5 * time.Second)
		b.start()
		b.pass(time.Second)
		if r := b.expect("a", types.ReportExited); r.ExitCode != 7 || r.Reason != "" {
			t.Errorf("%+v", r)
		}
	})
}
