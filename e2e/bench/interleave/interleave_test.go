package interleave

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/e2e/bench/rigtest"
)

// TestDevice divides a phase evenly among the jobs in it, and keeps phases apart.
func TestDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all, begin := devices{}, time.Now()
		took := make(map[string]time.Duration)
		ends := make(chan string)
		for name, x := range map[string]struct {
			phase       string
			after, work time.Duration
		}{
			"long": {"compute", 0, 10 * time.Second}, "short": {"compute", 2 * time.Second, 3 * time.Second}, "other": {"data", 0, 5 * time.Second},
		} {
			go func() {
				time.Sleep(x.after)
				if all.of("d").work(t.Context(), x.phase, x.work) {
					ends <- name
				}
			}()
		}
		for range 3 {
			took[<-ends] = time.Since(begin)
		}
		for name, want := range map[string]time.Duration{"long": 13 * time.Second, "short": 8 * time.Second, "other": 5 * time.Second} {
			if took[name] != want {
				t.Errorf("%s ends after %s, want %s", name, took[name], want)
			}
		}
	})
}

// TestWorkloads checks that workloads are what they are said to be, and the same each time.
func TestWorkloads(t *testing.T) {
	for _, m := range mixes() {
		jobs, again := m.generate(16, 400, 3), m.generate(16, 400, 3)
		work := 0.0
		for i, j := range jobs {
			if j != again[i] {
				t.Fatalf("%s is another one the second time", m.name)
			}
			round := j.Phases[0] + j.Phases[1] + j.Phases[2]
			if min(j.Phases[0], j.Phases[1], j.Phases[2]) <= 0 || round < 240*time.Millisecond || round > 1010*time.Millisecond || j.alone() > longest+longest/50 {
				t.Errorf("%s has %+v", m.name, j)
			}
			work += j.alone().Seconds()
		}
		if got := work / (16 * jobs[len(jobs)-1].At.Seconds()); m.load > 0 && math.Abs(got-m.load) > 0.05*m.load {
			t.Errorf("%s asks for %.2f of the devices, want %.2f", m.name, got, m.load)
		}
	}
}

// TestFigures is about two jobs.
func TestFigures(t *testing.T) {
	third := time.Second / 2
	jobs := []job{{Phases: [3]time.Duration{third, third, third}, Iterations: 2}, {At: time.Second, Phases: [3]time.Duration{third, third, third}, Iterations: 4}}
	got := figuresOf(2, jobs, []span{{Begin: 0, End: 6 * time.Second, Shared: true}, {Begin: 3 * time.Second, End: 9 * time.Second}})
	for name, want := range map[string]float64{completion: 7, longestTook: 8, slowdown: 1.5, makespan: 9, sharing: 50, workDone: 50} {
		if math.Abs(got[name]-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

// TestEveryWayEnds runs a small workload in every way. All jobs end, none sooner than alone, and those
// that share a device by phase take less time in all than those with a device each.
func TestEveryWayEnds(t *testing.T) {
	jobs := mixes()[1].generate(perNode, 16, 1)
	var mean [2]float64
	for _, how := range ways() {
		t.Run(how.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				spans, err := run(t.Context(), 1, jobs, how)
				if err != nil {
					t.Fatal(err)
				}
				for i, s := range spans {
					if s.Begin < jobs[i].At || s.End-s.Begin < jobs[i].alone() || s.Shared && !how.interleaved {
						t.Errorf("job %d, submitted after %s for %s: %+v", i, jobs[i].At, jobs[i].alone(), s)
					}
				}
				found := figuresOf(perNode, jobs, spans)
				switch how.name {
				case exclusive:
					mean[0] = found[completion]
				case "interleave":
					mean[1] = found[completion]
				}
			})
		})
	}
	if mean[1] > 0.8*mean[0] {
		t.Errorf("completion takes %.0f s by phase, and %.0f s with a device each", mean[1], mean[0])
	}
}

// TestHold measures a few holds.
func TestHold(t *testing.T) {
	cfg := rigtest.Config(t)
	cfg.Tasks = 20
	for _, tasks := range []int{1, 2} {
		found, err := holds(t.Context(), cfg, tasks)
		if err != nil || found[holdTime] <= 0 {
			t.Errorf("%d tasks: %v, %v", tasks, found, err)
		}
	}
}
