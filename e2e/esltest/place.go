package esltest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
)

// Site is a cluster in memory for the tests of placement.
type Site struct {
	*testing.T
	C    *hollow.Cluster
	Jobs *esl.Client
}

// OnSite runs a test on a cluster of these nodes, in a synctest bubble; in the end every invariant
// must have held.
func OnSite(t *testing.T, nodes []hollow.Node, test func(s *Site)) {
	t.Helper()
	OnSiteWith(t, hollow.Config{Nodes: nodes}, test)
}

func OnSiteWith(t *testing.T, cfg hollow.Config, test func(s *Site)) {
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
		test(&Site{T: t, C: c, Jobs: jobs})
		if err := c.Audit(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// Run submits a job.
func (s *Site) Run(name string, tasks []controlplane.Submission, policies ...esl.Policy) controlplane.Launched {
	s.Helper()
	job, err := s.Jobs.Submit(s.Context(), controlplane.Job{Name: name, Tasks: tasks}, policies...)
	s.Must(err)
	return job
}

// Pass advances the time.
func (s *Site) Pass(d time.Duration) { time.Sleep(d) }

func (s *Site) Must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// Snapshot returns the cluster after a quiet period.
func (s *Site) Snapshot() *cluster.View {
	s.Helper()
	time.Sleep(2 * time.Second)
	v, err := s.C.View(s.Context())
	s.Must(err)
	return v
}

// On returns the number of running tasks of jobs by domain: "n00 2, n01 1".
func (s *Site) On(in esl.Domain, jobs ...controlplane.Launched) string {
	s.Helper()
	return Spots(s.Snapshot(), in, jobs...)
}

// Await waits until the tasks of jobs run as On returns, in one of several ways: "a
// b".
func (s *Site) Await(in esl.Domain, want string, jobs ...controlplane.Launched) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 2*time.Minute)
	defer cancel()
	if _, err := s.C.Await(ctx, func(v *cluster.View) bool { return slices.Contains(strings.Split(want, " | "), Spots(v, in, jobs...)) }); err != nil {
		is := ""
		if v, err := s.C.View(s.Context()); err == nil {
			is = Spots(v, in, jobs...)
			for _, id := range jobs[0].Tasks {
				s.Log(id, s.Why(id))
			}
		}
		s.Fatalf("they run on %q, want %q: %v", is, want, err)
	}
}

func Spots(v *cluster.View, in esl.Domain, jobs ...controlplane.Launched) string {
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

// Node is the node of a running task.
func (s *Site) Node(id string) string {
	s.Helper()
	return hollow.Running(s.Snapshot(), "d")[id]
}

// Waiting returns the tasks of a job that do not run, after a while.
func (s *Site) Waiting(job controlplane.Launched) []string {
	s.Helper()
	running := s.Running(job)
	return slices.DeleteFunc(slices.Clone(job.Tasks), func(id string) bool { return running[id] != "" })
}

// Why says what a task waits for because of its policies.
func (s *Site) Why(id string) string {
	s.Helper()
	v, err := s.C.View(s.Context())
	s.Must(err)
	return strings.Join(why.Summaries(esl.Why(v, builtin.Kinds(), cluster.ID{Namespace: "d", ID: id}, time.Now())), "; ")
}

// Says checks that the explanation of a task contains a text.
func (s *Site) Says(id, want string) {
	s.Helper()
	s.Snapshot()
	if got := s.Why(id); !strings.Contains(got, want) {
		s.Errorf("why %s: %q, want %q in it", id, got, want)
	}
}

// Stop ends tasks and waits for that.
func (s *Site) Stop(ids ...string) {
	s.Helper()
	for _, id := range ids {
		s.Must(s.Jobs.Stop(s.Context(), id, controlplane.StopOptions{Reason: "test", Grace: controlplane.NoGrace}))
	}
	_, err := s.Jobs.Wait(s.Context(), controlplane.UntilEnded, ids...)
	s.Must(err)
}

// Forgotten waits until only one policy is left.
func (s *Site) Forgotten(but string) {
	s.Helper()
	_, err := s.C.Await(s.Context(), func(v *cluster.View) bool {
		return len(v.Policies) == 1 && v.Policies[cluster.ID{Namespace: "d", ID: but}] != nil
	})
	s.Must(err)
}

// NothingLeft stops everything and checks that nothing is left.
func (s *Site) NothingLeft(jobs ...controlplane.Launched) {
	s.Helper()
	for _, job := range jobs {
		s.Stop(job.Tasks...)
	}
	time.Sleep(10 * time.Second)
	left, err := s.C.Left(s.Context(), "d")
	s.Must(err)
	if len(left) > 0 {
		s.Errorf("left: %q", left)
	}
}
