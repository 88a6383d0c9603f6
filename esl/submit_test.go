package esl_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/keep"
	"github.com/escher-sched/escher/types"
)

// maker makes, reserves and requests something, and can be wrong.
type maker struct {
	Wrong  string `json:"wrong,omitempty"`
	Suffix string `json:"suffix,omitempty"`
}

func (maker) Kind() string { return "maker" }

func (p maker) Apply(g *esl.Group) error {
	if p.Wrong != "" {
		return types.Errorf(types.Invalid, "wrong: %q is wrong: leave it out", p.Wrong)
	}
	name := g.Own(p.Suffix)
	g.Make(name, 2*esl.One, controlplane.InCluster())
	g.AskAll(name, esl.One)
	g.Reserve(name, types.Reservation{Bundles: []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1})}}})
	return nil
}

func job(id string, n int) controlplane.Job {
	task := controlplane.Submission{Task: types.Task{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}, Spec: &types.Spec{Image: "x"}}
	return controlplane.Job{ID: id, Tasks: esl.Copies(n, task)}
}

// TestSubmitIsOneTransaction: all objects of a job have one revision.
func TestSubmitIsOneTransaction(t *testing.T) {
	w := esltest.NewWorld(t, esltest.NewRecord(nil))
	done, err := w.Jobs.Submit(t.Context(), job("a", 3), maker{}, &esltest.Counter{Name: "c"}, maker{Suffix: "x"})
	if err != nil {
		t.Fatal(err)
	}
	kvs, _, err := controlplane.ListAll(t.Context(), w.Store, controlplane.ListOptions{Prefix: controlplane.Root})
	if err != nil {
		t.Fatal(err)
	}
	there := make(map[controlplane.Kind][]string)
	for _, kv := range kvs {
		k, _ := controlplane.Parse(kv.Key)
		if k.Kind == controlplane.Specs {
			continue
		}
		if kv.ModRevision != done.Revision {
			t.Errorf("%s is of revision %d: the job is of %d", kv.Key, kv.ModRevision, done.Revision)
		}
		there[k.Kind] = append(there[k.Kind], k.ID+k.Name)
	}
	for kind, want := range map[controlplane.Kind]string{
		controlplane.Jobs: "a", controlplane.Policies: "a", controlplane.Resources: "a.maker-2.x a.maker", controlplane.Reservations: "a.maker a.maker-2.x",
	} {
		if got := strings.Join(there[kind], " "); got != want {
			t.Errorf("%s are %q: want %q", kind, got, want)
		}
	}
	if len(there[controlplane.Tasks]) != 3 || done.Parts != 1 {
		t.Errorf("there are %d tasks, in %d parts", len(there[controlplane.Tasks]), done.Parts)
	}
	kept, _, err := w.Jobs.Policies(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	want := []types.Policy{{Kind: "maker"}, {Kind: "counter", With: `{"name":"c"}`}, {Kind: "maker", With: `{"suffix":"x"}`}}
	for i := range want {
		if kept.Policies[i] != want[i] {
			t.Errorf("stored is %+v: want %+v", kept.Policies[i], want[i])
		}
	}
}

// TestRefused reports all errors, and writes nothing.
func TestRefused(t *testing.T) {
	spoiled := job("spoiled", 1)
	spoiled.Tasks[0].Spec.Image = ""
	for name, c := range map[string]struct {
		job      controlplane.Job
		policies []esl.Policy
		class    types.Class
		want     []string
	}{
		"no tasks": {job("a", 0), nil, types.Invalid, []string{"tasks: there are none"}},
		"two wrong": {job("a", 1), []esl.Policy{maker{Wrong: "x"}, maker{}, maker{Wrong: "y"}}, types.Invalid,
			[]string{`policies[0] (maker): wrong: "x"`, `policies[2] (maker): wrong: "y"`}},
		"a long id":   {job(strings.Repeat("a", 41), 1), nil, types.Invalid, []string{"job.id", "41 bytes", "shorten it"}},
		"a long name": {job(strings.Repeat("a", 40), 1), []esl.Policy{maker{Suffix: strings.Repeat("s", 20)}}, types.Invalid, []string{"policies[0] (maker)", "4 bytes more", "shorten it"}},
		"no shared":   {job("a", 1), []esl.Policy{esl.Use{Name: "none"}}, types.Precondition, []string{`policies[0] (use)`, `"none"`, "declare it first"}},
		"a bad name":  {job("a", 1), []esl.Policy{esl.Use{Name: "no/ne"}}, types.Invalid, []string{`policies[0] (use)`, `"no/ne"`}},
		"a job":       {job("a", 1), []esl.Policy{esl.Use{Name: "job"}}, types.Precondition, []string{`"job" is a job`}},
		"a used id":   {job("job", 1), []esl.Policy{maker{}}, types.AlreadyExists, []string{"launch job job: "}},
		"used, plain": {job("job", 1), nil, types.AlreadyExists, []string{"launch job job: "}},
		"a bad task":  {spoiled, nil, types.Invalid, []string{"launch job spoiled: tasks[0]"}},
		"parameters":  {job("a", 1), []esl.Policy{esl.Foreign{Name: "acme.com/even", With: "[1]"}}, types.Invalid, []string{"acme.com/even", "no JSON object"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := esltest.NewWorld(t, esltest.NewRecord(nil))
			w.Submit("job", 1, &esltest.Counter{Name: "c"})
			before := w.Store.Revision()
			_, err := w.Jobs.Submit(t.Context(), c.job, c.policies...)
			if !types.Is(err, c.class) {
				t.Errorf("the error is %v: want %s", err, c.class)
			}
			for _, text := range c.want {
				if err != nil && !strings.Contains(err.Error(), text) {
					t.Errorf("the error is %v: it does not say %q", err, text)
				}
			}
			if name := "job " + c.job.ID; err != nil && strings.Count(err.Error(), name+": ") != 1 {
				t.Errorf("the error is %v: it does not name %s once", err, name)
			}
			if after := w.Store.Revision(); after != before {
				t.Errorf("something was written: %v", w.Store.Events(before+1))
			}
		})
	}
}

// TestConflicts: together on a node and apart on it exclude each other, in either order.
func TestConflicts(t *testing.T) {
	for name, c := range map[string]struct {
		together, apart claims
		tasks           int
		conflict        bool
	}{
		"node, apart on it":       {claims{In: "node"}, claims{In: "node", Most: 1}, 2, true},
		"node, apart in the rack": {claims{In: "node"}, claims{In: "rack", Most: 1}, 2, true},
		"rack, apart on nodes":    {claims{In: "rack"}, claims{In: "node", Most: 1}, 2, false},
		"few enough":              {claims{In: "node"}, claims{In: "node", Most: 2}, 2, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, policies := range [][]esl.Policy{{c.together, c.apart}, {c.apart, c.together}} {
				_, err := esltest.NewWorld(t, esltest.NewRecord(nil)).Jobs.Submit(t.Context(), job("a", c.tasks), policies...)
				if c.conflict != types.Is(err, types.Invalid) || c.conflict && !strings.Contains(err.Error(), "exclude each other") {
					t.Errorf("the error is %v", err)
				}
			}
		})
	}
}

// claims demands all together, or so many at most.
type claims struct {
	In   esl.Domain `json:"in"`
	Most int        `json:"most"`
}

func (claims) Kind() string { return "claims" }

func (p claims) Apply(g *esl.Group) error {
	if p.Most == 0 {
		g.Together(p.In)
		return nil
	}
	g.AtMost(p.Most, p.In)
	return nil
}

// TestRead is strict.
func TestRead(t *testing.T) {
	kinds := esl.Kinds{}.With(func() esl.Policy { return maker{} })
	for with, want := range map[string]string{
		`{"suffix":"x"}`:    "",
		``:                  "",
		`{"sufix":"x"}`:     "sufix",
		`{"suffix":1}`:      "suffix",
		`{"suffix":"x"} 2`:  "more",
		`{"suffix":"x"}} x`: "more",
		`{"suffix":"x"}]`:   "more",
		`{"suffix":"x"} `:   "",
		`null`:              "no object",
		`7`:                 "policy maker",
	} {
		p, err := kinds.Read(types.Policy{Kind: "maker", With: with})
		switch {
		case want == "" && (err != nil || p.Kind() != "maker"):
			t.Errorf("%s is %v, %v", with, p, err)
		case want != "" && (!types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want)):
			t.Errorf("of %s the error is %v: it does not say %q", with, err, want)
		}
	}
	if _, err := kinds.Read(types.Policy{Kind: "makr"}); !types.Is(err, types.NotFound) || !strings.Contains(err.Error(), "use maker") {
		t.Errorf("of an unknown one the error is %v", err)
	}
	for _, with := range []string{"null", `{"a":1}} x`, "7"} {
		if _, err := kinds.Read(types.Policy{Kind: "acme.com/even", With: with}); !types.Is(err, types.Invalid) {
			t.Errorf("of one with a domain, and %s, the error is %v", with, err)
		}
	}
	if p, err := kinds.Read(types.Policy{Kind: "acme.com/even", With: `{"a":1}`}); err != nil || p.Kind() != "acme.com/even" {
		t.Errorf("one with a domain is %v, %v", p, err)
	}
}

// TestManyPolicies refuses more policies than a job may have, before it applies any.
func TestManyPolicies(t *testing.T) {
	g := &esl.Group{Namespace: "d", ID: "j"}
	if err := g.Apply(slices.Repeat([]esl.Policy{maker{}}, 1_000_000)); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "policies: has 1000000: at most 64") || len(g.Resources) > 0 {
		t.Errorf("%v, %d resources", err, len(g.Resources))
	}
}

// TestSharedChanged refuses a job under a shared policy that was changed or withdrawn since it was
// read.
func TestSharedChanged(t *testing.T) {
	for name, change := range map[string]func(w *esltest.World) error{
		"changed": func(w *esltest.World) error {
			return w.Jobs.Declare(t.Context(), "s", &esltest.Shared{Counter: esltest.Counter{Name: "two"}}, "")
		},
		"withdrawn": func(w *esltest.World) error { return w.Jobs.Withdraw(t.Context(), "s", false) },
	} {
		t.Run(name, func(t *testing.T) {
			w := esltest.NewWorld(t, esltest.NewRecord(nil))
			if err := w.Jobs.Declare(t.Context(), "s", &esltest.Shared{Counter: esltest.Counter{Name: "one"}}, ""); err != nil {
				t.Fatal(err)
			}
			tx, _, err := w.Jobs.Prepare(t.Context(), job("a", 1), esl.Use{Name: "s"})
			if err != nil {
				t.Fatal(err)
			}
			if err := change(w); err != nil {
				t.Fatal(err)
			}
			if _, err := tx.Commit(t.Context()); !types.Is(err, types.Conflict) {
				t.Errorf("it was submitted: %v", err)
			}
		})
	}
}

// TestWithdraw removes the policy's objects, unless jobs refer to it.
func TestWithdraw(t *testing.T) {
	w := esltest.NewWorld(t, esltest.NewRecord(nil))
	ctx := t.Context()
	declare := func() {
		t.Helper()
		if err := w.Jobs.Declare(ctx, "s", &esltest.Shared{Counter: esltest.Counter{Name: "one"}}, ""); err != nil {
			t.Fatal(err)
		}
	}
	left := func() (keys []string) {
		t.Helper()
		for _, kind := range []controlplane.Kind{controlplane.Resources, controlplane.Policies} {
			kvs, _, err := controlplane.ListAll(ctx, w.Store, controlplane.ListOptions{Prefix: controlplane.Prefix(kind)})
			if err != nil {
				t.Fatal(err)
			}
			for _, kv := range kvs {
				keys = append(keys, strings.TrimPrefix(kv.Key, controlplane.Root))
			}
		}
		return keys
	}
	if err := w.Jobs.Withdraw(ctx, "s", false); !types.Is(err, types.NotFound) {
		t.Errorf("of none the error is %v", err)
	}
	declare()
	for _, where := range []controlplane.Where{controlplane.OnEvery(), controlplane.OnNode("n1")} {
		w.Put(controlplane.NodeKey("n1"), &types.Node{})
		w.Put(controlplane.AliveKey("n1"), &types.Alive{})
		if _, err := w.Jobs.SetResource(ctx, "s.shared.more", 1000, where, controlplane.SetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	w.Pool("salt", 1000)
	if err := w.Jobs.Withdraw(ctx, "s", false); err != nil {
		t.Fatal(err)
	}
	if got := left(); len(got) != 1 || got[0] != "resources/d/salt/*" {
		t.Errorf("left are %q", got)
	}
	declare()
	w.Submit("a", 1, esl.Use{Name: "s"})
	if err := w.Jobs.Withdraw(ctx, "a", true); !types.Is(err, types.Precondition) {
		t.Errorf("a job was withdrawn: %v", err)
	}
	if err := w.Jobs.Withdraw(ctx, "s", false); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "such as a") {
		t.Errorf("it was withdrawn: %v", err)
	}
	if err := w.Jobs.Withdraw(ctx, "s", true); err != nil {
		t.Fatal(err)
	}
	if got := left(); len(got) != 2 || got[1] != "policies/d/a" {
		t.Errorf("left are %q", got)
	}
}

// TestWhyOfForeign says that the requested resource does not exist, until it does.
func TestWhyOfForeign(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(nil))
		done := w.Submit("a", 1, esl.Foreign{Name: "acme.com/even", With: `{"by":2}`})
		kept, _, err := w.Jobs.Policies(t.Context(), "a")
		if err != nil || kept.Policies[0].With != `{"by":2}` {
			t.Errorf("stored is %+v, %v", kept, err)
		}
		if why := w.Why(done.Tasks[0]); len(why) != 1 || !strings.Contains(why[0], "a.even") || !strings.Contains(why[0], "acme.com/even") {
			t.Errorf("it says %q", why)
		}
		w.Pool("a.even", 1000)
		if why := w.Why(done.Tasks[0]); len(why) != 0 {
			t.Errorf("it says %q", why)
		}
	})
}

// TestAttachedKeeps: the objects of an application end with it, and only it runs its policies.
func TestAttachedKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(func(_ string, s *esl.State) esl.Plan { return esltest.SetOwn(s, 1000) }))
		app, err := keep.Attach(t.Context(), w.Jobs, "app")
		if err != nil {
			t.Fatal(err)
		}
		w.Keep(w.Store)
		done, err := app.Submit(t.Context(), job("a", 1), &esltest.Counter{Name: "a"})
		if err != nil {
			t.Fatal(err)
		}
		esltest.Pass(time.Second)
		if got := w.Capacity("a.counter"); got != -1 {
			t.Errorf("a server keeps what is the application's: %d", got)
		}
		stop := runs(t, app.Run)
		esltest.Pass(time.Second)
		if got := w.Capacity("a.counter"); got != 1000 {
			t.Errorf("it is %d", got)
		}
		v := w.Snapshot()
		if task := v.Task(esltest.IDOf(done.Tasks[0])); task.Info.V.Full().Session != app.Session() {
			t.Error("the task is not of the session")
		}
		esltest.Pass(time.Minute)
		if len(w.Snapshot().Sessions) != 1 {
			t.Error("the session was lost while it ran")
		}
		stop()
		esltest.Pass(time.Minute)
		if len(w.Snapshot().Sessions) != 0 {
			t.Error("the session lasts without a renewal")
		}
	})
}

// TestDetached: a closed application's objects are gone at once, without waiting for its session to
// expire.
func TestDetached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := esltest.NewWorld(t, esltest.NewRecord(nil))
		app, err := keep.Attach(t.Context(), w.Jobs, "app")
		if err != nil {
			t.Fatal(err)
		}
		if err := app.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n := len(w.Snapshot().Sessions); n != 0 {
			t.Errorf("%d sessions last", n)
		}
	})
}

// TestWithdrawMeetsJob submits a job between the check and the withdrawal.
func TestWithdrawMeetsJob(t *testing.T) {
	w := esltest.NewWorld(t, esltest.NewRecord(nil))
	if err := w.Jobs.Declare(t.Context(), "s", &esltest.Shared{Counter: esltest.Counter{Name: "one"}}, ""); err != nil {
		t.Fatal(err)
	}
	store := esltest.NewTrouble(w.Store)
	store.Set(func(controlplane.Txn) (bool, bool) {
		store.OnCommit = func(controlplane.Txn) (bool, bool) { return true, false }
		w.Submit("a", 1, esl.Use{Name: "s"})
		return true, false
	})
	c, err := controlplane.New(store, "d")
	if err != nil {
		t.Fatal(err)
	}
	jobs := builtin.New(c)
	jobs.Kinds = w.Jobs.Kinds
	if err := jobs.Withdraw(t.Context(), "s", false); !types.Is(err, types.Precondition) {
		t.Errorf("it was withdrawn though a job refers to it: %v", err)
	}
}

// TestRequestDigestIsStored stores the digest of a job as requested, if it is given.
func TestRequestDigestIsStored(t *testing.T) {
	for _, want := range []string{"", "digest"} {
		w := esltest.NewWorld(t, esltest.NewRecord(nil))
		j := job("a", 2)
		j.RequestDigest = want
		if _, err := w.Jobs.Submit(t.Context(), j, maker{}); err != nil {
			t.Fatal(err)
		}
		kvs, _, err := controlplane.ListAll(t.Context(), w.Store, controlplane.ListOptions{Prefix: controlplane.JobKey(w.Jobs.Namespace(), "a")})
		if err != nil {
			t.Fatal(err)
		}
		var is types.Job
		if err := types.Decode(kvs[0].Value, &is); err != nil {
			t.Fatal(err)
		}
		if is.RequestDigest != want {
			t.Errorf("got %q, want %q", is.RequestDigest, want)
		}
	}
}
