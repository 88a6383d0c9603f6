package esl_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/types"
)

// TestStoredWaits: a stored wait of 0 stays 0, also as former versions wrote it, and a missing one
// is left out.
func TestStoredWaits(t *testing.T) {
	for with, want := range map[string]time.Duration{
		`{"to":"a"}`: 7 * time.Second, `{"to":"a","wait":"0s"}`: 0, `{"to":"a","wait":"-1ns"}`: 0, `{"to":"a","wait":"3s"}`: 3 * time.Second,
	} {
		p, err := builtin.Kinds().Read(types.Policy{Kind: "near", With: with})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.(place.Near).Wait.Or(7 * time.Second); got != want {
			t.Errorf("%s: %s, want %s", with, got, want)
		}
	}
}

// TestAtOnce: an alternative without a wait is allowed before one that waits for a second.
func TestAtOnce(t *testing.T) {
	const soon = 900 * time.Millisecond
	started := func(t *testing.T, c *hollow.Cluster, jobs *esl.Client, task controlplane.Submission, p esl.Policy) {
		t.Helper()
		l := esltest.Submitted(t, jobs, []controlplane.Submission{task}, p)
		esltest.Pass(soon)
		if n := esltest.HowMany(t, c, l.Tasks); n != 1 {
			t.Errorf("%+v: after %s %d of 1 runs", p, soon, n)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 1)
		started(t, c, jobs, hollow.Task(100), place.Near{To: "nowhere", Wait: manifest.AtOnce})
		started(t, c, jobs, hollow.Task(100), place.Prefer{Of: []place.Choice{{Rack: "none"}}, Anywhere: manifest.AtOnce})
		more := esltest.Submitted(t, jobs, esl.Copies(3, hollow.Task(1000)), room.Elastic{Min: 1, GiveWay: manifest.AtOnce})
		esltest.Pass(time.Second)
		high := hollow.Task(2000)
		high.Task.Priority = 1
		started(t, c, jobs, high, room.Stay{})
		if n := esltest.HowMany(t, c, more.Tasks); n > 2 {
			t.Errorf("%d of the elastic job run", n)
		}
		high.Task.Priority = 2
		started(t, c, jobs, high, room.Preempt{After: manifest.AtOnce})
	})
}

// TestRefusedAsWritten names refused parameters as they were written.
func TestRefusedAsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, jobs := esltest.Ordered(t, 2)
		for id, p := range map[string]esl.Shared{"eb": place.ElasticBalance{}, "pk": place.Pack{}, "s": admission.Semaphore{Limit: 3}} {
			if err := jobs.Declare(t.Context(), id, p, ""); err != nil {
				t.Fatal(err)
			}
		}
		drawn := hollow.Task(0)
		drawn.Task.Requests = types.Requests{{Name: "cpu@res", Amount: 100}}
		for _, test := range []struct {
			task  controlplane.Submission
			class types.Class
			want  string
			p     []esl.Policy
		}{
			{hollow.Task(100), types.Invalid, "policies[1] (use): the job uses eb twice", []esl.Policy{esl.Use{Name: "eb"}, esl.Use{Name: "eb"}}},
			{hollow.Task(100), types.Invalid, "policies[1] (use): the job uses pk twice", []esl.Policy{esl.Use{Name: "pk"}, esl.Use{Name: "pk"}}},
			{hollow.Task(100), types.Invalid, "policies[1] (use): the job uses s twice", []esl.Policy{esl.Use{Name: "s"}, esl.Use{Name: "s"}}},
			{hollow.Task(100), types.Invalid, "of[0].labels.a: is empty: give the value that it must have", []esl.Policy{place.Prefer{Of: []place.Choice{{Labels: map[string]string{"a": ""}}}}}},
			{drawn, types.Invalid, `tasks[0].requests: "cpu@res" is of a reservation, which does not move: ask for it without, or drop migrate`, []esl.Policy{room.Migrate{}}},
			{hollow.Task(3000), types.Precondition, "min: the cluster is too small: were nothing else there, 2 of the first 3 tasks would fit; the tasks request 9 cpu, up to 3 on one node: the cluster has 8, the largest node 4: lower it", []esl.Policy{room.Elastic{Min: 3}}},
			{hollow.Task(100), types.Precondition, "all 3 tasks are to begin at once, and apart has at most 1 on one node", []esl.Policy{place.Apart{}, room.Elastic{Min: 3}}},
		} {
			_, err := jobs.Submit(t.Context(), controlplane.Job{Tasks: esl.Copies(4, test.task)}, test.p...)
			if !types.Is(err, test.class) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%+v\ngot  %v\nwant %s", test.p, err, test.want)
			}
		}
		// The optional tasks of an elastic job may wait for nodes.
		esltest.Submitted(t, jobs, esl.Copies(4, hollow.Task(3000)), room.Elastic{Min: 2})
	})
}

// TestRefusedWithoutAName: an error of a job without an id or a name has the id that it was given.
func TestRefusedWithoutAName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, jobs := esltest.Ordered(t, 1)
		wrong := hollow.Task(100)
		wrong.Task.Requests = append(wrong.Task.Requests, types.Request{Name: "weird name", Amount: 1})
		_, err := jobs.Submit(t.Context(), controlplane.Job{Tasks: esl.Copies(1, wrong)})
		if !types.Is(err, types.Invalid) || strings.Contains(err.Error(), "job :") || !strings.Contains(err.Error(), "launch job job-") {
			t.Error(err)
		}
	})
}
