package usage

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/types/measured"
)

// at is a time some seconds after the start of these tests.
func at(seconds float64) time.Time {
	return time.Unix(1_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

// counts is a sample of processor time and bytes written.
func counts(seconds, cpu float64, written int64) sample {
	return sample{at: at(seconds), stat: cgroup.Stat{
		CPU: &cgroup.CPU{Used: time.Duration(cpu * float64(time.Second))}, IO: &cgroup.IO{WriteBytes: written},
	}}
}

func startedAt(s sample, seconds float64) sample {
	s.started = at(seconds)
	return s
}

func TestRates(t *testing.T) {
	earlier := counts(10, 100, 1000)
	type rates struct{ Over, Milli, Written *float64 }
	known := func(over, milli, written float64) rates { return rates{&over, &milli, &written} }
	unknown := rates{Over: new(0.0)}
	for name, test := range map[string]struct {
		before *sample
		now    sample
		want   rates
	}{
		"between two samples":                       {&earlier, counts(15, 107.5, 6000), known(5, 1500, 1000)},
		"nothing happened":                          {&earlier, counts(15, 100, 1000), known(5, 0, 0)},
		"the first sample":                          {nil, counts(15, 100, 1000), unknown},
		"the first one, started lately":             {nil, startedAt(counts(15, 2, 100), 11), known(4, 500, 25)},
		"started long ago: the mean says nothing":   {nil, startedAt(counts(1000, 100, 100), 11), unknown},
		"run again in between":                      {&earlier, startedAt(counts(15, 101, 1400), 13), known(2, 50500, 700)},
		"counters began again, at an unknown time":  {&earlier, counts(15, 3, 1000), unknown},
		"those of the disk did":                     {&earlier, counts(15, 101, 0), unknown},
		"too soon to tell":                          {&earlier, counts(10.4, 100.4, 1000), unknown},
		"too long ago: the machine slept":           {&earlier, counts(1000, 101, 1000), unknown},
		"started after the sample, as clocks do":    {nil, startedAt(counts(15, 1, 1), 15.1), unknown},
		"started before, and sampled since already": {&earlier, startedAt(counts(15, 105, 1000), 3), known(5, 1000, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			u := use(test.before, test.now)
			if diff := cmp.Diff(test.want, rates{&u.OverSeconds, u.CPUMilli, u.IOWriteBytesPerSecond}); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// TestUnknownIsNotZero tests a kernel that counts only processes, and one that counted more before.
func TestUnknownIsNotZero(t *testing.T) {
	now := sample{at: at(5), stat: cgroup.Stat{Processes: new(int64(2))}}
	before := counts(0, 1, 1)
	want := measured.Use{At: at(5), OverSeconds: 5, Processes: new(int64(2))}
	if diff := cmp.Diff(want, use(&before, now)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	now.stat.Memory = &cgroup.Memory{WorkingSet: 5}
	if u := use(nil, now); u.MemoryLimitBytes != nil || u.MemoryPeakBytes != nil || *u.MemoryBytes != 5 || *u.OOMKills != 0 {
		t.Errorf("%+v, want memory without a limit", u)
	}
}

// TestRing tests a query every second, in addition to the samples of every five.
func TestRing(t *testing.T) {
	const every, keep = 5 * time.Second, time.Minute
	var r ring
	for second := range 300 {
		r = r.with(counts(float64(second), float64(second)/2, 0), every, keep)
		if n := len(r); n > 25 {
			t.Fatalf("%d samples at %d s, want no more than those of every few seconds", n, second)
		}
		if u := r.last(); second > 0 && (u.CPUMilli == nil || *u.CPUMilli != 500) {
			t.Fatalf("at %d s: %+v, want half a core", second, u)
		}
	}
	if oldest := r[0].at; at(299).Sub(oldest) > keep {
		t.Errorf("the oldest is of %s, want none older than %s", oldest, keep)
	}
	history := r.since(at(280))
	for _, u := range history {
		if !u.At.After(at(280)) || u.CPUMilli == nil || *u.CPUMilli != 500 {
			t.Errorf("%+v is in the history since %s", u, at(280))
		}
	}
	if len(history) == 0 || len(r.since(at(299))) != 0 {
		t.Errorf("%d samples since then, %d since now", len(history), len(r.since(at(299))))
	}
}
