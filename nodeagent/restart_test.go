package nodeagent

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/types"
)

// restarting makes a spec restart a failed process twice.
func restarting(d *Desired) {
	spec := *d.Spec
	spec.Restart = &types.Restart{When: types.RestartOnFailure, Limit: 2, Delay: 4 * time.Second}
	d.Spec = &spec
}

// ended is a process that ended at 10 s, changed by edit.
func ended(edit func(*Seen)) Seen {
	return seen(func(s *Seen) {
		s.Container, s.Watched, s.Exit = Exited, false, Exit{Code: 1, At: at(10)}
		s.Reported.Started = at(0).UnixNano()
		edit(s)
	})
}

// pending is a process with a stored restart 4 s after its end at 10 s.
func pending(edit func(*Seen)) Seen {
	return ended(func(s *Seen) {
		s.Reported = types.Report{
			Phase: types.ReportRunning, Started: at(0).UnixNano(), Ended: at(10).UnixNano(), ExitCode: 1,
			Restarts: 1, Delay: 4 * time.Second, Reason: "exit code 1: restarts in 4s (1 of 2)",
		}
		edit(s)
	})
}

// removed is the same after the removal of the container.
func removed(edit func(*Seen)) Seen {
	return pending(func(s *Seen) {
		s.Container, s.Ran, s.Exit, s.Started = Absent, false, Exit{}, time.Time{}
		edit(s)
	})
}

// restartCases are about restarted processes.
func (w wanted) restartCases() []nextCase {
	unfetched := w.again
	unfetched.Spec = nil
	return []nextCase{
		{"failed, to run again", w.again, ended(func(*Seen) {}), 10, Send, 0, "again"},
		{"failed, being reported", w.again, ended(func(s *Seen) { s.Sending = &types.Report{Phase: types.ReportRunning, Ended: 1, Restarts: 1} }), 10, Wait, 0, ""},
		{"failed before it was reported to run", w.again, ended(func(s *Seen) { s.Sending = &types.Report{Phase: types.ReportRunning} }), 10, Send, 0, "again"},
		{"failed, spec unknown", unfetched, ended(func(*Seen) {}), 10, Fetch, 0, "again"},
		{"failed, report refused", w.again, ended(func(s *Seen) { s.Refused = true }), 10, Wait, 0, "refused"},
		{"to run again, not removed", w.again, pending(func(*Seen) {}), 11, Remove, 0, "again"},
		{"to run again, not looked", w.again, removed(func(s *Seen) { s.Container = Unknown }), 11, Look, 0, ""},
		{"to run again later", w.again, removed(func(*Seen) {}), 11, Wait, 14, "restart"},
		{"to run again now", w.again, removed(func(*Seen) {}), 14, Start, 0, ""},
		{"to run again, spec unknown", unfetched, removed(func(*Seen) {}), 11, Fetch, 0, ""},
		{"runs again", w.again, removed(func(s *Seen) { s.Container, s.Restart, s.Ran, s.Watched = Running, 1, true, true }), 15, Send, 0, "runs"},
		{"ran again, and was taken away", w.again, removed(func(s *Seen) { s.Restart, s.Ran = 1, true }), 15, Send, 0, "ended"},
		{"failed again", w.again, pending(func(s *Seen) { s.Restart, s.Started, s.Exit.At = 1, at(14), at(15) }), 15, Send, 0, "again"},
		{"start of a restart fails", w.again, removed(func(s *Seen) { s.Trouble, s.RetryAt = "no disk", at(16); s.Since = at(0) }), 15, Send, 0, "does not start"},
		{"stopped while it waits", w.againStop, removed(func(*Seen) {}), 11, Send, 0, ""},
		{"too long while it waits", w.againLimited, removed(func(s *Seen) { s.Reported.Delay = time.Hour }), 11, Wait, 60, ""},
		{"was too long while it waits", w.againLimited, removed(func(*Seen) {}), 60, Send, 0, ""},
		{"restarts count for how long it may run", w.againLimited, removed(func(s *Seen) {
			s.Container, s.Restart, s.Ran, s.Watched, s.Started = Running, 1, true, true, at(50)
			s.Reported.Ended = 0
		}), 60, Signal, 0, "longer"},
	}
}

// TestRestartReports tests which processes restart, and their reports.
func TestRestartReports(t *testing.T) {
	d := Desired{Bound: true, Revision: 7, Spec: new(types.Spec)}
	restarting(&d)
	always, stopped, late := d, d, d
	always.Spec = &types.Spec{Restart: &types.Restart{When: types.RestartAlways}}
	stopped.Stop = &types.Stop{Reason: "enough"}
	late.Deadline = at(12)
	once := d
	once.StopLost = true
	lost := func(s *Seen) { s.Exit = Exit{Code: 137, At: s.Exit.At, Reason: "the process was lost", Lost: true} }
	for _, c := range []struct {
		name   string
		d      Desired
		s      Seen
		phase  types.ReportPhase
		delay  time.Duration
		reason string
	}{
		{"first failure", d, ended(func(*Seen) {}), types.ReportRunning, 4 * time.Second, "exit code 1: restarts in 4s (1 of 2)"},
		{"second failure", d, pending(func(s *Seen) { s.Restart = 1 }), types.ReportRunning, 8 * time.Second, "exit code 1: restarts in 8s (2 of 2)"},
		{"after a long run", d, pending(func(s *Seen) { s.Restart, s.Started = 1, at(10-600) }), types.ReportRunning, 4 * time.Second, "exit code 1: restarts in 4s (2 of 2)"},
		{"after too many", d, ended(func(s *Seen) { s.Restart, s.Reported.Restarts = 2, 2 }), types.ReportExited, 0, "after 2 restarts"},
		{"success", d, ended(func(s *Seen) { s.Exit.Code = 0 }), types.ReportExited, 0, ""},
		{"success, always", always, ended(func(s *Seen) { s.Exit.Code = 0 }), types.ReportRunning, time.Second, "exit code 0: restarts in 1s (restart 1)"},
		{"for the hundredth time", always, ended(func(s *Seen) { s.Restart, s.Reported.Restarts, s.Reported.Delay = 99, 99, 4*time.Minute }), types.ReportRunning, 5 * time.Minute, "exit code 1: restarts in 5m0s (restart 100)"},
		{"lost", d, ended(lost), types.ReportRunning, 4 * time.Second, "the process was lost: restarts in 4s (1 of 2)"},
		{"lost, where it is to run at most once", once, ended(lost), types.ReportExited, 0, "the process was lost"},
		{"fenced", d, ended(func(s *Seen) { s.Cause = Fenced }), types.ReportExited, 0, "the node could not renew its session in time"},
		{"stopped", d, ended(func(s *Seen) { s.Cause = Stopped }), types.ReportExited, 0, ""},
		{"ended by itself, as it is to stop", stopped, ended(func(*Seen) {}), types.ReportExited, 0, ""},
		{"stopped while it waited", stopped, removed(func(*Seen) {}), types.ReportExited, 0, "stopped while it waited for its restart"},
		{"past its deadline", late, ended(func(*Seen) {}), types.ReportExited, 0, ""},
		{"past its deadline while it waited", late, removed(func(*Seen) {}), types.ReportExited, 0, "its deadline passed while it waited for its restart"},
		{"never to run again", d, removed(func(s *Seen) { s.Failed = &Exit{Code: 127, Reason: "no image"} }), types.ReportExited, 0, "no image"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := Next(c.d, c.s, at(20)).Report
			if r == nil || r.Phase != c.phase || r.Delay != c.delay || r.Reason != c.reason {
				t.Fatalf("%+v, want %s, %q", r, c.phase, c.reason)
			}
			if r.Started != at(0).UnixNano() {
				t.Errorf("started at %d: it is the attempt that is reported", r.Started)
			}
			again := c.phase == types.ReportRunning
			if wantStop := c.d.Stop != nil || c.s.Cause == Stopped; r.Stopped != wantStop || again && (r.Restarts != c.s.Restart+1 || r.Ended != at(10).UnixNano()) {
				t.Errorf("%+v", r)
			}
		})
	}
}

// TestRestartOnClockSetBack tests a process that ended in what is now the future.
func TestRestartOnClockSetBack(t *testing.T) {
	d := Desired{Bound: true, Revision: 7, Spec: new(types.Spec)}
	restarting(&d)
	r := Next(d, ended(func(s *Seen) { s.Exit.At = at(9999) }), at(20)).Report
	if r.Ended != at(20).UnixNano() {
		t.Errorf("%+v", r)
	}
}
