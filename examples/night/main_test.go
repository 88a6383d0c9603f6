package main

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/e2e/viewtest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// TestNext asks the policy alone: a view of one job with one task, and a time.
func TestNext(t *testing.T) {
	for hour, want := range map[int]types.Quantity{21: 0, 22: types.Inf, 5: types.Inf, 6: 0} {
		night := Night{From: 22, Until: 6}
		s := viewtest.NewBench(t, 1).Job("report", night, esl.Copies(1, hollow.Task(1000)), 0)
		s.Label, s.Now = "night", time.Date(2026, 1, 1, hour, 30, 0, 0, time.UTC)
		plan := night.Next(s)
		if len(plan.Set) != 1 || plan.Set[0].Name != "report.night" || plan.Set[0].Capacity != want {
			t.Errorf("at %d:30 the plan is %+v", hour, plan)
		}
		if want := s.Now.Add(30 * time.Minute); !plan.RequeueAfter.Equal(want) {
			t.Errorf("at %d:30 it asks to be called at %s", hour, plan.RequeueAfter)
		}
	}
}

// TestNight runs a job on a cluster within the test. In a bubble of synctest it is midnight at
// first, and an hour passes at once.
func TestNight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kinds := esl.Kinds{}.With(func() esl.Policy { return Night{} })
		c, err := hollow.Start(t.Context(), hollow.Config{Nodes: hollow.Nodes(1, 4), Kinds: kinds})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		jobs, err := c.Client("default")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := jobs.Submit(t.Context(), controlplane.Job{Name: "report", Tasks: esl.Copies(2, hollow.Task(1000))}, Night{From: 1, Until: 6}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Await(t.Context(), func(v *cluster.View) bool { return len(hollow.Running(v, "default")) == 2 }); err != nil {
			t.Fatal(err)
		}
		if hour := time.Now().UTC().Hour(); hour != 1 {
			t.Errorf("the tasks start in hour %d", hour)
		}
	})
}
