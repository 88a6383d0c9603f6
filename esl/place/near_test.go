package place_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

// TestNear: the data comes later, has several replicas, and one of them is lost.
func TestNear(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(4, 4), func(s *esltest.Site) {
		job := s.Run("read", esl.Copies(4, hollow.Task(1000)), place.Near{To: "words"})
		s.Says(job.Tasks[0], "near: it is to be near words, which is nowhere yet: it waits for room there")
		s.Must(place.Replicate(s.Context(), s.Jobs.Client, "words", "n01", "n02"))
		s.Await(esl.Node, "n01 2, n02 2", job)
		s.Must(s.C.Kill(s.Context(), "n01"))
		s.Await(esl.Node, "n02 4", job)
		// It returns without its copy.
		s.Must(s.C.Return("n01"))
		s.Snapshot()
		more := s.Run("more", esl.Copies(1, hollow.Task(1000)), place.Near{To: "words"})
		s.Says(more.Tasks[0], "words, which is on n02")
		s.Must(place.Invalidate(s.Context(), s.Jobs.Client, "words"))
		s.Stop(job.Tasks...)
		s.Says(more.Tasks[0], "which is nowhere yet")
		s.Must(place.Replicate(s.Context(), s.Jobs.Client, "words", "n03"))
		s.Await(esl.Node, "n03 1", more)
		s.Stop(more.Tasks...)
		_, err := s.Jobs.SetResource(s.Context(), "words", 0, controlplane.OnEvery(), controlplane.SetOptions{})
		s.Must(err)
		s.NothingLeft()
	})
}

// TestNearWaits waits for a while, then goes anywhere and leaves a copy, up to a limit.
func TestNearWaits(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(4, 2), func(s *esltest.Site) {
		s.Must(place.Replicate(s.Context(), s.Jobs.Client, "words", "n01"))
		p := place.Near{To: "words", Wait: manifest.Wait(5 * time.Second), Cache: true, Copies: 2}
		job := s.Run("read", esl.Copies(4, hollow.Task(1000)), p)
		s.Await(esl.Node, "n01 2", job)
		if got := s.Why(s.Waiting(job)[0]); !strings.Contains(got, "words, which is on n01: it goes anywhere in 3s") {
			t.Errorf("it waits: %q", got)
		}
		s.Pass(4 * time.Second)
		if got := len(s.Running(job)); got != 4 {
			t.Fatalf("%d run, want 4", got)
		}
		if n := s.OpenNodes("d:words"); n != 2 {
			t.Errorf("there are %d copies, want 2", n)
		}
		// A task bound before leaves no copy of later data.
		s.Must(place.Invalidate(s.Context(), s.Jobs.Client, "words"))
		if n := s.OpenNodes("d:words"); n != 0 {
			t.Errorf("there are %d copies of what was invalidated", n)
		}
		s.Stop(job.Tasks...)
		after := s.Run("after", esl.Copies(1, hollow.Task(1000)), p)
		s.Pass(6 * time.Second)
		if n := s.OpenNodes("d:words"); n != 1 || s.Node(after.Tasks[0]) == "" {
			t.Errorf("there are %d copies, want 1: %s", n, s.Why(after.Tasks[0]))
		}
		s.Stop(after.Tasks...)
		_, err := s.Jobs.SetResource(s.Context(), "words", 0, controlplane.OnEvery(), controlplane.SetOptions{})
		s.Must(err)
		s.NothingLeft()
	})
}

// farther are nodes of two cores: n01 is in the rack of n00, n02 in its zone, and n03 in another one.
func farther() []hollow.Node {
	nodes := hollow.Nodes(4, 2)
	for i, at := range [][2]string{{"r0", "z0"}, {"r0", "z0"}, {"r1", "z0"}, {"r2", "z1"}} {
		nodes[i].Labels = map[string]string{"rack": at[0], "zone": at[1]}
	}
	return nodes
}

// TestNearSteps widens where tasks may go: the node, its rack, its zone and any node, each after its time.
func TestNearSteps(t *testing.T) {
	esltest.OnSite(t, farther(), func(s *esltest.Site) {
		s.Must(place.Replicate(s.Context(), s.Jobs.Client, "words", "n00"))
		steps := []place.Step{{In: esl.Rack, After: manifest.Duration(time.Minute)}, {In: esl.Zone, After: manifest.Duration(3 * time.Minute)}}
		job := s.Run("read", esl.Copies(8, hollow.Task(1000)), place.Near{To: "words", Steps: steps, Wait: manifest.Wait(5 * time.Minute)})
		begin := time.Now()
		for _, want := range []struct {
			pass      time.Duration
			on, waits string
		}{
			{0, "n00 2", "near: it is to be near words, which is on n00: it goes into its rack in "},
			{50 * time.Second, "n00 2", "it goes into its rack in "},
			{70 * time.Second, "n00 2, n01 2", "it was to be near words, which is on n00, and goes into its rack by now, into its zone in "},
			{170 * time.Second, "n00 2, n01 2", "into its zone in "},
			{190 * time.Second, "n00 2, n01 2, n02 2", "goes into its zone by now, anywhere in "},
			{290 * time.Second, "n00 2, n01 2, n02 2", "anywhere in "},
		} {
			s.Pass(want.pass - time.Since(begin))
			s.Await(esl.Node, want.on, job)
			if got := s.Why(s.Waiting(job)[0]); !strings.Contains(got, want.waits) {
				t.Errorf("after %s: %q", want.pass, got)
			}
		}
		s.Pass(15 * time.Second)
		s.Await(esl.Node, "n00 2, n01 2, n02 2, n03 2", job)
		s.Stop(job.Tasks...)
		_, err := s.Jobs.SetResource(s.Context(), "words", 0, controlplane.OnEvery(), controlplane.SetOptions{})
		s.Must(err)
		s.NothingLeft()
	})
}

// TestNearStepsEach widens for each task around data of its own, and without wait no farther.
func TestNearStepsEach(t *testing.T) {
	esltest.OnSite(t, farther(), func(s *esltest.Site) {
		s.Must(place.Replicate(s.Context(), s.Jobs.Client, "part.0", "n00"))
		s.Must(place.Replicate(s.Context(), s.Jobs.Client, "part.1", "n03"))
		for _, node := range []string{"n00", "n03"} {
			_, err := s.Jobs.Launch(s.Context(), esltest.TaskOn(node, 2000))
			s.Must(err)
		}
		s.Pass(time.Second)
		steps := []place.Step{{In: esl.Rack, After: manifest.Duration(10 * time.Second)}}
		job := s.Run("read", esl.Copies(2, hollow.Task(1000)), place.Near{To: "part", Each: true, Steps: steps})
		s.Pass(time.Hour)
		if a, b := s.Node(job.Tasks[0]), s.Node(job.Tasks[1]); a != "n01" || b != "" {
			t.Errorf("they run on %q and %q, want n01 and none", a, b)
		}
		s.Says(job.Tasks[1], "near: it was to be near part.1, which is on n03, and goes into its rack by now")
		wide := s.Run("wide", esl.Copies(2, hollow.Task(500)), place.Near{To: "part", Each: true, In: esl.Rack, Steps: []place.Step{{In: esl.Zone}}})
		s.Pass(time.Second)
		if a, b := s.Node(wide.Tasks[0]), s.Node(wide.Tasks[1]); a != "n01" || b != "" {
			t.Errorf("they run on %q and %q, want n01 and none", a, b)
		}
	})
}

// TestNearStepsRefused names the step that is wrong.
func TestNearStepsRefused(t *testing.T) {
	for want, p := range map[string]place.Near{
		`steps[0].in: "node" is no step`:                {To: "x", Steps: []place.Step{{In: esl.Node}}},
		`steps[0].in: "" is no step`:                    {To: "x", Steps: []place.Step{{}}},
		"steps[1].in: rack is not larger than zone":     {To: "x", Steps: []place.Step{{In: esl.Zone}, {In: esl.Rack}}},
		"steps[0].in: rack is not larger than rack":     {To: "x", In: esl.Rack, Steps: []place.Step{{In: esl.Rack}}},
		"steps[0].after: -1s is negative":               {To: "x", Steps: []place.Step{{In: esl.Rack, After: manifest.Duration(-time.Second)}}},
		"steps[1].after: 1s is less than after of rack": {To: "x", Steps: []place.Step{{In: esl.Rack, After: manifest.Duration(time.Minute)}, {In: esl.Zone, After: manifest.Duration(time.Second)}}},
		"wait: 0s is less than after of rack, 1m0s":     {To: "x", Steps: []place.Step{{In: esl.Rack, After: manifest.Duration(time.Minute)}}, Wait: manifest.AtOnce},
	} {
		if err := p.Validate(); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}

// TestNearProduced: a succeeding task leaves the data; each reader has its own.
func TestNearProduced(t *testing.T) {
	esltest.OnSite(t, hollow.Racks(hollow.Nodes(4, 4), 2), func(s *esltest.Site) {
		far := place.Near{To: "part", Each: true, In: esl.Rack, Wait: manifest.Wait(time.Hour)}
		readers := s.Run("read", esl.Copies(2, hollow.Task(1000)), place.Near{To: "part", Each: true})
		racks := s.Run("rack", esl.Copies(2, hollow.Task(1000)), far)
		for i, node := range []string{"n03", "n00"} {
			x := esltest.TaskOn(node, 1000, "run", "2s")
			x.Task.Provides = []types.Provide{{Name: fmt.Sprintf("part.%d", i), Amount: types.Inf, When: types.WhenSucceeded}}
			_, err := s.Jobs.Launch(s.Context(), x)
			s.Must(err)
		}
		s.Pass(5 * time.Second)
		if a, b := s.Node(readers.Tasks[0]), s.Node(readers.Tasks[1]); a != "n03" || b != "n00" {
			t.Errorf("they run on %q and %q, want n03 and n00", a, b)
		}
		v := s.Snapshot()
		for i, want := range []string{"r1", "r0"} {
			n := v.Nodes[hollow.Running(v, "d")[racks.Tasks[i]]]
			if n == nil || n.Info.V.Label("rack") != want {
				t.Errorf("%d does not run in %s: %s", i, want, s.Why(racks.Tasks[i]))
			}
		}
		s.Stop(readers.Tasks...)
		s.Stop(racks.Tasks...)
	})
}

// TestInvalidateProvided closes provided data like any other, until another task has written it.
func TestInvalidateProvided(t *testing.T) {
	for _, named := range []bool{false, true} {
		esltest.OnSite(t, hollow.Nodes(3, 4), func(s *esltest.Site) {
			write := func(node string) {
				s.Helper()
				x := esltest.TaskOn(node, 1000, "run", "1s")
				x.Task.Provides = []types.Provide{{Name: "words", Amount: types.Inf, When: types.WhenSucceeded}}
				_, err := s.Jobs.Launch(s.Context(), x)
				s.Must(err)
				s.Pass(3 * time.Second)
			}
			write("n01")
			write("n02")
			want, nodes := 0, []string(nil)
			if named {
				want, nodes = 1, []string{"n01"}
			}
			s.Must(place.Invalidate(s.Context(), s.Jobs.Client, "words", nodes...))
			s.Snapshot()
			if n := s.OpenNodes("d:words"); n != want {
				t.Errorf("invalidated on %v: there are %d copies, want %d", nodes, n, want)
			}
			s.Must(place.Invalidate(s.Context(), s.Jobs.Client, "words"))
			job := s.Run("read", esl.Copies(1, hollow.Task(1000)), place.Near{To: "words"})
			s.Says(job.Tasks[0], "which is nowhere yet")
			write("n02")
			s.Await(esl.Node, "n02 1", job)
			s.Stop(job.Tasks...)
		})
	}
}

// TestInvalidateAgain: a reader of data from between two invalidations leaves no copy after the
// second one.
func TestInvalidateAgain(t *testing.T) {
	esltest.OnSite(t, hollow.Nodes(2, 2), func(s *esltest.Site) {
		s.Must(place.Invalidate(s.Context(), s.Jobs.Client, "words"))
		s.Must(place.Replicate(s.Context(), s.Jobs.Client, "words", "n00"))
		s.Snapshot()
		job := s.Run("read", esl.Copies(2, hollow.Task(1000)), place.Near{To: "words"})
		s.Await(esl.Node, "n00 2", job)
		far := s.Run("far", esl.Copies(1, hollow.Task(1000)), place.Near{To: "words", Wait: manifest.Wait(5 * time.Second), Cache: true, Copies: 1})
		s.Pass(8 * time.Second)
		if s.Node(far.Tasks[0]) != "n01" {
			t.Fatalf("it does not run on n01: %s", s.Why(far.Tasks[0]))
		}
		s.Must(place.Invalidate(s.Context(), s.Jobs.Client, "words"))
		s.Pass(2 * time.Second)
		if n := s.OpenNodes("d:words"); n != 0 {
			t.Errorf("there are %d copies of what was invalidated", n)
		}
	})
}

func ExampleNear() {
	exampleSite(hollow.Nodes(3, 8), func(ctx context.Context, c *hollow.Cluster, jobs *esl.Client) error {
		if err := place.Replicate(ctx, jobs.Client, "words", "n01"); err != nil {
			return err
		}
		where, err := exampleRun(ctx, c, jobs, esl.Node, controlplane.Job{Name: "count", Tasks: esl.Copies(2, hollow.Task(500))},
			place.Near{To: "words", Wait: manifest.Wait(3 * time.Second)})
		fmt.Println(where)
		return err
	})
	// Output: n01 2
}
