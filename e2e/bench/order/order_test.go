package order

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/types"
)

// begins returns when each job begins and ends, as text.
func begins(spans []span) string {
	var all []string
	for _, s := range spans {
		all = append(all, fmt.Sprintf("%.0f-%.0f", s.Begin, s.End))
	}
	return strings.Join(all, " ")
}

func disciplineOf(t *testing.T, name string) discipline {
	all := disciplines()
	i := slices.IndexFunc(all, func(d discipline) bool { return d.name == name })
	if i < 0 {
		t.Fatalf("there is no discipline %s", name)
	}
	return all[i]
}

// TestDisciplines is about small cases on two nodes of eight devices.
func TestDisciplines(t *testing.T) {
	gang := load{nodes: 2, jobs: []job{{At: 0, Runs: 100, GPUs: 8}, {At: 1, Runs: 50, GPUs: 16}, {At: 2, Runs: 300, GPUs: 8}, {At: 3, Runs: 10, GPUs: 8}}}
	parts := load{nodes: 1, jobs: []job{{At: 0, Runs: 100, GPUs: 6}, {At: 0, Runs: 100, GPUs: 4}, {At: 0, Runs: 10, GPUs: 2}}}
	// When the second job has ended, half of each node is free.
	halves := load{nodes: 2, jobs: []job{{At: 0, Runs: 100, GPUs: 4}, {At: 0, Runs: 10, GPUs: 4}, {At: 0, Runs: 100, GPUs: 4}, {At: 11, Runs: 50, GPUs: 8}}}
	old := load{nodes: 1, jobs: []job{{At: 0, Runs: 9000, GPUs: 8}, {At: 3700, Runs: 100, GPUs: 8}}}
	for _, c := range []struct {
		discipline string
		load       load
		want       string
	}{
		{"fifo", gang, "0-100 100-150 150-450 150-160"},
		{base, gang, "0-100 302-352 2-302 100-110"},
		{"sjf", gang, "0-100 302-352 2-302 100-110"},
		// The gang gives way to the shortest, and the longest to the gang.
		{"srtf", gang, "0-150 1-61 61-361 3-13"},
		{"fifo", parts, "0-100 100-200 100-110"},
		{base, parts, "0-100 100-200 0-10"},
		{"srtf", parts, "0-100 100-200 0-10"},
		{"las", old, "0-9100 3700-3800"},
		{"las", halves, "0-100 0-10 0-100 100-150"},
		{"las-moving", halves, "0-100 0-10 0-100 11-61"},
		{"srtf", old, "0-9100 3700-3800"},
		{base, old, "0-9000 9000-9100"},
	} {
		if got := begins(simulate(c.load, disciplineOf(t, c.discipline))); got != c.want {
			t.Errorf("%s, %d nodes: %s, want %s", c.discipline, c.load.nodes, got, c.want)
		}
	}
}

// TestDisciplinesKeepTheirWord checks generated workloads: each job runs as long as it must, no more
// devices are in use than there are, and first in, first out, is just that.
func TestDisciplinesKeepTheirWord(t *testing.T) {
	for _, name := range names() {
		l, err := workloadOf(name, 8, 300, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range disciplines() {
			spans := simulate(l, d)
			last := 0.0
			for i, s := range spans {
				took, runs := s.End-s.Begin, l.jobs[i].Runs
				if s.Begin < l.jobs[i].At-slack || took < runs-slack || !d.preempts && took > runs+slack {
					t.Fatalf("%s/%s: job %d, submitted at %.0f for %.0f: %+v", name, d.name, i, l.jobs[i].At, runs, s)
				}
				if d.name == "fifo" && s.Begin < last {
					t.Errorf("%s/fifo: job %d began at %.0f, one before it at %.0f", name, i, s.Begin, last)
				}
				last = s.Begin
			}
			if used := figuresOf(l, spans)[utilization]; used > 100 {
				t.Errorf("%s/%s: %.1f %% of the devices are in use on average", name, d.name, used)
			}
			if most := mostUsed(l, spans); !d.preempts && most > l.nodes*devices {
				t.Errorf("%s/%s: %d devices in use", name, d.name, most)
			}
		}
	}
}

// mostUsed returns the most devices in use at once, of jobs that run from their begin to their end.
func mostUsed(l load, spans []span) (most int) {
	for _, at := range spans {
		used := 0
		for i, s := range spans {
			if s.Begin <= at.Begin && at.Begin < s.End-slack {
				used += l.jobs[i].GPUs
			}
		}
		most = max(most, used)
	}
	return most
}

// TestWorkloads checks that workloads are what they are said to be, and the same each time.
func TestWorkloads(t *testing.T) {
	for _, m := range mixes() {
		l, err := workloadOf(m.name, 16, 4000, 3)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := workloadOf(m.name, 16, 4000, 3)
		if !reflect.DeepEqual(l.jobs, again.jobs) {
			t.Errorf("%s is another one the second time", m.name)
		}
		n, work := 0, 0.0
		for _, j := range l.jobs {
			if len(j.tasks()) > 1 {
				n++
			}
			if j.GPUs > 4*devices || j.Runs < shortest || j.Runs > longest {
				t.Errorf("%s has %+v", m.name, j)
			}
			work += float64(j.GPUs) * j.Runs
		}
		if share := float64(n) / float64(len(l.jobs)); math.Abs(share-m.gangs) > 0.03 {
			t.Errorf("%s has %.2f gangs, want %.2f", m.name, share, m.gangs)
		}
		if got := work / (16 * devices * l.jobs[len(l.jobs)-1].At); math.Abs(got-m.load) > 0.05*m.load {
			t.Errorf("%s asks for %.2f of the nodes, want %.2f", m.name, got, m.load)
		}
	}
	if _, err := workloadOf("none", 4, 10, 1); !types.Is(err, types.Invalid) {
		t.Errorf("an unknown workload: %v", err)
	}
	l, err := workloadOf(philly, 8, 200, 1)
	if err != nil || len(l.jobs) != 200 || slices.ContainsFunc(l.jobs, func(j job) bool { return j.GPUs > 32 }) {
		t.Errorf("philly: %d jobs, %v", len(l.jobs), err)
	}
}

func TestFigures(t *testing.T) {
	l := load{nodes: 1, jobs: []job{{At: 0, Runs: 10, GPUs: 8, Tenant: "a"}, {At: 10, Runs: 20, GPUs: 16, Tenant: "b"}, {At: 20, Runs: 5, GPUs: 1}}}
	got := figuresOf(l, []span{{Begin: 0, End: 10, Early: 10}, {Begin: 14, End: 34, Early: 6}, {}})
	for name, want := range map[string]float64{
		meanWait: 2, medianWait: 0, longestWait: 4, gangWait: 4, singleWait: 0, completion: 17, makespan: 34, tenantMost: 4, notEnded: 1,
		utilization: 100 * (80 + 16*6) / (8. * 20),
	} {
		if math.Abs(got[name]-want) > 1e-9 {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

// TestSummary is about the figures of two draws: means, but for the longest wait and what has not ended.
func TestSummary(t *testing.T) {
	got := summaryOf([]rig.Figures{{meanWait: 1, longestWait: 5, notEnded: 0}, {meanWait: 3, longestWait: 2, notEnded: 1}})
	for name, want := range map[string]float64{meanWait: 2, longestWait: 5, notEnded: 1} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

// beginsOf runs jobs on a cluster and returns when each began, in seconds. A job at the end keeps the run
// going.
func beginsOf(t *testing.T, nodes int, p policy, end float64, jobs ...job) (all []float64) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		spans, err := run(t.Context(), load{nodes: nodes, jobs: append(jobs, job{At: end, Runs: shortest, GPUs: 1, Tenant: "last"})}, p)
		if err != nil {
			t.Fatal(err)
		}
		for i := range jobs {
			all = append(all, spans[i].Begin)
		}
	})
	return all
}

// TestTwoGangsInAFairQueue lets two gangs of different flows begin that exceed its limit together.
func TestTwoGangsInAFairQueue(t *testing.T) {
	fair := policy{name: "fair", shared: func(load) esl.Shared { return admission.FairQueue{Limit: 150, Anyone: 1} },
		of: func(j job) []esl.Policy { return []esl.Policy{esl.Use{Name: line, As: j.Tenant}} }}
	got := beginsOf(t, 200, fair, 1300, job{At: 0, Runs: 600, GPUs: 64 * devices, Tenant: "a"}, job{At: 1, Runs: 600, GPUs: 128 * devices, Tenant: "b"})
	if got[0] > 30 || got[1] < 600 || got[1] > 660 {
		t.Errorf("they begin after %.0f and %.0f seconds, want at once, and when the first has ended", got[0], got[1])
	}
}

// TestEveryPolicyEnds runs a small workload under every policy: all jobs end, each after its length, and
// every revision is sound.
func TestEveryPolicyEnds(t *testing.T) {
	l, err := workloadOf(gangs, 4, 40, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range policies() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				spans, err := run(t.Context(), l, p)
				if err != nil {
					t.Fatal(err)
				}
				for i, s := range spans {
					if s.Refused {
						continue
					}
					if s.Begin < l.jobs[i].At-slack || s.End-s.Begin < l.jobs[i].Runs-slack {
						t.Errorf("job %d, submitted at %.0f for %.0f: %+v", i, l.jobs[i].At, l.jobs[i].Runs, s)
					}
				}
				if most := mostUsed(l, spans); !p.evicts && most > l.nodes*devices {
					t.Errorf("%d devices in use", most)
				}
			})
		})
	}
}
