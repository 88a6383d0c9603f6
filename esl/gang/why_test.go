package gang_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/types"
)

// TestGangWhyAmongPolicies: what fits in an empty cluster does not depend on the current choice of
// another policy.
func TestGangWhyAmongPolicies(t *testing.T) {
	for name, p := range map[string]esl.Policy{"pack": place.Pack{}, "spread": place.Spread{Over: esl.Rack}, "on nodes": place.Spread{}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Racks(hollow.Nodes(2, 4), 1)})
				g.Running(g.SubmitTasks(1, esltest.TaskOn("n00", 3000)))
				job := g.SubmitTasks(3, hollow.Task(2000), gang.Gang{}, p)
				time.Sleep(5 * time.Second)
				if got := g.Why(job.Tasks[0]); strings.Contains(got, "it waits for nodes") || strings.Contains(got, "about to be opened") {
					t.Errorf("why: %q", got)
				}
			})
		})
	}
}

// TestGangWhyCollects counts accumulated capacity as free for the gang, and tells others for which
// gang it is accumulated.
func TestGangWhyCollects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(3, 4)})
		g.Running(g.SubmitTasks(1, hollow.Task(3000)))
		first := g.SubmitTasks(5, hollow.Task(2000), gang.Gang{})
		time.Sleep(time.Second)
		second := g.SubmitTasks(6, hollow.Task(2000), gang.Gang{})
		time.Sleep(time.Minute)
		for id, want := range map[string]string{
			first.Tasks[0]:  "gang train: 4 of 5 members would fit; it waits until all do, and has collected what becomes free for 3",
			second.Tasks[0]: "gang train: 0 of 6 members would fit; it waits until all do; what becomes free is collected for reservation " + first.Job + ".gang before it",
		} {
			if got := g.Why(id); !strings.HasPrefix(got, want) {
				t.Errorf("why: %q, want %q", got, want)
			}
		}
	})
}

// TestGangTooLargeBesideGates counts members correctly if each has a gate of its own.
func TestGangTooLargeBesideGates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Racks(hollow.Nodes(4, 4), 2)})
		if err := g.Declare(t.Context(), "fair", admission.FairQueue{Limit: 9, Anyone: 1}, ""); err != nil {
			t.Fatal(err)
		}
		_, err := g.Submit(t.Context(), controlplane.Job{Tasks: esl.Copies(4, hollow.Task(3000))}, esl.Use{Name: "fair", As: "a"}, gang.Gang{In: esl.Rack})
		if !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "2 of its 4 members would fit on one rack") {
			t.Error(err)
		}
		g.Running(g.SubmitTasks(4, hollow.Task(3000), esl.Use{Name: "fair", As: "a"}, gang.Gang{}))
	})
}

// TestWhyOfOthers: a policy says nothing of capacity while a task waits for something else, and
// something while the task waits for the policy.
func TestWhyOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(1, 4)})
		g.Running(g.SubmitTasks(1, hollow.Task(3000)))
		tasks := []controlplane.Submission{esltest.Called("a"), esltest.Called("b")}
		job, err := g.Submit(t.Context(), controlplane.Job{Tasks: tasks}, admission.After{Tasks: map[string][]string{"b": {"a"}}}, place.Pack{})
		if err != nil {
			t.Fatal(err)
		}
		moves := g.SubmitTasks(2, hollow.Task(2000), room.Migrate{})
		time.Sleep(5 * time.Second)
		if got, want := g.Why(job.Tasks[1]), "It comes after task "+job.Tasks[0]+", which is running."; got != want {
			t.Errorf("why: %q, want %q", got, want)
		}
		if got, want := g.Why(moves.Tasks[0]), "migrate: it begins anywhere, where there is room for what it asks for: no node has that at present"; got != want {
			t.Errorf("why: %q, want %q", got, want)
		}
	})
}

// TestGangInRackSpreadOverNodes chooses a rack where the gang fits evenly.
func TestGangInRackSpreadOverNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Racks(hollow.Nodes(4, 4), 2)})
		g.Running(g.SubmitTasks(1, esltest.TaskOn("n00", 4000)))
		job := g.SubmitTasks(4, hollow.Task(500), gang.Gang{In: esl.Rack}, place.Spread{})
		time.Sleep(5 * time.Second)
		if on := esltest.Count(g.Running(job)); on["n02"] != 2 || on["n03"] != 2 {
			t.Errorf("they are on %v", on)
		}
	})
}
