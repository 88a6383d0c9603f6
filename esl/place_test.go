package esl_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// site is a cluster in memory for the tests of placement.
type site struct {
	*testing.T
	c    *hollow.Cluster
	jobs *esl.Client
}

// onSite runs a test on a cluster of these nodes, in a bubble of time; in the end every
// invariant must have held.
func onSite(t *testing.T, nodes []hollow.Node, test func(s *site)) {
	t.Helper()
	onSiteWith(t, hollow.Config{Nodes: nodes}, test)
}

func onSiteWith(t *testing.T, cfg hollow.Config, test func(s *site)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c, err := hollow.Start(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		jobs, err := c.Client("d")
		if err != nil {
			t.Fatal(err)
		}
		test(&site{T: t, c: c, jobs: jobs})
		if err := c.Audit(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// run submits a job.
func (s *site) run(name string, tasks []controlplane.Submission, policies ...esl.Policy) controlplane.Launched {
	s.Helper()
	job, err := s.jobs.Submit(s.Context(), esl.Job{Name: name, Tasks: tasks}, policies...)
	s.must(err)
	return job
}

// pass lets time pass.
func (s *site) pass(d time.Duration) { time.Sleep(d) }

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// view is the cluster when nothing happens any more for a while.
func (s *site) view() *cluster.View {
	s.Helper()
	time.Sleep(2 * time.Second)
	v, err := s.c.View(s.Context())
	s.must(err)
	return v
}

// on says how many tasks of jobs run where: "n00 2, n01 1".
func (s *site) on(in esl.Domain, jobs ...controlplane.Launched) string {
	s.Helper()
	return spots(s.view(), in, jobs...)
}

// await waits until the tasks of jobs run as on says, or in one of several ways: "a | b".
func (s *site) await(in esl.Domain, want string, jobs ...controlplane.Launched) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 2*time.Minute)
	defer cancel()
	if _, err := s.c.Await(ctx, func(v *cluster.View) bool { return slices.Contains(strings.Split(want, " | "), spots(v, in, jobs...)) }); err != nil {
		is := ""
		if v, err := s.c.View(s.Context()); err == nil {
			is = spots(v, in, jobs...)
			for _, id := range jobs[0].Tasks {
				s.Log(id, s.why(id))
			}
		}
		s.Fatalf("they run on %q, want %q: %v", is, want, err)
	}
}

func spots(v *cluster.View, in esl.Domain, jobs ...controlplane.Launched) string {
	count := make(map[string]int)
	running := hollow.Running(v, "d")
	for _, job := range jobs {
		for _, id := range job.Tasks {
			if node, ok := running[id]; ok {
				if in != esl.Node {
					node = v.Nodes[node].Info.V.Label(string(in))
				}
				count[node]++
			}
		}
	}
	var out []string
	for _, at := range slices.Sorted(maps.Keys(count)) {
		out = append(out, fmt.Sprintf("%s %d", at, count[at]))
	}
	return strings.Join(out, ", ")
}

// node is where a task runs.
func (s *site) node(id string) string {
	s.Helper()
	return hollow.Running(s.view(), "d")[id]
}

// waiting returns the tasks of a job that do not run, after a while.
func (s *site) waiting(job controlplane.Launched) []string {
	s.Helper()
	running := s.running(job)
	return slices.DeleteFunc(slices.Clone(job.Tasks), func(id string) bool { return running[id] != "" })
}

// why is what a task waits for on account of its policies.
func (s *site) why(id string) string {
	s.Helper()
	v, err := s.c.View(s.Context())
	s.must(err)
	return strings.Join(esl.Why(v, esl.Builtin(), cluster.ID{Namespace: "d", ID: id}, time.Now()), "; ")
}

// says checks that a task is said to wait for something.
func (s *site) says(id, want string) {
	s.Helper()
	s.view()
	if got := s.why(id); !strings.Contains(got, want) {
		s.Errorf("why %s: %q, want %q in it", id, got, want)
	}
}

// stop ends tasks and waits for that.
func (s *site) stop(ids ...string) {
	s.Helper()
	for _, id := range ids {
		s.must(s.jobs.Stop(s.Context(), id, controlplane.StopOptions{Reason: "test", Grace: controlplane.NoGrace}))
	}
	_, err := s.jobs.Wait(s.Context(), controlplane.UntilEnded, ids...)
	s.must(err)
}

// forgotten waits until no policies are kept but one.
func (s *site) forgotten(but string) {
	s.Helper()
	_, err := s.c.Await(s.Context(), func(v *cluster.View) bool {
		return len(v.Policies) == 1 && v.Policies[cluster.ID{Namespace: "d", ID: but}] != nil
	})
	s.must(err)
}

// nothingLeft stops everything and checks that nothing is left.
func (s *site) nothingLeft(jobs ...controlplane.Launched) {
	s.Helper()
	for _, job := range jobs {
		s.stop(job.Tasks...)
	}
	time.Sleep(10 * time.Second)
	left, err := s.c.Left(s.Context(), "d")
	s.must(err)
	if len(left) > 0 {
		s.Errorf("left: %q", left)
	}
}

// exampleSite is a cluster in memory for examples.
func exampleSite(nodes []hollow.Node, example func(ctx context.Context, c *hollow.Cluster, jobs *esl.Client) error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := hollow.Start(ctx, hollow.Config{Nodes: nodes})
	if err != nil {
		fmt.Println(err)
		return
	}
	jobs, err := c.Client("d")
	if err == nil {
		err = example(ctx, c, jobs)
	}
	if err := errors.Join(err, c.Close()); err != nil {
		fmt.Println(err)
	}
}

// exampleRun submits a job, waits until its tasks run, and returns how many run where.
func exampleRun(ctx context.Context, c *hollow.Cluster, jobs *esl.Client, in esl.Domain, job esl.Job, policies ...esl.Policy) (string, error) {
	launched, err := jobs.Submit(ctx, job, policies...)
	if err != nil {
		return "", err
	}
	v, err := c.Await(ctx, func(v *cluster.View) bool {
		running := hollow.Running(v, "d")
		return !slices.ContainsFunc(launched.Tasks, func(id string) bool { return running[id] == "" })
	})
	if err != nil {
		return "", err
	}
	return spots(v, in, launched), nil
}

// TestPlacementRefuses submits what can never be met.
func TestPlacementRefuses(t *testing.T) {
	onSite(t, hollow.Nodes(1, 1), func(s *site) {
		for _, test := range []struct {
			policies []esl.Policy
			want     string
		}{
			{[]esl.Policy{esl.Apart{PerNode: -1}}, "perNode: -1 is negative"},
			{[]esl.Policy{esl.Apart{In: "cell"}}, `in: "cell" is unknown`},
			{[]esl.Policy{esl.Spread{Over: "cell", MaxSkew: 1}}, `over: "cell" is unknown`},
			{[]esl.Policy{esl.Spread{MaxSkew: -2}}, "maxSkew: -2 is negative"},
			{[]esl.Policy{esl.Balance{Nodes: -1}}, "nodes: -1 is negative"},
			{[]esl.Policy{esl.Colocate{In: "cell"}}, `in: "cell" is unknown`},
			{[]esl.Policy{esl.Colocate{With: "a b"}}, "with: "},
			{[]esl.Policy{esl.Colocate{OnLoss: "weep"}}, `onLoss: "weep" is unknown`},
			{[]esl.Policy{esl.Colocate{}, esl.Apart{}}, "exclude each other"},
			{[]esl.Policy{esl.Pack{}, esl.Spread{}}, "exclude each other"},
			{[]esl.Policy{esl.Balance{}, esl.Pack{}}, "exclude each other"},
			{[]esl.Policy{esl.Prefer{}}, "of: is empty"},
			{[]esl.Policy{esl.Prefer{Of: make([]esl.Choice, 17)}}, "of: has 17 places"},
			{[]esl.Policy{esl.Prefer{Of: []esl.Choice{{Node: "a b"}}}}, "of[0]"},
			{[]esl.Policy{esl.Prefer{Of: []esl.Choice{{Rack: "a", After: 2}, {Rack: "b", After: 1}}}}, "of[1].after"},
			{[]esl.Policy{esl.Prefer{Of: slices.Repeat([]esl.Choice{{Rack: "a"}}, 5)}, esl.Prefer{Of: slices.Repeat([]esl.Choice{{Rack: "b"}}, 4)}}, "are 20: at most 16"},
			{[]esl.Policy{esl.Near{}}, "to: "},
			{[]esl.Policy{esl.Near{To: "gpu"}}, "to: "},
			{[]esl.Policy{esl.Near{To: "x", Cache: true}}, "wait is not given"},
			{[]esl.Policy{esl.Near{To: "x", Copies: 2}}, "cache is not set"},
			{[]esl.Policy{esl.Objective{}}, `by: "" is unknown`},
			{[]esl.Policy{esl.Objective{By: esl.Load, Weights: map[string]float64{"x": 1}}}, "weights.x"},
			{[]esl.Policy{esl.Packed{In: "none"}}, "none"},
		} {
			_, err := s.jobs.Submit(s.Context(), esl.Job{Name: "x", Tasks: esl.Copies(2, hollow.Task(100))}, test.policies...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%+v: %v, want %q", test.policies, err, test.want)
			}
			if class := types.ClassOf(err); class != types.Invalid && class != types.Precondition {
				t.Errorf("%+v: class %v", test.policies, class)
			}
		}
	})
}
