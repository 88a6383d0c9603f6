package esl_test

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
	"github.com/escher-sched/escher/esl/keep"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/types"
)

// TestSharedEndsWithApplication kills an application: the objects of its shared policies end with
// it, those created at declaration and those of plans.
func TestSharedEndsWithApplication(t *testing.T) {
	for name, c := range map[string]struct {
		shared esl.Shared
		refers esl.Policy
	}{
		"queue":           {admission.Queue{Limit: 1}, esl.Use{Name: "s"}},
		"semaphore":       {admission.Semaphore{Limit: 1}, esl.Use{Name: "s"}},
		"fair-queue":      {admission.FairQueue{Limit: 1, Anyone: 1}, esl.Use{Name: "s", As: "a"}},
		"fair-share":      {share.FairShare{Anyone: 1}, esl.Use{Name: "s", As: "a"}},
		"pack":            {place.Pack{}, esl.Use{Name: "s"}},
		"elastic-balance": {place.ElasticBalance{}, esl.Use{Name: "s"}},
		"objective":       {place.Objective{By: place.Leftover}, esl.Use{Name: "s"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := esltest.StartGangs(t, hollow.Config{Nodes: hollow.Nodes(2, 4)})
				app, err := keep.Attach(t.Context(), g.Client, "app")
				if err != nil {
					t.Fatal(err)
				}
				stop := runs(t, app.Run)
				if err := app.Declare(t.Context(), "s", c.shared); err != nil {
					t.Fatal(err)
				}
				job, err := app.Submit(t.Context(), controlplane.Job{Name: "j", Tasks: esl.Copies(3, hollow.Task(1000, "run", "5s"))}, c.refers)
				if err != nil {
					t.Fatal(err)
				}
				g.Ended(job)
				stop() // as if killed
				time.Sleep(5 * time.Minute)
				kvs, _, err := controlplane.ListAll(t.Context(), g.Store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Resources)})
				if err != nil {
					t.Fatal(err)
				}
				for _, kv := range kvs {
					if strings.Contains(kv.Key, "/s.") {
						t.Errorf("left is %s", kv.Key)
					}
				}
			})
		})
	}
}

// TestSharedPlanEndsWithPolicy checks that other objects in a plan of a shared policy, and those
// with a lifetime, keep their lifetime.
func TestSharedPlanEndsWithPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, nil)
		w.Asked = esltest.NewRecord(func(_ string, s *esl.State) esl.Plan {
			if s.Pool("s.shared.made") != nil {
				return esl.Plan{}
			}
			set := func(name string) controlplane.Resource {
				return controlplane.Resource{Name: name, Capacity: esl.One, Where: controlplane.InCluster()}
			}
			bundle := types.Bundle{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}
			return esl.Plan{
				Set:     []controlplane.Resource{set("s.shared.made"), set("s.sharedalike"), set("data")},
				Reserve: []controlplane.Reservation{{ID: "s.shared.room", Reservation: types.Reservation{Bundles: []types.Bundle{bundle}}}},
			}
		})
		w.Jobs = w.Client("d")
		app, err := keep.Attach(t.Context(), w.Jobs, "app")
		if err != nil {
			t.Fatal(err)
		}
		if err := app.Declare(t.Context(), "s", &esltest.Shared{Counter: esltest.Counter{Name: "s"}}); err != nil {
			t.Fatal(err)
		}
		runs(t, app.Run)
		esltest.Pass(time.Second)
		v := w.Snapshot()
		for name, want := range map[string]string{"s.shared": "s", "s.shared.made": "s", "s.sharedalike": "", "data": ""} {
			p := v.Pool(types.Resolve("d", name))
			if p == nil {
				t.Fatalf("there is no %s", name)
			}
			if got := p.Info.V.Owner; got != want {
				t.Errorf("%s is of %q: want %q", name, got, want)
			}
		}
		if r := v.Reservations[esltest.IDOf("s.shared.room")]; r == nil || r.Info.V.Policy != "s" {
			t.Errorf("the reservation is %+v", r)
		}
	})
}

// TestDeclareRefused refuses the id of a job's policies, and a session for a policy that lasts
// until withdrawn. The reverse is allowed.
func TestDeclareRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(nil))
		ctx := t.Context()
		w.Submit("train", 1, &esltest.Counter{Name: "a"})
		err := w.Jobs.Declare(ctx, "train", admission.Queue{Limit: 1}, "")
		if !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "choose another id") {
			t.Errorf("under the id of a job the error is %v", err)
		}
		if kept, _, err := w.Jobs.Policies(ctx, "train"); err != nil || kept.Job != "train" || kept.Policies[0].Kind != "counter" {
			t.Errorf("the job has %+v, %v", kept, err)
		}
		w.Submit("plain", 1)
		if err := w.Jobs.Declare(ctx, "plain", admission.Queue{Limit: 1}, ""); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "there is a job of that id: choose another id") {
			t.Errorf("under the id of a job without policies the error is %v", err)
		}
		app, err := keep.Attach(ctx, w.Jobs, "app")
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Jobs.Declare(ctx, "prod", admission.Queue{Limit: 1}, ""); err != nil {
			t.Fatal(err)
		}
		if err := app.Declare(ctx, "prod", admission.Queue{Limit: 2}); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "withdraw it") {
			t.Errorf("the error is %v", err)
		}
		if err := app.Declare(ctx, "mine", admission.Queue{Limit: 1}); err != nil {
			t.Fatal(err)
		}
		if err := w.Jobs.Declare(ctx, "mine", admission.Queue{Limit: 1}, ""); err != nil {
			t.Fatal(err)
		}
		if p := w.Snapshot().Pool(types.Resolve("d", "mine.queue")); p == nil || p.Info.V.Owner != "mine" {
			t.Errorf("the queue that lasts has %+v", p)
		}
	})
}

// TestDeclareTakesNothingOver does not let a new shared policy, or one of a new kind, take over a
// resource with its name and another owner.
func TestDeclareTakesNothingOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ctx := esltest.NewWorld(t, esltest.NewRecord(nil)), t.Context()
		for _, name := range []string{"q.queue", "q.semaphore"} {
			if _, err := w.Jobs.SetResource(ctx, name, 5*esl.One, controlplane.InCluster(), controlplane.SetOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		refused := func(p esl.Shared, says string) {
			t.Helper()
			err := w.Jobs.Declare(ctx, "q", p, "")
			if !types.Is(err, types.AlreadyExists) || !strings.Contains(err.Error(), says) {
				t.Errorf("the error is %v", err)
			}
		}
		refused(admission.Queue{Limit: 1}, "there is a resource q.queue already (5 in the cluster), which would change its owner: remove it: set q.queue to 0 in the cluster, or choose another id")
		if p := w.Snapshot().Pool(types.Resolve("d", "q.queue")); p == nil || p.Capacity() != 5*esl.One || len(w.Snapshot().Policies) != 0 {
			t.Errorf("the resource is %+v, policies %v", p, w.Snapshot().Policies)
		}
		if _, err := w.Jobs.SetResource(ctx, "q.queue", 0, controlplane.InCluster(), controlplane.SetOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, limit := range []int{1, 2} { // the second one changes it
			if err := w.Jobs.Declare(ctx, "q", admission.Queue{Limit: limit}, ""); err != nil {
				t.Fatal(err)
			}
		}
		refused(admission.Semaphore{Limit: 1}, "there is a resource q.semaphore already")
	})
}

// TestIDTaken refuses the id of a shared policy for a job, and names it in errors.
func TestIDTaken(t *testing.T) {
	w := esltest.NewWorld(t, esltest.NewRecord(nil))
	if err := w.Jobs.Declare(t.Context(), "prod", admission.Queue{Limit: 1}, ""); err != nil {
		t.Fatal(err)
	}
	_, err := w.Jobs.Submit(t.Context(), job("prod", 1), &esltest.Counter{Name: "a"})
	if !types.Is(err, types.AlreadyExists) || !strings.Contains(err.Error(), `"prod"`) || !strings.Contains(err.Error(), "choose another job id") {
		t.Errorf("the error is %v", err)
	}
	if _, err := w.Jobs.Submit(t.Context(), controlplane.Job{}, gang.Gang{}); err == nil || strings.Contains(err.Error(), "job :") {
		t.Errorf("of a job without a name the error is %v", err)
	}
}

// TestAttachedPrepares prepares and expands jobs that belong to the application.
func TestAttachedPrepares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(nil))
		app, err := keep.Attach(t.Context(), w.Jobs, "app")
		if err != nil {
			t.Fatal(err)
		}
		prepared, _, err := app.Prepare(t.Context(), job("a", 1), &esltest.Counter{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		e, err := app.Expand(t.Context(), job("b", 1), esl.Batch{}, &esltest.Counter{Name: "b"})
		if err != nil {
			t.Fatal(err)
		}
		e.Add(prepared)
		if _, err := prepared.Commit(t.Context()); err != nil {
			t.Fatal(err)
		}
		v := w.Snapshot()
		for _, id := range []string{"a", "b"} {
			if kept, _, err := w.Jobs.Policies(t.Context(), id); err != nil || kept.Session != app.Session() {
				t.Errorf("the policies of %s are %+v, %v", id, kept, err)
			}
			for _, task := range v.Members(esltest.IDOf(id)) {
				if task.Info.V.Full().Session != app.Session() {
					t.Errorf("task %s is not of the session", task.ID.ID)
				}
			}
		}
	})
}
