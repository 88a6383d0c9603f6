package nodeagent

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/types"
)

// warned requests a warning 10 s before the end.
func warned(edit func(*Desired)) Desired {
	d := Desired{Bound: true, Revision: 7, Spec: &types.Spec{Grace: 3 * time.Second, Warn: &types.Warn{Signal: "SIGUSR1", Before: 10 * time.Second}}}
	edit(&d)
	return d
}

func TestNextOfWarnings(t *testing.T) {
	plain := warned(func(*Desired) {})
	limited, deadline := warned(func(d *Desired) { d.MaxRun = time.Minute }), warned(func(d *Desired) { d.Deadline = at(60) })
	stop := warned(func(d *Desired) { d.Stop = &types.Stop{Reason: "enough", Grace: 3 * time.Second} })
	long := warned(func(d *Desired) { d.Stop = &types.Stop{Grace: time.Minute} })
	hurry := warned(func(d *Desired) { d.Stop = &types.Stop{Reason: "now", Grace: 2 * time.Second} })
	both := warned(func(d *Desired) { d.Stop, d.MaxRun = &types.Stop{Evicted: true}, time.Minute })
	fenced := warned(func(d *Desired) { d.MaxRun, d.SignalBy, d.KillBy = time.Minute, at(62), at(65) })
	cut := warned(func(d *Desired) { d.Stop, d.SignalBy, d.KillBy = &types.Stop{Reason: "enough"}, at(62), at(65) })
	runs := seen(func(*Seen) {})
	told := func(second float64) Seen { return seen(func(s *Seen) { s.Warned = at(second) }) }
	adopted := func(s *Seen) { s.Since = at(1) }
	runNext(t, []nextCase{
		{"nothing known of its end", plain, runs, 100, Wait, 0, ""},
		{"its end is far", limited, runs, 49, Wait, 50, ""},
		{"its end is near", limited, runs, 50, Warn, 0, "end in 10s"},
		{"its end is nearer", deadline, runs, 58, Warn, 0, "end in 2s"},
		{"warned", limited, told(50), 51, Wait, 60, ""},
		{"warned, and at its end", limited, told(50), 60, Signal, 0, "ran longer"},
		{"not warned, and at its end", deadline, runs, 60, Signal, 0, "deadline"},
		{"stopped", stop, runs, 1, Warn, 0, "asked to end in 10s: enough"},
		{"stopped, and warned", stop, told(1), 10, Wait, 11, ""},
		{"stopped, and its time is over", stop, told(1), 11, Signal, 0, "enough"},
		{"stopped with a longer grace", long, runs, 1, Warn, 0, ""},
		{"stopped in a hurry", hurry, runs, 1, Signal, 0, "now"},
		{"in a hurry after all", hurry, told(1), 5, Signal, 0, "now"},
		{"stopped when it was warned of its end", both, told(50), 55, Wait, 60, ""},
		{"stopped, and at its end first", both, told(52), 60, Signal, 0, "ran longer"},
		{"stopped before it ran", stop, Seen{Container: Absent}, 1, Send, 0, ""},
		{"stopped while it starts", stop, Seen{Container: Starting}, 1, CancelStart, 0, "enough"},
		{"stopped, and ended", stop, seen(func(s *Seen) { s.Container, s.Warned = Exited, at(1) }), 3, Send, 0, ""},
		{"cut off near its end", fenced, runs, 55, Wait, 60, ""},
		{"stopped, and cut off", cut, runs, 50, Signal, 0, "enough"},
		{"a clock was set back", stop, told(100), 1, Signal, 0, ""},
		{"an earlier agent sent the stop signal", stop, seen(func(s *Seen) { s.Cause = Stopped }), 1, Signal, 0, "before"},
		{"stopped, and not known whether it is to be warned", Desired{Bound: true, Stop: &types.Stop{}}, seen(adopted), 2, Fetch, 0, ""},
		{"and that cannot be found out", Desired{Bound: true, Stop: &types.Stop{}}, seen(func(s *Seen) { adopted(s); s.RetryAt, s.Trouble = at(4), "x" }), 2, Wait, 4, ""},
		{"for long", Desired{Bound: true, Stop: &types.Stop{}}, seen(adopted), 11, Signal, 0, ""},
		{"that cannot be found out in a hurry", Desired{Bound: true, Stop: &types.Stop{Grace: 1}}, seen(adopted), 2, Signal, 0, ""},
		{"its warning fails", limited, seen(func(s *Seen) { s.RetryAt, s.Trouble = at(53), "x" }), 52, Wait, 53, "x"},
	})
	if act := Next(stop, seen(func(s *Seen) { s.Container, s.Warned, s.Exit = Exited, at(1), Exit{} }), at(3)); !act.Report.Stopped {
		t.Errorf("it ended as it was warned of its stop: %+v", act.Report)
	}
	if act := Next(limited, seen(func(s *Seen) { s.Container, s.Warned, s.Exit = Exited, at(1), Exit{} }), at(3)); act.Report.Stopped || act.Report.Reason != "" {
		t.Errorf("it ended in time: %+v", act.Report)
	}
}

// TestNextNeverOfWarnings goes through combinations of all inputs of warnings and of health, and
// checks for forbidden actions.
func TestNextNeverOfWarnings(t *testing.T) {
	times := []time.Time{{}, at(1), at(9), at(10)}
	n := 0
	for bits := range 1 << 10 {
		has := func(bit int) bool { return bits&(1<<bit) != 0 }
		d := warned(func(d *Desired) {
			if has(0) {
				d.Stop = &types.Stop{}
			}
			if has(1) && d.Stop != nil {
				d.Stop.Grace = 1
			}
			if has(2) {
				d.MaxRun = 15 * time.Second
			}
			if has(3) {
				d.SignalBy, d.KillBy = at(9), at(12)
			}
			if has(4) {
				d.Spec = nil
			}
			if has(5) && d.Spec != nil {
				d.Spec.Checks, d.Spec.Restart = []types.Check{{}}, &types.Restart{When: types.RestartAlways}
			}
		})
		for _, container := range []ContainerState{Absent, Starting, Running, Exited} {
			for _, cause := range []Cause{"", Stopped, Unhealthy} {
				for _, warned := range times {
					for _, signalled := range times[:3] {
						s := seen(func(s *Seen) {
							s.Container, s.Cause, s.Warned, s.Signalled, s.Since = container, cause, warned, signalled, at(1)
							s.Probing, s.Health.Ends = has(6), has(7)
							if has(8) {
								s.Health.State = types.Unhealthy
							}
							s.Refused = has(9)
						})
						if signalled.IsZero() == (cause == "") {
							n++
							if wrong := neverOfWarnings(&d, &s, Next(d, s, at(10))); wrong != "" {
								t.Fatalf("%s (%s): %s\n%+v\n%+v", Next(d, s, at(10)).Do, Next(d, s, at(10)).Reason, wrong, d, s)
							}
						}
					}
				}
			}
		}
	}
	if n < 10_000 {
		t.Errorf("%d combinations", n)
	}
}

func neverOfWarnings(d *Desired, s *Seen, act Action) string {
	switch {
	case act.Do == Wait && !act.Until.IsZero() && !act.Until.After(at(10)):
		return "it is that late already"
	case act.Do == Wait && act.Until.IsZero() && s.Container == Running && d.Stop != nil:
		return "its stop is forgotten"
	case act.Do == Warn && (s.Container != Running || !s.Warned.IsZero() || s.Cause != "" || d.fencing()):
		return "it was warned, or there is no time for it"
	case act.Do == Probe && (s.Container != Running || s.Probing || s.Cause != ""):
		return "it is not to be looked at"
	case act.Do == Signal && act.Cause == Stopped && s.Cause == "" && !urgent(d) && !d.fencing() && d.Spec != nil && s.Warned.IsZero():
		return "it was not warned"
	case act.Do == Signal && s.Cause != "" && s.Cause != Unhealthy && !s.Signalled.IsZero():
		return "it has its signal"
	case act.Do == Send && act.Report.Restarts > s.Restart && (d.Stop != nil || s.Cause == Stopped):
		return "it is not to run again"
	}
	return ""
}
