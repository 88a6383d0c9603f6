package nodeagent_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/fence/watchdog"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/execution"
)

// TestFrozenAgentStartsNothing freezes this process between its decision to start a process and the
// start, for longer than the session lasts.
func TestFrozenAgentStartsNothing(t *testing.T) {
	var frozen atomic.Int64
	rt := simruntime.Config{Script: func(c nodeagent.Container) (simruntime.Behaviour, error) {
		if c.Attempt.Task != "before" {
			frozen.Store(int64(time.Hour))
		}
		return simruntime.Behaviour{Forever: true}, nil
	}}
	for _, kept := range []bool{false, true} {
		frozen.Store(0)
		bubble(t, rt, func(t *testing.T, b *bench) {
			b.crash()
			b.cfg.BootClock = func() time.Duration { return time.Since(b.began) + time.Duration(frozen.Load()) }
			b.start()
			b.bind("before")
			synctest.Wait()
			b.alive(1)
			var id string
			if kept {
				id = b.bind("a", keep)
			} else {
				id = b.bind("a")
			}
			synctest.Wait()
			if runs := b.runtime.Runs()[id]; runs != map[bool]int{false: 0, true: 1}[kept] {
				t.Errorf("kept %t: started %d times by an agent whose session is over", kept, runs)
			}
		})
	}
}

// TestKilledByTheWatchdog tests that a process which the watchdog killed and marked did not end by
// itself, whether or not the agent was there.
func TestKilledByTheWatchdog(t *testing.T) {
	for what, want := range map[types.OnDisconnect]bool{types.Fence: true, types.StopLost: false} {
		bubble(t, does(simruntime.Behaviour{Forever: true}), func(t *testing.T, b *bench) {
			ids := []string{
				b.bind("a", func(x *types.Binding) { x.OnDisconnect = what }),
				b.bind("b", func(x *types.Binding) { x.OnDisconnect = what }),
			}
			b.pass(2 * time.Second)
			for i, id := range ids {
				if i == 1 {
					b.crash()
				}
				path := filepath.Join(b.cfg.StateDir, watchdog.EndingDir, id)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(watchdog.Fenced), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := b.runtime.Signal(t.Context(), id, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
				b.pass(time.Second)
			}
			b.start()
			b.pass(time.Second)
			for _, task := range []string{"a", "b"} {
				r := b.expect(task, types.ReportExited)
				if r.Fenced != want || r.Stopped || !strings.Contains(r.Reason, "could not renew its session") {
					t.Errorf("%s of %s: %+v", task, what, r)
				}
			}
		})
	}
}

// TestUnwatchedSessionEnds tests a disk that can no longer store a deadline. The watchdog would
// kill the processes, so the agent ends them before, and its session ends.
func TestUnwatchedSessionEnds(t *testing.T) {
	bubble(t, does(simruntime.Behaviour{Forever: true}), func(t *testing.T, b *bench) {
		b.crash()
		disk, err := unix.MemfdCreate("deadline", unix.MFD_ALLOW_SEALING|unix.MFD_CLOEXEC)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = unix.Close(disk) }()
		path := filepath.Join(b.cfg.StateDir, "deadline")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(fmt.Sprintf("/proc/self/fd/%d", disk), path); err != nil {
			t.Fatal(err)
		}
		b.start()
		b.bind("a")
		b.bind("kept", keep)
		b.pass(ttl)
		b.alive(2)
		if _, err := unix.FcntlInt(uintptr(disk), unix.F_ADD_SEALS, unix.F_SEAL_WRITE); err != nil {
			t.Fatal(err)
		}
		// No mark can be written either.
		if err := os.WriteFile(filepath.Join(b.cfg.StateDir, watchdog.EndingDir), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		b.pass(ttl - ttl/20)
		b.alive(1)
		if r := b.expect("a", types.ReportExited); !r.Fenced {
			t.Errorf("%+v", r)
		}
		b.pass(ttl)
		if b.session() != 0 {
			t.Error("the node is alive, and nothing can run on it")
		}
	})
}

// TestKilledWithoutAMark tests a frozen agent and a watchdog that could write nothing.
func TestKilledWithoutAMark(t *testing.T) {
	var frozen atomic.Int64
	bubble(t, does(simruntime.Behaviour{Forever: true}), func(t *testing.T, b *bench) {
		b.crash()
		b.cfg.BootClock = func() time.Duration { return time.Since(b.began) + time.Duration(frozen.Load()) }
		b.start()
		early, late, kept := b.bind("early"), b.bind("late"), b.bind("kept", keep)
		b.pass(time.Second)
		for _, id := range []string{early, late, kept} {
			if id == late {
				frozen.Store(int64(ttl - ttl/20))
			}
			if err := b.runtime.Signal(t.Context(), id, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		for task, want := range map[string]bool{"early": false, "late": true, "kept": false} {
			if r := b.expect(task, types.ReportExited); r.Fenced != want || r.ExitCode != 137 {
				t.Errorf("%s: %+v", task, r)
			}
		}
	})
}

// TestFencedBeforeItRan tests an interrupted start that the watchdog killed and marked. The next
// start makes another process, which ends by itself.
func TestFencedBeforeItRan(t *testing.T) {
	for _, restarted := range []bool{false, true} {
		var mark func(id string)
		tries := 0
		rt := simruntime.Config{Script: func(c nodeagent.Container) (simruntime.Behaviour, error) {
			if tries++; tries == 1 {
				mark(c.ID)
				return simruntime.Behaviour{}, types.Errorf(types.Unavailable, "it was killed")
			}
			return simruntime.Behaviour{Run: time.Minute}, nil
		}}
		bubble(t, rt, func(t *testing.T, b *bench) {
			mark = func(id string) {
				path := filepath.Join(b.cfg.StateDir, watchdog.EndingDir, id)
				if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
					t.Error(err)
				}
				if err := os.WriteFile(path, []byte(watchdog.Fenced), 0o600); err != nil {
					t.Error(err)
				}
			}
			b.bind("a")
			synctest.Wait()
			if restarted {
				b.crash()
				b.start()
			}
			b.pass(30 * time.Second)
			b.alive(1)
			if restarted {
				b.crash()
				b.start()
			}
			b.pass(time.Minute)
			if r := b.expect("a", types.ReportExited); r.Fenced || r.ExitCode != 0 {
				t.Errorf("restarted %t: %+v", restarted, r)
			}
		})
	}
}

// executions returns the records of a container in the execution log.
func (b *bench) executions(id string) []string {
	b.t.Helper()
	var all []string
	_, err := execution.ReadFile(filepath.Join(b.cfg.StateDir, execution.Name), func(r execution.Record) {
		if r.Container != id {
			return
		}
		text := string(r.Event)
		if r.Ran {
			text += " ran"
		}
		all = append(all, text)
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return all
}

// TestWhatRunsIsNoted tests that a process is logged before it runs, its end before its report.
func TestWhatRunsIsNoted(t *testing.T) {
	var noted func(id string) []string
	rt := simruntime.Config{Script: func(c nodeagent.Container) (simruntime.Behaviour, error) {
		if got := noted(c.ID); len(got) != 2*c.Restart+1 || got[2*c.Restart] != "start" {
			t.Errorf("%s is started, and noted is %q", c.ID, got)
		}
		if c.Attempt.Task == "none" {
			return simruntime.Behaviour{}, types.Errorf(types.NotFound, "no image")
		}
		return simruntime.Behaviour{Run: time.Minute, Code: 1, Forever: c.Attempt.Task == "gone"}, nil
	}}
	bubble(t, rt, func(t *testing.T, b *bench) {
		noted = b.executions
		b.crash()
		var stored atomic.Bool
		b.store.step = func(done bool) bool {
			if r := b.report("once"); done && r.Phase == types.ReportExited {
				for id := range b.runtime.Runs() {
					if strings.HasPrefix(id, "once-") && len(b.executions(id)) != 2 && !stored.Swap(true) {
						t.Error("an end is reported and not noted")
					}
				}
			}
			return false
		}
		b.start()
		once, none, gone := b.bind("once"), b.bind("none"), b.bind("gone")
		again := b.bind("again", b.runs(func(s *types.Spec) { s.Restart = &types.Restart{When: types.RestartAlways, Limit: 1} }))
		b.pass(5 * time.Minute)
		b.release("gone")
		b.pass(time.Second)
		for id, want := range map[string]string{
			once: "start|end ran", none: "start|end", gone: "start|end", again: "start|end ran|start|end ran",
		} {
			if got := strings.Join(b.executions(id), "|"); got != want {
				t.Errorf("%s: %s, want %s", id, got, want)
			}
		}
	})
}

// TestUnnotedIsNotStarted tests that no process starts while the disk is full.
func TestUnnotedIsNotStarted(t *testing.T) {
	bubble(t, does(simruntime.Behaviour{Forever: true}), func(t *testing.T, b *bench) {
		b.crash()
		if err := unix.Mount("none", b.cfg.StateDir, "tmpfs", 0, "size=1m"); err != nil {
			t.Fatal(err)
		}
		defer func() {
			b.crash()
			if err := unix.Unmount(b.cfg.StateDir, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
			b.start() // for the end of the test
		}()
		b.start()
		b.pass(time.Minute) // The last session ends.
		full := filepath.Join(b.cfg.StateDir, "full")
		_ = os.WriteFile(full, make([]byte, 2<<20), 0o600) // as much as fits
		b.bind("a")
		b.pass(5 * time.Second)
		b.alive(0)
		if r := b.report("a"); !strings.Contains(r.Reason, "note the start of a-1-") || !strings.Contains(r.Reason, "no space left") {
			t.Errorf("what it suffers from is not said: %+v", r)
		}
		if err := os.Remove(full); err != nil {
			t.Fatal(err)
		}
		b.pass(time.Minute)
		b.alive(1)
	})
}

// TestLostEnd tests that an attempt is lost if its process ended in an unknown way, or its
// container is gone, unless the task must fail then. A process that the agent ended is not lost.
func TestLostEnd(t *testing.T) {
	lost := nodeagent.Exit{Code: 137, Reason: "the process was lost", Lost: true}
	for _, c := range []struct {
		name   string
		stop   bool // onDisconnect: stop
		s      nodeagent.Seen
		fenced bool
	}{
		{"lost", false, nodeagent.Seen{Container: nodeagent.Exited, Exit: lost}, true},
		{"lost, and is to stop then", true, nodeagent.Seen{Container: nodeagent.Exited, Exit: lost}, false},
		{"lost while it was stopped", false, nodeagent.Seen{Container: nodeagent.Exited, Exit: lost, Cause: nodeagent.Stopped}, false},
		{"ran too long", false, nodeagent.Seen{Container: nodeagent.Exited, Exit: lost, Cause: nodeagent.Overran}, false},
		{"killed", false, nodeagent.Seen{Container: nodeagent.Exited, Exit: nodeagent.Exit{Code: 137}}, false},
		{"its container is gone", false, nodeagent.Seen{Container: nodeagent.Absent, Ran: true}, true},
		{"its container is gone, and is to stop then", true, nodeagent.Seen{Container: nodeagent.Absent, Ran: true}, false},
	} {
		act := nodeagent.Next(nodeagent.Desired{Bound: true, StopLost: c.stop, Spec: &types.Spec{}}, c.s, time.Now())
		if act.Do != nodeagent.Send || act.Report.Phase != types.ReportExited || act.Report.Fenced != c.fenced {
			t.Errorf("%s: %s %+v", c.name, act.Do, act.Report)
		}
	}
}

// TestStopLost tests that an attempt which must fail with its session is not reported as fenced,
// which would give it another attempt.
func TestStopLost(t *testing.T) {
	s := nodeagent.Seen{Container: nodeagent.Exited, Cause: nodeagent.Fenced, Exit: nodeagent.Exit{Code: 137}}
	for _, stop := range []bool{false, true} {
		act := nodeagent.Next(nodeagent.Desired{Bound: true, StopLost: stop, Spec: &types.Spec{}}, s, time.Now())
		if act.Do != nodeagent.Send || act.Report.Fenced == stop || act.Report.Reason == "" {
			t.Errorf("stop %t: %s %+v", stop, act.Do, act.Report)
		}
	}
}
