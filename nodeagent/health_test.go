package nodeagent

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/types"
)

// TestStanding has the result of each probe, g(ood), b(ad) or u(nknown), and the state after it,
// s(tarting), h(ealthy) or u(nhealthy). Probes are 10 s apart, from 10 s on.
func TestStanding(t *testing.T) {
	for name, c := range map[string]struct {
		check        types.Check
		probes, want string
	}{
		"healthy at once":                        {types.Check{}, "g", "h"},
		"three failures":                         {types.Check{}, "bbb", "ssu"},
		"failures in a row":                      {types.Check{}, "bbgbbgbbb", "sshhhhhhu"},
		"one failure":                            {types.Check{Failures: 1}, "gbgb", "huhu"},
		"and back":                               {types.Check{}, "bbbgb", "ssuhh"},
		"stays unhealthy":                        {types.Check{}, "bbbbbb", "ssuuuu"},
		"two successes":                          {types.Check{Successes: 2}, "gbgg", "sssh"},
		"two successes to come back":             {types.Check{Successes: 2, Failures: 1}, "gggbgbgg", "shhuuuuh"},
		"unknown is nothing":                     {types.Check{}, "uuububub", "sssssssu"},
		"unknown does not break a row":           {types.Check{}, "bubub", "ssssu"},
		"may fail for a while":                   {types.Check{StartPeriod: 35 * time.Second}, "bbbbbb", "sssssu"},
		"the last moment of that":                {types.Check{StartPeriod: 30 * time.Second}, "bbbbb", "ssssu"},
		"ends with the first success":            {types.Check{StartPeriod: time.Hour}, "bbbbgbbb", "sssshhhu"},
		"a success too few does not end it":      {types.Check{StartPeriod: 45 * time.Second, Successes: 2}, "bgbbbbb", "ssssssu"},
		"an unknown one may be the first of all": {types.Check{}, "ug", "sh"},
	} {
		t.Run(name, func(t *testing.T) {
			check, st, got := c.check.WithDefaults(), standing{state: types.HealthStarting}, ""
			for i, p := range c.probes {
				st = st.next(&check, outcome{good: p == 'g', unknown: p == 'u', text: "probe " + string(rune('0'+i))}, time.Duration(i+1)*10*time.Second)
				got += string(st.state[0])
				if st.state == types.Unhealthy && p == 'b' && st.reason != "probe "+string(rune('0'+i)) || st.state == types.Healthy && st.reason != "" {
					t.Errorf("after %d probes: %+v", i+1, st)
				}
			}
			if got != c.want {
				t.Errorf("%s: %s, want %s", c.probes, got, c.want)
			}
		})
	}
}

func TestProbeAt(t *testing.T) {
	check := types.Check{Every: 10 * time.Second, StartPeriod: 20 * time.Second}
	starting, healthy := standing{state: types.HealthStarting}, standing{state: types.Healthy}
	for _, c := range []struct {
		st         standing
		last, want float64 // 0 means never
	}{
		{starting, 0, 1}, {starting, 1, 2}, {starting, 19.5, 20.5}, {starting, 20.5, 30.5}, {healthy, 1, 11}, {healthy, 30, 40},
	} {
		last := time.Time{}
		if c.last != 0 {
			last = at(c.last)
		}
		if got := c.st.probeAt(&check, at(0), last); !got.Equal(at(c.want)) {
			t.Errorf("%s after %v: %s, want %s", c.st.state, c.last, got, at(c.want))
		}
	}
	if got := starting.probeAt(&types.Check{Every: time.Millisecond}, at(0), time.Time{}); !got.Equal(at(0.001)) {
		t.Error("sooner than it is made:", got)
	}
}

func TestHealthOf(t *testing.T) {
	checks := []types.Check{{Name: "a"}, {Name: "b", Then: types.ThenRestart}, {Name: "c", Then: types.ThenRestart}}
	good, fresh := standing{state: types.Healthy}, standing{state: types.HealthStarting}
	bad := func(why string) standing { return standing{state: types.Unhealthy, reason: why} }
	told := Health{State: types.Unhealthy, Reason: "check a: before"}
	for name, c := range map[string]struct {
		all  []standing
		told Health
		want Health
	}{
		"all good":                {[]standing{good, good, good}, told, Health{State: types.Healthy}},
		"one is starting":         {[]standing{good, fresh, good}, Health{}, Health{State: types.HealthStarting}},
		"one is bad":              {[]standing{bad("x"), fresh, good}, told, Health{types.Unhealthy, "check a: x", false}},
		"the first bad one":       {[]standing{good, bad("x"), bad("y")}, told, Health{types.Unhealthy, "check b: x", true}},
		"what it is ended for":    {[]standing{bad("x"), good, bad("y")}, told, Health{types.Unhealthy, "check c: y", true}},
		"as was told":             {[]standing{fresh, good, good}, told, told},
		"not known yet after all": {[]standing{fresh, fresh, fresh}, Health{State: types.Healthy}, Health{State: types.Healthy}},
	} {
		if got := healthOf(checks, c.all, c.told); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// checked has two checks, one of which ends the process. restarted also restarts it.
func checked(edit func(*Desired)) Desired {
	d := Desired{Bound: true, Revision: 7, Spec: &types.Spec{Grace: 3 * time.Second, Checks: []types.Check{{Name: "a"}, {Name: "b", Then: types.ThenRestart}}}}
	edit(&d)
	return d
}

// well is a process whose health is as reported, at(0), changed by edit.
func well(state types.Health, edit func(*Seen)) Seen {
	return seen(func(s *Seen) {
		s.Probing, s.Health.State, s.Reported.Health, s.HealthAt = true, state, state, at(0)
		edit(s)
	})
}

func runNext(t *testing.T, cases []nextCase) {
	t.Helper()
	for _, c := range cases {
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

func TestNextOfHealth(t *testing.T) {
	plain := checked(func(*Desired) {})
	again, stop := checked(restarting), checked(func(d *Desired) { restarting(d); d.Stop = &types.Stop{Reason: "enough"} })
	fenced := checked(func(d *Desired) { d.SignalBy, d.KillBy = at(5), at(8) })
	ends := Health{State: types.Unhealthy, Reason: "check b: x", Ends: true}
	bad := Health{State: types.Unhealthy, Reason: "check a: x"}
	ill := func(s *Seen) { s.Health = ends }
	ending := func(s *Seen) { s.Health, s.Cause, s.Signalled = ends, Unhealthy, at(2) }
	runNext(t, []nextCase{
		{"not looked at yet", plain, well(types.HealthStarting, func(s *Seen) { s.Probing = false }), 1, Probe, 0, "checks"},
		{"nothing to look at", newWanted().bound, seen(func(*Seen) {}), 1, Wait, 0, ""},
		{"spec not known", Desired{Bound: true}, well(types.Healthy, func(s *Seen) { s.Probing, s.Health = false, Health{} }), 1, Fetch, 0, ""},
		{"started by an earlier agent that did not tell", Desired{Bound: true}, seen(func(s *Seen) { s.Reported = types.Report{} }), 1, Fetch, 0, "checks"},
		{"and the spec cannot be read", Desired{Bound: true}, seen(func(s *Seen) { s.Reported, s.RetryAt = types.Report{}, at(3) }), 1, Wait, 3, ""},
		{"and the session cannot be renewed", Desired{Bound: true, SignalBy: at(5), KillBy: at(8)}, seen(func(s *Seen) { s.Reported = types.Report{} }), 1, Wait, 5, ""},
		{"and the spec is known", plain, seen(func(s *Seen) { s.Reported = types.Report{} }), 1, Send, 0, "runs"},
		{"as it was", plain, well(types.Healthy, func(*Seen) {}), 1, Wait, 0, ""},
		{"healthy at first", plain, well(types.HealthStarting, func(s *Seen) { s.Health.State, s.HealthAt = types.Healthy, time.Time{} }), 1, Send, 0, "health"},
		{"healthy after a restart", plain, well(types.HealthStarting, func(s *Seen) { s.Health.State = types.Healthy }), 1, Send, 0, "health"},
		{"unhealthy soon after", plain, well(types.Healthy, func(s *Seen) { s.Health = bad }), 29, Wait, 30, ""},
		{"unhealthy", plain, well(types.Healthy, func(s *Seen) { s.Health = bad }), 30, Send, 0, "health"},
		{"unhealthy, and another agent said it was not", plain, well(types.Healthy, func(s *Seen) { s.Health, s.HealthAt = bad, time.Time{} }), 1, Send, 0, ""},
		{"unhealthy for another reason", plain, well(types.Unhealthy, func(s *Seen) { s.Health = bad }), 90, Wait, 0, ""},
		{"being told", plain, well(types.Healthy, func(s *Seen) {
			s.Health, s.Sending = bad, &types.Report{Phase: types.ReportRunning, Health: types.Unhealthy}
		}), 90, Wait, 0, ""},
		{"no health to report", plain, well(types.Healthy, func(s *Seen) { s.Health, s.Refused = bad, true }), 90, Wait, 0, ""},
		{"nothing is known of it, and it was told", plain, well(types.Healthy, func(s *Seen) { s.Health = Health{} }), 90, Wait, 0, ""},
		{"to be ended", plain, well(types.Healthy, ill), 1, Signal, 0, "unhealthy: check b: x"},
		{"to be ended, and run again", again, well(types.Healthy, ill), 1, Signal, 0, "check b"},
		{"being ended", again, well(types.Healthy, ending), 3, Wait, 5, ""},
		{"does not end", again, well(types.Healthy, ending), 5, Kill, 0, ""},
		{"being ended, and stopped", stop, well(types.Healthy, ending), 3, Signal, 0, "enough"},
		{"being ended, and cut off", fenced, well(types.Healthy, ending), 6, Signal, 0, "session"},
		{"begun by an earlier agent", again, well(types.Healthy, func(s *Seen) { s.Cause, s.Health.Reason = Unhealthy, "check b: x" }), 9, Signal, 0, "check b: x"},
		{"ended, spec not known", Desired{Bound: true}, well(types.Healthy, func(s *Seen) { ending(s); s.Container = Exited }), 9, Fetch, 0, ""},
		{"ended, end reported, by an earlier agent", again, well(types.Healthy, func(s *Seen) {
			ending(s)
			s.Container, s.Reported.Restarts, s.Reported.Ended = Exited, 1, at(3).UnixNano()
		}), 9, Remove, 0, "run again"},
		{"and removed", again, Seen{Container: Absent, Cause: Unhealthy, Reported: types.Report{Phase: types.ReportRunning, Restarts: 1, Ended: at(3).UnixNano(), Delay: 1}}, 9, Start, 0, ""},
	})
}

// TestReportsOfHealth tests the reports of health.
func TestReportsOfHealth(t *testing.T) {
	ends := Health{State: types.Unhealthy, Reason: "check b: x", Ends: true}
	plain, again := checked(func(*Desired) {}), checked(restarting)
	stopped := func(d Desired) Desired { d.Stop = &types.Stop{}; return d }
	exited := func(edit func(*Seen)) Seen {
		return well(types.Healthy, func(s *Seen) {
			s.Container, s.Health, s.Cause, s.Exit = Exited, ends, Unhealthy, Exit{At: at(4)}
			edit(s)
		})
	}
	for name, c := range map[string]struct {
		d    Desired
		s    Seen
		want types.Report
	}{
		"starts": {plain, seen(func(s *Seen) { s.Reported = types.Report{} }), types.Report{Phase: types.ReportRunning, Started: at(0).UnixNano(), Health: types.HealthStarting}},
		"unhealthy": {plain, well(types.HealthStarting, func(s *Seen) { s.Health = Health{State: types.Unhealthy, Reason: "check a: x"} }), types.Report{
			Phase: types.ReportRunning, Started: at(0).UnixNano(), Health: types.Unhealthy, Reason: "check a: x",
		}},
		"ended, with code 0": {plain, exited(func(*Seen) {}), types.Report{Phase: types.ReportExited, Started: at(0).UnixNano(), Ended: at(4).UnixNano(), Reason: "unhealthy: check b: x"}},
		"run again": {again, exited(func(*Seen) {}), types.Report{
			Phase: types.ReportRunning, Started: at(0).UnixNano(), Ended: at(4).UnixNano(), Restarts: 1, Delay: 2 * time.Second,
			Reason: "unhealthy: check b: x: restarts in 2s (1 of 2)", Health: types.HealthStarting,
		}},
		"too often": {again, exited(func(s *Seen) { s.Restart, s.Reported.Restarts = 2, 2 }), types.Report{
			Phase: types.ReportExited, Started: at(0).UnixNano(), Ended: at(4).UnixNano(), Reason: "unhealthy: check b: x, after 2 restarts", Restarts: 2,
		}},
		"ended, and stopped":     {stopped(again), exited(func(*Seen) {}), types.Report{Phase: types.ReportExited, Started: at(0).UnixNano(), Ended: at(4).UnixNano(), Stopped: true, Reason: "unhealthy: check b: x"}},
		"ended before it was":    {again, exited(func(s *Seen) { s.Cause = "" }), types.Report{Phase: types.ReportExited, Started: at(0).UnixNano(), Ended: at(4).UnixNano()}},
		"an image known by now":  {plain, well(types.Healthy, func(s *Seen) { s.Image, s.Health = "i@sha256:1", Health{} }), types.Report{Phase: types.ReportRunning, Started: at(0).UnixNano(), Image: "i@sha256:1", Health: types.Healthy}},
		"ended, and fenced then": {again, exited(func(s *Seen) { s.Cause = Fenced }), types.Report{Phase: types.ReportExited, Started: at(0).UnixNano(), Ended: at(4).UnixNano(), Fenced: true, Reason: "the node could not renew its session in time", Cause: types.CauseFenced}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.want.Binding = 7; c.want.Delay != 0 {
				c.d.Spec.Restart.Delay = c.want.Delay
			}
			act := Next(c.d, c.s, at(5))
			if act.Do != Send || string(types.Encode(0, act.Report)) != string(types.Encode(0, &c.want)) {
				t.Errorf("%s %+v, want %+v", act.Do, act.Report, c.want)
			}
		})
	}
}

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		" a\nb\r\n\tc ":                "a b c",
		"\x1b[2Jgone\x00\xff":          "[2Jgone",
		strings.Repeat("ä", 200):       strings.Repeat("ä", 100),
		"a" + strings.Repeat("ä", 200): "a" + strings.Repeat("ä", 99),
	} {
		if got := oneLine(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// TestMarks tests that marks are read as written, by this and by earlier agents.
func TestMarks(t *testing.T) {
	m := newMarks(t.TempDir())
	for _, want := range []mark{{cause: Stopped}, {warned: at(3)}, {cause: Unhealthy, reason: "check a: b"}, {}} {
		if err := m.write("id", want); err != nil {
			t.Fatal(err)
		}
		if got := m.get("id"); got.cause != want.cause || !got.warned.Equal(want.warned) || got.reason != want.reason {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	for text, want := range map[string]Cause{"fenced": Fenced, "nonsense": "", "\nx\ny": ""} {
		if err := os.WriteFile(m.dir+"/id", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := m.get("id"); got != (mark{cause: want}) {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
