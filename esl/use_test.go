package esl_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/keep"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

// TestFormerUses reads uses under their former names.
func TestFormerUses(t *testing.T) {
	for kind, c := range map[string]struct {
		with string
		want esl.Use
	}{
		"queued":   {`{"in":"q"}`, esl.Use{Name: "q", Of: "queue"}},
		"holds":    {`{"semaphore":"s","amount":2}`, esl.Use{Name: "s", Amount: 2, Of: "semaphore"}},
		"flow":     {`{"in":"f","as":"a"}`, esl.Use{Name: "f", As: "a", Of: "fair-queue"}},
		"share":    {`{"in":"f","as":"a/b"}`, esl.Use{Name: "f", As: "a/b", Of: "fair-share"}},
		"placed":   {`{"by":"o"}`, esl.Use{Name: "o", Of: "objective"}},
		"packed":   {`{"in":"p"}`, esl.Use{Name: "p", Of: "pack"}},
		"balanced": {`{"in":"b"}`, esl.Use{Name: "b", Of: "elastic-balance"}},
	} {
		if got, err := builtin.Kinds().Read(types.Policy{Kind: kind, With: c.with}); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", kind, got, err)
		}
		if labels := esl.Labels([]types.Policy{{Kind: kind, With: c.with}}); labels[0] != kind {
			t.Errorf("%s: its label is %s", kind, labels[0])
		}
		if got := esl.FormerLabel(c.want.Of); got != kind {
			t.Errorf("the former label of %s is %s, want %s", c.want.Of, got, kind)
		}
	}
	for _, wrong := range []types.Policy{{Kind: "queued"}, {Kind: "queued", With: `{"in":3}`}, {Kind: "flow", With: "[]"}} {
		if got, err := builtin.Kinds().Read(wrong); err == nil {
			t.Errorf("%+v is read as %+v", wrong, got)
		}
	}
}

// TestFormerJobs runs jobs as former versions stored them: with former names of uses, and of the
// resources that their tasks request.
func TestFormerJobs(t *testing.T) {
	for kind, c := range map[string]struct {
		shared esl.Shared
		use    esl.Use
		with   string
	}{
		"queued": {admission.Queue{Rate: 2}, esl.Use{Name: "s"}, `{"in":"s"}`},
		"flow":   {admission.FairQueue{Limit: 2, Anyone: 1}, esl.Use{Name: "s", As: "a"}, `{"in":"s","as":"a"}`},
		"placed": {place.Objective{By: place.Load}, esl.Use{Name: "s"}, `{"by":"s"}`},
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(2, 4)})
				app, err := keep.Attach(t.Context(), g.Client, "app")
				if err != nil {
					t.Fatal(err)
				}
				runs(t, app.Run)
				if err := app.Declare(t.Context(), "s", c.shared); err != nil {
					t.Fatal(err)
				}
				e, err := app.Expand(t.Context(), controlplane.Job{ID: "old", Name: "old", Tasks: esl.Copies(3, hollow.Task(1000, "run", "1s"))}, esl.Batch{}, c.use)
				if err != nil {
					t.Fatal(err)
				}
				for i := range e.Tasks {
					requests := slices.Clone(e.Tasks[i].Task.Requests)
					for j := range requests {
						requests[j].Name = strings.Replace(requests[j].Name, "old."+c.shared.Kind()+".", "old."+kind+".", 1)
					}
					e.Tasks[i].Task.Requests = types.NewRequests(nil).Plus(requests)
				}
				b := app.Begin()
				launched := b.LaunchJob(controlplane.Job{ID: "old", Name: "old", Session: app.Session(), Tasks: e.Tasks})
				b.SetPolicies("old", types.Policies{Job: "old", Session: app.Session(), Policies: []types.Policy{{Kind: kind, With: c.with}}}, 0)
				if _, err := b.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				for _, task := range launched.Tasks {
					if st, err := app.Status(t.Context(), task); err != nil || st.Phase() != types.Succeeded {
						t.Errorf("%s: %+v, %v", task, st, err)
					}
				}
			})
		})
	}
}

// TestFormerAging raises a task whose policy is stored under its former name, with nothing else to do.
func TestFormerAging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(1, 4)})
		app, err := keep.Attach(t.Context(), g.Client, "app")
		if err != nil {
			t.Fatal(err)
		}
		runs(t, app.Run)
		time.Sleep(time.Minute)
		b := app.Begin()
		launched := b.LaunchJob(controlplane.Job{ID: "old", Session: app.Session(), Tasks: esl.Copies(1, hollow.Task(8000))})
		b.SetPolicies("old", types.Policies{Job: "old", Session: app.Session(), Policies: []types.Policy{{Kind: "ageing", With: `{"every":"1m"}`}}}, 0)
		if _, err := b.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3*time.Minute + 30*time.Second)
		if task := g.Snapshot().Task(cluster.ID{Namespace: "d", ID: launched.Tasks[0]}); task.Info.V.Order() != 3 {
			t.Errorf("its priority counts as %d, want 3", task.Info.V.Order())
		}
	})
}

// TestCanonical gives uses that mean the same one form, and the form of former versions.
func TestCanonical(t *testing.T) {
	kindOf := func(name string) string { return map[string]string{"q": "queue", "s": "semaphore"}[name] }
	for _, c := range []struct{ is, want, former types.Policy }{
		{types.Policy{Kind: "use", With: `{"name":"q"}`}, types.Policy{Kind: "use", With: `{"name":"q"}`}, types.Policy{Kind: "queued", With: `{"in":"q"}`}},
		{types.Policy{Kind: "queued", With: `{"in":"q"}`}, types.Policy{Kind: "use", With: `{"name":"q"}`}, types.Policy{Kind: "queued", With: `{"in":"q"}`}},
		{
			types.Policy{Kind: "use", With: `{"name":"s","amount":1,"of":"semaphore"}`}, types.Policy{Kind: "use", With: `{"name":"s"}`},
			types.Policy{Kind: "holds", With: `{"semaphore":"s","amount":1}`},
		},
		{
			types.Policy{Kind: "use", With: `{"of":"fair-share","as":"a/b","name":"x"}`}, types.Policy{Kind: "use", With: `{"name":"x","as":"a/b"}`},
			types.Policy{Kind: "share", With: `{"in":"x","as":"a/b"}`},
		},
		{types.Policy{Kind: "use", With: `{"name":"x"}`}, types.Policy{Kind: "use", With: `{"name":"x"}`}, types.Policy{Kind: "use", With: `{"name":"x"}`}},
		{types.Policy{Kind: "ageing", With: `{"limit":3}`}, types.Policy{Kind: "aging", With: `{"limit":3}`}, types.Policy{Kind: "ageing", With: `{"limit":3}`}},
		{types.Policy{Kind: "gang"}, types.Policy{Kind: "gang"}, types.Policy{Kind: "gang"}},
	} {
		all := []types.Policy{{Kind: "pack"}, c.is}
		if got := esl.Canonical(all)[1]; got.Kind != c.want.Kind || got.With != c.want.With {
			t.Errorf("%+v is canonically %+v, want %+v", c.is, got, c.want)
		}
		if got := esl.Former(all, kindOf)[1]; got.Kind != c.former.Kind || got.With != c.former.With {
			t.Errorf("%+v was %+v, want %+v", c.is, got, c.former)
		}
	}
}

// TestPhysical leaves out what applications create, what a reservation holds, and names of places.
func TestPhysical(t *testing.T) {
	r := types.NewRequests(map[string]types.Quantity{"cpu": 1, "acme.com/fpga": 2, "gpu@train": 3, "train.gang": 4, "node/n1": 5, "rack/r1": 6, "memory": 7})
	want := types.NewRequests(map[string]types.Quantity{"cpu": 1, "acme.com/fpga": 2, "memory": 7})
	if got := esl.Physical(r); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
