package nodeagent

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/types"
)

// at is a time some seconds after the start of a test's time.
func at(seconds float64) time.Time {
	return time.Unix(1000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// nextCase is one line of the table.
type nextCase struct {
	name  string
	d     Desired
	s     Seen
	now   float64
	want  Verb
	until float64 // of Wait; 0 means none
	say   string  // part of the reason
}

// wanted are the desired states of the table.
type wanted struct {
	bound, stop, noGrace, void, unfetched, fenced, limited, deadline Desired
	again, againStop, againLimited                                   Desired
}

func newWanted() wanted {
	bound := Desired{Bound: true, Revision: 7, Spec: &types.Spec{Image: "i", Grace: 3 * time.Second}}
	with := func(edit func(*Desired)) Desired { d := bound; edit(&d); return d }
	return wanted{
		bound:     bound,
		stop:      with(func(d *Desired) { d.Stop = &types.Stop{Reason: "enough", Grace: 2 * time.Second} }),
		noGrace:   with(func(d *Desired) { d.Stop = &types.Stop{} }),
		void:      with(func(d *Desired) { d.Void = true }),
		unfetched: with(func(d *Desired) { d.Spec = nil }),
		fenced:    with(func(d *Desired) { d.SignalBy, d.KillBy = at(5), at(8) }),
		limited:   with(func(d *Desired) { d.MaxRun = time.Minute }),
		deadline:  with(func(d *Desired) { d.Deadline = at(60) }),
		again:     with(restarting),
		againStop: with(func(d *Desired) { restarting(d); d.Stop = &types.Stop{Reason: "enough"} }),
		againLimited: with(func(d *Desired) {
			restarting(d)
			d.MaxRun = time.Minute
		}),
	}
}

// seen is a process that runs as reported, changed by edit.
func seen(edit func(*Seen)) Seen {
	s := Seen{Container: Running, Started: at(0), Ran: true, Watched: true, Reported: types.Report{Phase: types.ReportRunning}}
	edit(&s)
	return s
}

func signalled(cause Cause) Seen {
	return seen(func(s *Seen) { s.Cause, s.Signalled = cause, at(2) })
}

// startCases are about attempts that do not run yet.
func (w wanted) startCases() []nextCase {
	return []nextCase{
		{"nothing is known", w.bound, Seen{}, 0, Look, 0, "not known"},
		{"being looked at", w.bound, Seen{Looking: true}, 0, Wait, 0, ""},
		{"new", w.bound, Seen{Container: Absent}, 0, Start, 0, "bound here"},
		{"half made", w.bound, Seen{Container: Created}, 0, Start, 0, ""},
		{"spec not read", w.unfetched, Seen{Container: Absent}, 0, Fetch, 0, ""},
		{"start failed", w.bound, Seen{Container: Absent, RetryAt: at(3), Trouble: "no disk"}, 2, Wait, 3, "no disk"},
		{"start failed a while ago", w.bound, Seen{Container: Absent, RetryAt: at(3), Trouble: "no disk"}, 3, Start, 0, ""},
		{"start fails for long", w.bound, Seen{Container: Absent, Since: at(0), RetryAt: at(3), Trouble: "no disk"}, 2, Send, 0, "does not start"},
		{"start fails, as reported", w.bound, Seen{Container: Unknown, Since: at(0), RetryAt: at(3), Reported: types.Report{Phase: types.ReportStarting, Reason: "old"}, ReportedAt: at(0)}, 2, Wait, 3, ""},
		{"starting", w.bound, Seen{Container: Starting, Since: at(0)}, 0.5, Wait, 1, ""},
		{"starting for long", w.bound, Seen{Container: Starting, Since: at(0)}, 1, Send, 0, "long"},
		{"starting, as reported", w.bound, Seen{Container: Starting, Since: at(0), Reported: types.Report{Phase: types.ReportStarting}}, 9, Wait, 0, ""},
		{"start fails in another way, soon", w.bound, Seen{Container: Unknown, Since: at(0), RetryAt: at(31), Trouble: "new", Reported: types.Report{Phase: types.ReportStarting, Reason: "old"}, ReportedAt: at(1)}, 30, Wait, 31, ""},
		{"start fails in another way, later", w.bound, Seen{Container: Unknown, Since: at(0), RetryAt: at(33), Trouble: "new", Reported: types.Report{Phase: types.ReportStarting, Reason: "old"}, ReportedAt: at(1)}, 31, Send, 0, ""},
		{"start fails in the same way", w.bound, Seen{Container: Unknown, Since: at(0), RetryAt: at(93), Trouble: "old", Reported: types.Report{Phase: types.ReportStarting, Reason: "old"}, ReportedAt: at(1)}, 92, Wait, 93, ""},
		{"start fails, and it has a deadline", w.deadline, Seen{Container: Absent, RetryAt: at(80), Trouble: "no disk"}, 2, Wait, 60, "no disk"},
		{"deadline before the start", w.deadline, Seen{Container: Absent}, 60, Send, 0, ""},
		{"deadline while starting", w.deadline, Seen{Container: Starting, Reported: types.Report{Phase: types.ReportStarting}}, 59, Wait, 60, ""},
		{"deadline passed while starting", w.deadline, Seen{Container: Starting}, 60, CancelStart, 0, "deadline"},
		{"starting, being reported", w.bound, Seen{Container: Starting, Since: at(0), Sending: &types.Report{Phase: types.ReportStarting}}, 9, Wait, 0, ""},
		{"stop while starting", w.stop, Seen{Container: Starting}, 0, CancelStart, 0, "enough"},
		{"stop while starting, given up", w.stop, Seen{Container: Starting, Cancelled: true}, 0, Wait, 0, ""},
		{"fence while starting", w.fenced, Seen{Container: Starting}, 0, CancelStart, 0, "session"},
		{"fence before the start", w.fenced, Seen{Container: Absent}, 0, Wait, 0, "session"},
		{"stop before the start", w.stop, Seen{Container: Absent}, 0, Send, 0, ""},
	}
}

// runCases are about attempts that run.
func (w wanted) runCases() []nextCase {
	return []nextCase{
		{"found running", w.bound, seen(func(s *Seen) { s.Watched = false }), 1, Adopt, 0, ""},
		{"runs", w.bound, seen(func(s *Seen) { s.Reported = types.Report{} }), 1, Send, 0, "runs"},
		{"runs, being reported", w.bound, seen(func(s *Seen) { s.Reported, s.Sending = types.Report{}, &types.Report{Phase: types.ReportRunning} }), 1, Wait, 0, ""},
		{"its socket is not served", w.bound, seen(func(s *Seen) { s.ServeAt = at(3) }), 2, Wait, 3, ""},
		{"its socket is to be served", w.bound, seen(func(s *Seen) { s.ServeAt = at(3) }), 3, Serve, 0, "socket"},
		{"stop, and its socket is not served", w.stop, seen(func(s *Seen) { s.ServeAt = at(1) }), 1, Signal, 0, "enough"},
		{"runs, as reported", w.bound, seen(func(*Seen) {}), 1, Wait, 0, ""},
		{"runs, report refused", w.bound, seen(func(s *Seen) { s.Reported, s.Refused = types.Report{}, true }), 1, Wait, 0, ""},
		{"adopted without spec", w.unfetched, seen(func(*Seen) {}), 1, Fetch, 0, ""},
		{"runs with a limit", w.limited, seen(func(*Seen) {}), 1, Wait, 60, ""},
		{"runs too long", w.limited, seen(func(*Seen) {}), 60, Signal, 0, "ran longer than 1m0s"},
		{"runs with a deadline", w.deadline, seen(func(*Seen) {}), 1, Wait, 60, ""},
		{"runs past its deadline", w.deadline, seen(func(*Seen) {}), 60, Signal, 0, "deadline"},
		{"runs, and its image is known now", w.bound, seen(func(s *Seen) { s.Image = "i@sha256:1" }), 1, Send, 0, "runs"},
		{"stop", w.stop, seen(func(*Seen) {}), 1, Signal, 0, "enough"},
		{"signalled", w.stop, signalled(Stopped), 3, Wait, 4, ""},
		{"deaf", w.stop, signalled(Stopped), 4, Kill, 0, "within 2s"},
		{"grace of the spec", w.noGrace, signalled(Stopped), 3, Wait, 5, ""},
		{"killed", w.stop, seen(func(s *Seen) { s.Cause, s.Signalled, s.Killed = Stopped, at(2), at(4) }), 5, Wait, 9, ""},
		{"killed in vain", w.stop, seen(func(s *Seen) { s.Cause, s.Signalled, s.Killed = Stopped, at(2), at(4) }), 9, Kill, 0, ""},
		{"stop begun by an earlier agent", w.stop, seen(func(s *Seen) { s.Cause = Stopped }), 9, Signal, 0, "before"},
		{"fence far", w.fenced, seen(func(*Seen) {}), 1, Wait, 5, ""},
		{"fence near", w.fenced, seen(func(*Seen) {}), 5, Signal, 0, "session"},
		{"fence, signalled", w.fenced, signalled(Fenced), 4, Wait, 5, ""},
		{"fence shortens a grace", Desired{Bound: true, Stop: &types.Stop{Grace: time.Hour}, SignalBy: at(5), KillBy: at(8)}, signalled(Stopped), 8, Kill, 0, ""},
		{"fence lowered, but signalled", w.bound, signalled(Fenced), 5, Kill, 0, ""},
	}
}

// endCases are about attempts that have ended or are not wanted.
func (w wanted) endCases() []nextCase {
	return []nextCase{
		{"ended", w.bound, seen(func(s *Seen) { s.Container = Exited }), 1, Send, 0, "ended"},
		{"ended, being reported", w.bound, seen(func(s *Seen) { s.Container, s.Sending = Exited, &types.Report{Phase: types.ReportExited} }), 1, Wait, 0, ""},
		{"ended, report refused", w.bound, seen(func(s *Seen) { s.Container, s.Refused = Exited, true }), 1, Wait, 0, "refused"},
		{"ended, as reported", w.bound, seen(func(s *Seen) { s.Container, s.Reported = Exited, types.Report{Phase: types.ReportExited} }), 1, Remove, 0, "reported"},
		{"end reported, nothing known", w.bound, Seen{Reported: types.Report{Phase: types.ReportExited}}, 1, Remove, 0, ""},
		{"end reported, starting", w.bound, Seen{Container: Starting, Reported: types.Report{Phase: types.ReportExited}}, 1, CancelStart, 0, ""},
		{"removed", w.bound, Seen{Container: Absent, Reported: types.Report{Phase: types.ReportExited}}, 1, Wait, 0, "release"},
		{"never ran", w.bound, Seen{Container: Absent, Failed: &Exit{Code: 127}}, 1, Send, 0, ""},
		{"gone", w.bound, seen(func(s *Seen) { s.Container = Absent }), 1, Send, 0, ""},
		{"gone while the agent was down", w.bound, Seen{Container: Absent, Reported: types.Report{Phase: types.ReportRunning}}, 1, Send, 0, ""},
		{"void before the start", w.void, Seen{Container: Absent}, 1, Wait, 0, "session"},
		{"void while starting", w.void, Seen{Container: Starting}, 1, CancelStart, 0, ""},
		{"void and running", w.void, seen(func(*Seen) {}), 1, Remove, 0, "session"},
		{"void and ended", w.void, seen(func(s *Seen) { s.Container = Exited }), 1, Remove, 0, ""},
		{"unbound, unknown", Desired{}, Seen{}, 1, Remove, 0, "not bound"},
		{"unbound and running", Desired{}, seen(func(*Seen) {}), 1, Remove, 0, "not bound"},
		{"unbound while starting", Desired{}, Seen{Container: Starting}, 1, CancelStart, 0, ""},
		{"unbound and half made", Desired{}, Seen{Container: Created}, 1, Remove, 0, ""},
		{"unbound and removed", Desired{}, Seen{Container: Absent}, 1, Forget, 0, ""},
		{"unbound, remove failed", Desired{}, Seen{Container: Exited, RetryAt: at(3)}, 1, Wait, 3, ""},
	}
}

func TestNext(t *testing.T) {
	w := newWanted()
	for _, c := range slices.Concat(w.startCases(), w.runCases(), w.endCases(), w.restartCases()) {
		t.Run(c.name, func(t *testing.T) {
			act := Next(c.d, c.s, at(c.now))
			if act.Do != c.want || !strings.Contains(act.Reason, c.say) {
				t.Fatalf("%s (%s), want %s (…%s…)", act.Do, act.Reason, c.want, c.say)
			}
			if c.until == 0 && !act.Until.IsZero() || c.until != 0 && !act.Until.Equal(at(c.until)) {
				t.Errorf("until %s, want %s", act.Until, at(c.until))
			}
		})
	}
}

func TestReports(t *testing.T) {
	spec := &types.Spec{}
	d := Desired{Bound: true, Revision: 7, Spec: spec, MaxRun: time.Minute, Memory: 64 << 20}
	cases := []struct {
		name string
		s    Seen
		want types.Report
	}{
		{"by itself", Seen{Exit: Exit{Code: 3}}, types.Report{ExitCode: 3}},
		{"stopped", Seen{Cause: Stopped, Exit: Exit{Code: 143}}, types.Report{ExitCode: 143, Stopped: true}},
		{"fenced", Seen{Cause: Fenced, Exit: Exit{Code: 137}}, types.Report{ExitCode: 137, Fenced: true, Reason: "the node could not renew its session in time", Cause: types.CauseFenced}},
		{"too long", Seen{Cause: Overran, Exit: Exit{Code: 0}}, types.Report{Reason: "ran longer than 1m0s"}},
		{"past its deadline", Seen{Cause: Expired, Exit: Exit{Code: 143}}, types.Report{ExitCode: 143, Reason: "its deadline passed", Cause: types.CauseDeadline}},
		{"out of memory", Seen{Exit: Exit{Code: 137, OOMKilled: true}}, types.Report{ExitCode: 137, Reason: "out of memory: its limit is 64Mi", Cause: types.CauseMemory}},
		{"a child out of memory, and it failed", Seen{Exit: Exit{Code: 1, OOMKilled: true}}, types.Report{ExitCode: 1, Reason: "out of memory: its limit is 64Mi", Cause: types.CauseMemory}},
		{"of an image", Seen{Image: "i@sha256:1"}, types.Report{Image: "i@sha256:1"}},
		{"a child out of memory", Seen{Exit: Exit{OOMKilled: true}}, types.Report{}},
		{"no image", Seen{Failed: &Exit{Code: 127, Reason: "no image"}}, types.Report{ExitCode: 127, Reason: "no image"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.s.Container = Exited
			act := Next(d, c.s, at(0))
			c.want.Phase, c.want.Binding = types.ReportExited, 7
			if act.Do != Send || string(types.Encode(0, act.Report)) != string(types.Encode(0, &c.want)) {
				t.Errorf("%s %+v, want %+v", act.Do, act.Report, c.want)
			}
		})
	}
}

// TestNextNever goes through all combinations of the inputs, and checks for forbidden actions.
func TestNextNever(t *testing.T) {
	n := 0
	forAll(func(d Desired, s Seen) {
		n++
		act := Next(d, s, at(10))
		if wrong := never(&d, &s, act); wrong != "" {
			t.Fatalf("%s (%s): %s\n%+v\n%+v", act.Do, act.Reason, wrong, d, s)
		}
	})
	if n < 100_000 {
		t.Errorf("%d combinations", n)
	}
}

// never returns what is wrong with an action; "" if nothing is.
func never(d *Desired, s *Seen, act Action) string {
	valid := d.Bound && !d.Void
	ended := s.Container == Exited || s.Failed != nil
	again := restartPending(s)
	switch act.Do {
	case Start:
		switch {
		case !valid || d.Stop != nil || !d.KillBy.IsZero() || d.Spec == nil:
			return "it is not wanted"
		case s.Container != Absent && s.Container != Created:
			return "there is a container"
		case s.Ran || ended || s.Reported.Phase == types.ReportRunning && !again || s.Reported.Phase == types.ReportExited:
			return "it ran before"
		case again && at(10).Before(restartAt(s)) || !d.Deadline.IsZero() && !at(10).Before(d.Deadline):
			return "it is too early, or too late"
		}
	case Remove:
		replaced := (s.Container == Exited || s.Container == Running) && s.Restart < s.Reported.Restarts
		if valid && s.Reported.Phase != types.ReportExited && !replaced {
			return "how it ended is not stored yet"
		}
	case Send:
		switch {
		case !valid:
			return "there is no health to report"
		case act.Report.Binding != d.Revision:
			return "it is about another binding"
		case s.Refused:
			return "it was refused"
		case act.Report.Phase == types.ReportRunning && act.Report.Ended == 0 && s.Container != Running:
			return "it does not run"
		case act.Report.Phase == types.ReportRunning && act.Report.Ended == 0 && d.Spec == nil:
			return "whether it has checks is not known"
		case act.Report.Phase == types.ReportRunning && act.Report.Restarts > s.Restart && s.Container == Exited &&
			(act.Report.Restarts != s.Restart+1 || s.Cause != "" || d.Stop != nil || d.Spec == nil || d.Spec.Restart == nil || s.Failed != nil):
			return "it is not to run again"
		case act.Report.Restarts < s.Reported.Restarts:
			return "a restart is forgotten"
		case act.Report.Phase == types.ReportStarting && (s.Ran || s.Reported.Phase == types.ReportRunning):
			return "it ran before"
		case act.Report.Phase == types.ReportExited && (s.Container == Running || s.Container == Starting || s.Container == Unknown) && s.Failed == nil:
			return "it may run"
		case act.Report.Fenced && s.Cause != Fenced && s.Container != Absent && s.Container != Created:
			return "it is not lost"
		}
	case Signal:
		if !s.Signalled.IsZero() || s.Container != Running || !valid {
			return "it was, or needs no signal"
		}
	case Kill:
		if s.Signalled.IsZero() || s.Container != Running {
			return "it was not signalled"
		}
	case Forget:
		if d.Bound || s.Container != Absent {
			return "something is left of it"
		}
	case Wait:
		if !act.Until.IsZero() && !act.Until.After(at(10)) {
			return "it is that late already"
		}
		if s.Container == Running && s.Watched && valid && s.Restart == s.Reported.Restarts && !d.KillBy.IsZero() && act.Until.IsZero() && s.Reported.Phase != types.ReportExited {
			return "the fence would be forgotten"
		}
	}
	return ""
}

// forAll calls f with all combinations.
func forAll(f func(Desired, Seen)) {
	times := []time.Time{{}, at(9), at(10), at(12)}
	reports := []types.Report{
		{}, {Phase: types.ReportStarting}, {Phase: types.ReportRunning}, {Phase: types.ReportExited},
		{Phase: types.ReportRunning, Binding: 7, Started: at(1).UnixNano(), Ended: at(3).UnixNano(), Restarts: 1, Delay: 2 * time.Second},
		{Phase: types.ReportRunning, Binding: 7, Started: at(1).UnixNano(), Ended: at(3).UnixNano(), Restarts: 1, Delay: time.Minute},
	}
	forDesired(func(d Desired) {
		for _, container := range []ContainerState{Unknown, Absent, Starting, Created, Running, Exited} {
			for bits := range 1 << 6 {
				for _, reported := range reports {
					for _, signalled := range times[:3] {
						s := Seen{
							Container: container, Reported: reported, Signalled: signalled, Since: at(1), Started: at(2),
							Watched: bits&1 != 0, Looking: bits&2 != 0, Cancelled: bits&2 != 0, Ran: bits&4 != 0, Refused: bits&8 != 0,
						}
						if bits&16 != 0 {
							s.RetryAt, s.Trouble = at(11), "trouble"
						}
						if bits&32 != 0 {
							s.Failed = &Exit{Code: 127}
						}
						if !signalled.IsZero() {
							s.Cause = Stopped
						}
						if container == Running || container == Exited {
							s.Ran, s.Failed = true, nil
						}
						if container == Starting {
							s.Ran = false
						}
						f(d, s)
						if s.Restart = reported.Restarts; s.Restart > 0 {
							f(d, s)
						}
					}
				}
			}
		}
	})
}

func forDesired(f func(Desired)) {
	f(Desired{})
	for bits := range 1 << 5 {
		for _, fence := range []time.Time{{}, at(9), at(11)} {
			d := Desired{Bound: true, Revision: 7, Void: bits&1 != 0}
			if bits&2 != 0 {
				d.Stop = &types.Stop{Grace: 3 * time.Second}
			}
			if bits&4 != 0 {
				d.MaxRun = 5 * time.Second
			}
			if bits&8 != 0 {
				d.Spec = &types.Spec{}
			}
			if bits&16 != 0 && bits&8 != 0 {
				d.Spec.Restart = &types.Restart{When: types.RestartAlways}
			} else if bits&16 != 0 {
				d.Deadline = at(9)
			}
			if !fence.IsZero() {
				d.SignalBy, d.KillBy = fence, fence.Add(2*time.Second)
			}
			f(d)
		}
	}
}
