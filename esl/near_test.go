package esl_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// TestNear: the data comes later, has several replicas, and one of them is lost.
func TestNear(t *testing.T) {
	onSite(t, hollow.Nodes(4, 4), func(s *site) {
		job := s.run("read", esl.Copies(4, hollow.Task(1000)), esl.Near{To: "words"})
		s.says(job.Tasks[0], "near: it is to be near words, which is nowhere yet: it waits for room there")
		s.must(esl.Replicate(s.Context(), s.jobs.Client, "words", "n01", "n02"))
		s.await(esl.Node, "n01 2, n02 2", job)
		s.must(s.c.Kill(s.Context(), "n01"))
		s.await(esl.Node, "n02 4", job)
		// It comes back without the copy that it had.
		s.must(s.c.Return("n01"))
		s.view()
		more := s.run("more", esl.Copies(1, hollow.Task(1000)), esl.Near{To: "words"})
		s.says(more.Tasks[0], "words, which is on n02")
		s.must(esl.Invalidate(s.Context(), s.jobs.Client, "words"))
		s.stop(job.Tasks...)
		s.says(more.Tasks[0], "which is nowhere yet")
		s.must(esl.Replicate(s.Context(), s.jobs.Client, "words", "n03"))
		s.await(esl.Node, "n03 1", more)
		s.stop(more.Tasks...)
		_, err := s.jobs.SetResource(s.Context(), "words", 0, controlplane.OnEvery(), controlplane.SetOptions{})
		s.must(err)
		s.nothingLeft()
	})
}

// TestNearWaits: for a while, then anywhere; there a copy is made, of so many at most.
func TestNearWaits(t *testing.T) {
	onSite(t, hollow.Nodes(4, 2), func(s *site) {
		s.must(esl.Replicate(s.Context(), s.jobs.Client, "words", "n01"))
		p := esl.Near{To: "words", Wait: manifest.Wait(5 * time.Second), Cache: true, Copies: 2}
		job := s.run("read", esl.Copies(4, hollow.Task(1000)), p)
		s.await(esl.Node, "n01 2", job)
		if got := s.why(s.waiting(job)[0]); !strings.Contains(got, "words, which is on n01: it goes anywhere in 3s") {
			t.Errorf("it waits: %q", got)
		}
		s.pass(4 * time.Second)
		if got := len(s.running(job)); got != 4 {
			t.Fatalf("%d run, want 4", got)
		}
		if n := s.openNodes("d:words"); n != 2 {
			t.Errorf("there are %d copies, want 2", n)
		}
		// What was bound before makes no copy of what comes after it.
		s.must(esl.Invalidate(s.Context(), s.jobs.Client, "words"))
		if n := s.openNodes("d:words"); n != 0 {
			t.Errorf("there are %d copies of what was invalidated", n)
		}
		s.stop(job.Tasks...)
		after := s.run("after", esl.Copies(1, hollow.Task(1000)), p)
		s.pass(6 * time.Second)
		if n := s.openNodes("d:words"); n != 1 || s.node(after.Tasks[0]) == "" {
			t.Errorf("there are %d copies, want 1: %s", n, s.why(after.Tasks[0]))
		}
		s.stop(after.Tasks...)
		_, err := s.jobs.SetResource(s.Context(), "words", 0, controlplane.OnEvery(), controlplane.SetOptions{})
		s.must(err)
		s.nothingLeft()
	})
}

func (s *site) running(job controlplane.Launched) map[string]string {
	s.Helper()
	all, out := hollow.Running(s.view(), "d"), make(map[string]string)
	for _, id := range job.Tasks {
		if all[id] != "" {
			out[id] = all[id]
		}
	}
	return out
}

// TestNearProduced: a task that succeeds leaves the data; each reader has its own.
func TestNearProduced(t *testing.T) {
	onSite(t, hollow.Racks(hollow.Nodes(4, 4), 2), func(s *site) {
		far := esl.Near{To: "part", Each: true, In: esl.Rack, Wait: manifest.Wait(time.Hour)}
		readers := s.run("read", esl.Copies(2, hollow.Task(1000)), esl.Near{To: "part", Each: true})
		racks := s.run("rack", esl.Copies(2, hollow.Task(1000)), far)
		for i, node := range []string{"n03", "n00"} {
			x := taskOn(node, 1000, "run", "2s")
			x.Task.Provides = []types.Provide{{Name: fmt.Sprintf("part.%d", i), Amount: types.Inf, When: types.WhenSucceeded}}
			_, err := s.jobs.Launch(s.Context(), x)
			s.must(err)
		}
		s.pass(5 * time.Second)
		if a, b := s.node(readers.Tasks[0]), s.node(readers.Tasks[1]); a != "n03" || b != "n00" {
			t.Errorf("they run on %q and %q, want n03 and n00", a, b)
		}
		v := s.view()
		for i, want := range []string{"r1", "r0"} {
			n := v.Nodes[hollow.Running(v, "d")[racks.Tasks[i]]]
			if n == nil || n.Info.V.Label("rack") != want {
				t.Errorf("%d does not run in %s: %s", i, want, s.why(racks.Tasks[i]))
			}
		}
		s.stop(readers.Tasks...)
		s.stop(racks.Tasks...)
	})
}

// TestInvalidateProvided: what tasks left behind is closed as what was put there, and is
// there again when another task has written it.
func TestInvalidateProvided(t *testing.T) {
	for _, named := range []bool{false, true} {
		onSite(t, hollow.Nodes(3, 4), func(s *site) {
			write := func(node string) {
				s.Helper()
				x := taskOn(node, 1000, "run", "1s")
				x.Task.Provides = []types.Provide{{Name: "words", Amount: types.Inf, When: types.WhenSucceeded}}
				_, err := s.jobs.Launch(s.Context(), x)
				s.must(err)
				s.pass(3 * time.Second)
			}
			write("n01")
			write("n02")
			want, nodes := 0, []string(nil)
			if named {
				want, nodes = 1, []string{"n01"}
			}
			s.must(esl.Invalidate(s.Context(), s.jobs.Client, "words", nodes...))
			s.view()
			if n := s.openNodes("d:words"); n != want {
				t.Errorf("invalidated on %v: there are %d copies, want %d", nodes, n, want)
			}
			s.must(esl.Invalidate(s.Context(), s.jobs.Client, "words"))
			job := s.run("read", esl.Copies(1, hollow.Task(1000)), esl.Near{To: "words"})
			s.says(job.Tasks[0], "which is nowhere yet")
			write("n02")
			s.await(esl.Node, "n02 1", job)
			s.stop(job.Tasks...)
		})
	}
}

// TestInvalidateAgain: a reader of what was put there between two times makes no copy
// after the second one.
func TestInvalidateAgain(t *testing.T) {
	onSite(t, hollow.Nodes(2, 2), func(s *site) {
		s.must(esl.Invalidate(s.Context(), s.jobs.Client, "words"))
		s.must(esl.Replicate(s.Context(), s.jobs.Client, "words", "n00"))
		s.view()
		job := s.run("read", esl.Copies(2, hollow.Task(1000)), esl.Near{To: "words"})
		s.await(esl.Node, "n00 2", job)
		far := s.run("far", esl.Copies(1, hollow.Task(1000)), esl.Near{To: "words", Wait: manifest.Wait(5 * time.Second), Cache: true, Copies: 1})
		s.pass(8 * time.Second)
		if s.node(far.Tasks[0]) != "n01" {
			t.Fatalf("it does not run on n01: %s", s.why(far.Tasks[0]))
		}
		s.must(esl.Invalidate(s.Context(), s.jobs.Client, "words"))
		s.pass(2 * time.Second)
		if n := s.openNodes("d:words"); n != 0 {
			t.Errorf("there are %d copies of what was invalidated", n)
		}
	})
}

func ExampleNear() {
	exampleSite(hollow.Nodes(3, 8), func(ctx context.Context, c *hollow.Cluster, jobs *esl.Client) error {
		if err := esl.Replicate(ctx, jobs.Client, "words", "n01"); err != nil {
			return err
		}
		where, err := exampleRun(ctx, c, jobs, esl.Node, esl.Job{Name: "count", Tasks: esl.Copies(2, hollow.Task(500))},
			esl.Near{To: "words", Wait: manifest.Wait(3 * time.Second)})
		fmt.Println(where)
		return err
	})
	// Output: n01 2
}
