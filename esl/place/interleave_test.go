package place_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

// gpuNodes makes n nodes with some simulated GPUs each.
func gpuNodes(n, gpus int) []hollow.Node {
	nodes := hollow.Nodes(n, 64)
	for i := range nodes {
		nodes[i].GPUs = gpus
	}
	return nodes
}

// part is a task that asks for some thousandths of a GPU.
func part(milli int, command ...string) controlplane.Submission {
	x := hollow.Task(1000, command...)
	x.Task.Requests = x.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"gpu": types.Quantity(milli)}))
	return x
}

// Kinds of jobs, by their phases.
const (
	computes = "data=100ms,compute=800ms,communicate=100ms"
	loads    = "data=800ms,compute=100ms,communicate=100ms"
	talks    = "data=100ms,compute=100ms,communicate=800ms"
)

// interleaving declares the policy gpus.
func interleaving(s *esltest.Site, p place.Interleave) func(as string, milli int, command ...string) controlplane.Launched {
	s.Must(s.Jobs.Declare(s.Context(), "gpus", p, ""))
	return func(as string, milli int, command ...string) controlplane.Launched {
		s.Pass(time.Millisecond) // the order of submission is theirs
		return s.Run("job", esl.Copies(1, part(milli, command...)), esl.Use{Name: "gpus", As: as})
	}
}

// shared returns which of the jobs share each device, by their number: "n00-gpu0 0 1".
func shared(s *esltest.Site, jobs ...controlplane.Launched) string {
	s.Helper()
	v := s.Snapshot()
	on := make(map[string][]string)
	for i, job := range jobs {
		for _, id := range job.Tasks {
			for _, b := range v.Task(esltest.IDOf(id)).Bindings {
				for _, h := range b.Info.V.Holds {
					for _, d := range h.Devices {
						_, name, _ := strings.Cut(d.ID, "=")
						on[name] = append(on[name], fmt.Sprint(i))
					}
				}
			}
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(on)) {
		out = append(out, name+" "+strings.Join(on[name], " "))
	}
	return strings.Join(out, ", ")
}

// rotations returns the rotations: the resources with units for phases.
func rotations(s *esltest.Site) (names []string) {
	s.Helper()
	v := s.Snapshot()
	for _, n := range v.Nodes {
		for id, c := range n.Own {
			if strings.Contains(string(id), ".turn.") && c.V.Capacity == esl.One {
				names = append(names, n.Name+" "+string(id))
			}
		}
	}
	slices.Sort(names)
	return names
}

// TestInterleave gives each job a device of its own while there is one, then the partner that it
// complements best. It creates a rotation where two are, and removes it when one ends.
func TestInterleave(t *testing.T) {
	esltest.OnSite(t, gpuNodes(1, 3), func(s *esltest.Site) {
		run := interleaving(s, place.Interleave{})
		jobs := []controlplane.Launched{run(computes, 500), run(loads, 500), run(talks, 500)}
		if got := shared(s, jobs...); got != "n00-gpu0 0, n00-gpu1 1, n00-gpu2 2" {
			t.Errorf("three jobs on three devices: %s", got)
		}
		if got := rotations(s); len(got) > 0 {
			t.Errorf("nothing is shared, and there are rotations: %s", got)
		}
		// A second one that computes adds least to the device of the first.
		jobs = append(jobs, run(computes, 500), run("data=400ms,compute=200ms,communicate=800ms", 500))
		got := shared(s, jobs...)
		if got != "n00-gpu0 0 4, n00-gpu1 1 3, n00-gpu2 2" && got != "n00-gpu0 0 4, n00-gpu1 1, n00-gpu2 2 3" {
			t.Errorf("five jobs on three devices: %s", got)
		}
		of := rotations(s)
		if len(of) != 6 || of[0] != "n00 d:gpus.interleave.turn.n00gpu0.communicate" {
			t.Errorf("rotations: %s", of)
		}
		s.Stop(jobs[4].Tasks...)
		if of := rotations(s); len(of) != 3 || strings.Contains(fmt.Sprint(of), "gpu0") {
			t.Errorf("rotations when one of two has ended: %s", of)
		}
		endInterleaved(s, jobs...)
	})
}

// endInterleaved ends the jobs and the policy, and checks that nothing is left.
func endInterleaved(s *esltest.Site, jobs ...controlplane.Launched) {
	s.Helper()
	for _, job := range jobs {
		s.Stop(job.Tasks...)
	}
	s.Forgotten("gpus")
	s.Must(s.Jobs.Withdraw(s.Context(), "gpus", false))
	s.NothingLeft()
}

// TestInterleaveWaits keeps a job waiting that adds too little to every device, and says so. It begins
// when a device becomes free.
func TestInterleaveWaits(t *testing.T) {
	esltest.OnSite(t, gpuNodes(1, 1), func(s *esltest.Site) {
		run := interleaving(s, place.Interleave{})
		first, second, long := run(computes, 500), run(computes, 500), run("data=1m,compute=1m,communicate=1m", 500)
		if got := shared(s, first, second, long); got != "n00-gpu0 0" {
			t.Errorf("they share: %s", got)
		}
		s.Says(second.Tasks[0], "no GPU is free for it, or has a task to which it adds 0.3 of the work of one")
		partner := run(loads, 500)
		if got := shared(s, first, second, long, partner); got != "n00-gpu0 0 3" {
			t.Errorf("they share: %s", got)
		}
		s.Stop(first.Tasks...)
		if got := shared(s, first, second, long, partner); got != "n00-gpu0 1 3" {
			t.Errorf("they share: %s", got)
		}
		endInterleaved(s, second, long, partner)
	})
}

// TestInterleaveOfThree puts up to one job for each phase on a device, while each adds enough.
func TestInterleaveOfThree(t *testing.T) {
	esltest.OnSite(t, gpuNodes(2, 1), func(s *esltest.Site) {
		run := interleaving(s, place.Interleave{})
		var jobs []controlplane.Launched
		for range 2 {
			for _, as := range []string{computes, loads, talks, computes} {
				jobs = append(jobs, run(as, 250))
			}
		}
		for _, device := range strings.Split(shared(s, jobs...), ", ") {
			if words := strings.Fields(device); len(words) != 4 {
				t.Errorf("%s", device)
			}
		}
		endInterleaved(s, jobs...)
	})
}

// TestInterleaveAmongOthers joins no task of another job, and lets none of these onto the devices of its
// own. What others ask for whole stays theirs.
func TestInterleaveAmongOthers(t *testing.T) {
	esltest.OnSite(t, gpuNodes(1, 2), func(s *esltest.Site) {
		other := s.Run("other", esl.Copies(1, part(500)))
		s.Pass(time.Second)
		run := interleaving(s, place.Interleave{})
		mine, waits := run(computes, 400), run("data=1s,compute=1s,communicate=1s", 400)
		if got := shared(s, other, mine, waits); got != "n00-gpu0 0" {
			t.Errorf("next to another's task: %s", got)
		}
		s.Stop(other.Tasks...)
		if got := shared(s, other, mine, waits); got != "n00-gpu0 1, n00-gpu1 2" {
			t.Errorf("when that has ended: %s", got)
		}
		later := s.Run("other", esl.Copies(1, part(300)))
		if got := shared(s, other, mine, waits, later); got != "n00-gpu0 1, n00-gpu1 2" {
			t.Errorf("another's task where it fits between theirs: %s", got)
		}
		s.Stop(mine.Tasks...)
		s.Await(esl.Node, "n00 1", later)
		partner := run(computes, 400)
		s.Pass(time.Minute)
		if got := shared(s, waits, later, partner); got != "n00-gpu0 1, n00-gpu1 0 2" {
			t.Errorf("a partner for the one: %s", got)
		}
		s.Stop(later.Tasks...)
		s.Stop(waits.Tasks...)
		s.Stop(partner.Tasks...)
		whole := s.Run("other", esl.Copies(2, part(1000)))
		s.Await(esl.Node, "n00 2", whole)
		s.Stop(whole.Tasks...)
		endInterleaved(s)
	})
}

// TestInterleaveMisled takes the seat away for another's task: no partner joins these two.
func TestInterleaveMisled(t *testing.T) {
	esltest.OnSite(t, gpuNodes(1, 1), func(s *esltest.Site) {
		run := interleaving(s, place.Interleave{})
		mine := run(computes, 400)
		s.Pass(time.Second)
		other := s.Run("other", esl.Copies(1, part(300)))
		if got := shared(s, mine, other); got != "n00-gpu0 0" {
			t.Errorf("while the seat is reserved: %s", got)
		}
		s.Must(s.Jobs.Unreserve(s.Context(), "gpus.interleave.seat.0"))
		if got := shared(s, mine, other); got != "n00-gpu0 0 1" {
			t.Errorf("when it was taken away: %s", got)
		}
		partner := run(loads, 200)
		if got := shared(s, mine, other, partner); got != "n00-gpu0 0 1" {
			t.Errorf("a partner: %s", got)
		}
		s.Stop(other.Tasks...)
		if got := shared(s, mine, other, partner); got != "n00-gpu0 0 2" {
			t.Errorf("when the other has ended: %s", got)
		}
		endInterleaved(s, mine, partner)
	})
}

// TestInterleaveBest gives a job the partner to which it adds most, on whichever node that is.
func TestInterleaveBest(t *testing.T) {
	for _, nodes := range [][2]int{{1, 3}, {3, 1}} {
		esltest.OnSite(t, gpuNodes(nodes[0], nodes[1]), func(s *esltest.Site) {
			run := interleaving(s, place.Interleave{})
			var jobs []controlplane.Launched
			for _, phases := range []string{"data=400ms,compute=400ms,communicate=200ms", loads, "data=200ms,compute=400ms,communicate=400ms", computes} {
				jobs = append(jobs, run(phases, 500))
				s.Pass(time.Second)
			}
			if got := shared(s, jobs...); !strings.Contains(got, " 1 3") {
				t.Errorf("%d nodes of %d devices: %s", nodes[0], nodes[1], got)
			}
			endInterleaved(s, jobs...)
		})
	}
}

// TestInterleaveAfterALoss pairs the tasks of a lost node with those that are left, and gives an evicted
// task a place again.
func TestInterleaveAfterALoss(t *testing.T) {
	esltest.OnSite(t, gpuNodes(2, 1), func(s *esltest.Site) {
		run := interleaving(s, place.Interleave{})
		jobs := []controlplane.Launched{run(computes, 500), run(loads, 500)}
		if got := shared(s, jobs...); got != "n00-gpu0 0, n01-gpu0 1" && got != "n00-gpu0 1, n01-gpu0 0" {
			t.Errorf("at first: %s", got)
		}
		node := s.Node(jobs[0].Tasks[0])
		s.Must(s.C.Kill(s.Context(), node))
		s.Pass(time.Minute)
		if got := shared(s, jobs...); !strings.HasSuffix(got, " 0 1") {
			t.Errorf("after the loss: %s", got)
		}
		s.Must(s.Jobs.Evict(s.Context(), jobs[1].Tasks[0], 0))
		s.Pass(time.Minute)
		if got := shared(s, jobs...); !strings.HasSuffix(got, " 0 1") || len(rotations(s)) != 3 {
			t.Errorf("after an eviction: %s", got)
		}
		endInterleaved(s, jobs...)
	})
}

// TestInterleaveMany fills nodes of several devices with jobs that come and go: no more than a job for
// each phase is on a device, and of two that share one, both said that it pays.
func TestInterleaveMany(t *testing.T) {
	esltest.OnSite(t, gpuNodes(3, 4), func(s *esltest.Site) {
		run := interleaving(s, place.Interleave{})
		var jobs []controlplane.Launched
		kinds := []string{computes, loads, talks}
		for i := range 60 {
			jobs = append(jobs, run(kinds[i%3], []int{500, 250}[i%2], "run", fmt.Sprintf("%dm", 1+i%7)))
		}
		for range 5 {
			s.Pass(time.Minute)
			for _, device := range strings.Split(shared(s, jobs...), ", ") {
				words := strings.Fields(device)
				seen := make(map[int]bool)
				for _, word := range words[1:] {
					var i int
					if _, err := fmt.Sscan(word, &i); err != nil || seen[i%3] {
						t.Errorf("two of a kind on %s", device)
					}
					seen[i%3] = true
				}
			}
		}
		for _, job := range jobs {
			_, err := s.Jobs.Wait(s.Context(), controlplane.UntilEnded, job.Tasks...)
			s.Must(err)
		}
		endInterleaved(s)
	})
}

// TestInterleaveRefused names what is wrong.
func TestInterleaveRefused(t *testing.T) {
	esltest.OnSite(t, gpuNodes(1, 1), func(s *esltest.Site) {
		for want, p := range map[string]place.Interleave{
			"phases: has 1":                    {Phases: []string{"one"}},
			"phases: has 5":                    {Phases: []string{"a", "b", "c", "d", "e"}},
			`phases: "a" is there twice`:       {Phases: []string{"a", "a"}},
			`phases: "a b" contains ' '`:       {Phases: []string{"a b", "c"}},
			"17 bytes: at most 16 are allowed": {Phases: []string{"a", "abcdefghijklmnopq"}},
			"gain: -1 is not within":           {Gain: -1},
		} {
			if err := s.Jobs.Declare(s.Context(), "gpus", p, ""); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		}
		if err := s.Jobs.Declare(s.Context(), "a-name-that-is-too-long-for-it", place.Interleave{}, ""); err == nil || !strings.Contains(err.Error(), "13 bytes more than allowed") {
			t.Error(err)
		}
		s.Must(s.Jobs.Declare(s.Context(), "gpus", place.Interleave{}, ""))
		use := func(as string) esl.Use { return esl.Use{Name: "gpus", As: as} }
		for want, x := range map[string]struct {
			task     controlplane.Submission
			policies []esl.Policy
		}{
			`as: "" is no phase`:                       {part(500), []esl.Policy{use("")}},
			`as: "run" is no phase`:                    {part(500), []esl.Policy{use("data=1s,run=2s")}},
			`as: data: "1" is no length`:               {part(500), []esl.Policy{use("data=1")}},
			"as: data is there twice":                  {part(500), []esl.Policy{use("data=1s,data=1s")}},
			"requests.gpu: is 1, which leaves no part": {part(1000), []esl.Policy{use(computes)}},
			"requests.gpu: is 0, which leaves no part": {hollow.Task(1000), []esl.Policy{use(computes)}},
			"amount: 2: gpus is of kind interleave":    {part(500), []esl.Policy{esl.Use{Name: "gpus", As: computes, Amount: 2}}},
			"gang and interleave exclude each other":   {part(500), []esl.Policy{gang.Gang{}, use(computes)}},
			"interleave is shared: declare it":         {part(500), []esl.Policy{place.Interleave{}}},
		} {
			_, err := s.Jobs.Submit(s.Context(), controlplane.Job{Name: "job", Tasks: esl.Copies(2, x.task)}, x.policies...)
			if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", want, err)
			}
		}
		s.Must(s.Jobs.Withdraw(s.Context(), "gpus", false))
	})
}

// TestInterleaveHeld: a job that cannot begin yet keeps no device from others.
func TestInterleaveHeld(t *testing.T) {
	esltest.OnSite(t, gpuNodes(2, 4), func(s *esltest.Site) {
		run := interleaving(s, place.Interleave{})
		first := run(computes, 500, "sleep", "1h")
		s.Pass(5 * time.Second)
		for range 2 {
			s.Run("later", esl.Copies(1, part(500)), esl.Use{Name: "gpus", As: computes}, admission.After{Jobs: []string{first.Job}})
		}
		s.Pass(20 * time.Second)
		if got := shared(s, run(computes, 500), run(loads, 500)); strings.Count(got, "gpu") != 2 {
			s.Pass(time.Minute)
			t.Errorf("at once on %q, after a minute others wait for what cannot begin", got)
		}
	})
}
