package share_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/submitter"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/ahead"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/types"
)

// projects is a fair-share between two namespaces, with a share for each of their users.
func projects(reclaim time.Duration) share.FairShare {
	return share.FairShare{
		Of:   map[string]share.Team{"vision": {Weight: 1, Anyone: 1}, "speech": {Weight: 1, Anyone: 1}},
		Over: []string{"cpu"}, Reclaim: manifest.Duration(reclaim),
	}
}

// joins lets all jobs of a namespace take part in policy teams of namespace d, or those that want to.
func joins(t *testing.T, c *controlplane.Client, ns string, required bool) {
	t.Helper()
	if err := c.SetNamespace(t.Context(), ns, func(n *types.Namespace) error {
		n.Policies = []types.NamespacePolicy{{Name: "d:teams", Required: required}}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// as is a context of requests by a user without further rights.
func as(ctx context.Context, user string) context.Context {
	return submitter.With(ctx, submitter.Submitter{User: user, ForOthers: func(string) error { return errors.New("no right") }})
}

// client returns a client of a namespace, as a server has it.
func client(t *testing.T, store controlplane.Store, ns string) *esl.Client {
	t.Helper()
	c, err := controlplane.New(submitter.Store{Store: store, Rules: share.Rules(store)}, ns)
	if err != nil {
		t.Fatal(err)
	}
	return builtin.New(c)
}

func submit(t *testing.T, c *esl.Client, user string, tasks []controlplane.Submission, policies ...esl.Policy) controlplane.Launched {
	t.Helper()
	job, err := c.Submit(as(t.Context(), user), controlplane.Job{Name: user, Tasks: tasks}, policies...)
	if err != nil {
		t.Fatal(err)
	}
	return job
}

// of returns how much of their shares users of namespaces have.
func of(v *cluster.View, pools ...string) (all []float64) {
	for _, pool := range pools {
		ns, user, _ := strings.Cut(pool, "/")
		p := v.Pools[types.Resolve(ns, "d..teams.fair-share."+ns+"."+user+".cpu")]
		if p == nil || p.Allocated.V == nil {
			all = append(all, 0)
			continue
		}
		all = append(all, float64(p.Allocated.V.Of(p.ID))/1000)
	}
	return all
}

func equal(a, b []float64) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

// TestAcrossNamespaces shares a cluster between two namespaces whose jobs say nothing of it: their users get
// the shares of their namespaces, a gang is evicted as a whole for another namespace, and nothing is left.
func TestAcrossNamespaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(4, 4)}, "teams", projects(30*time.Second))
		joins(t, s.Jobs.Client, "vision", true)
		joins(t, s.Jobs.Client, "speech", true)
		vision, speech := client(t, s.Jobs.Store(), "vision"), client(t, s.Jobs.Store(), "speech")
		submit(t, vision, "alice", esl.Copies(8, hollow.Task(1000)), gang.Gang{})
		submit(t, vision, "alice", esl.Copies(8, hollow.Task(1000)))
		time.Sleep(10 * time.Second)
		if got := of(s.Snapshot(), "vision/alice", "speech/bob"); !equal(got, []float64{16, 0}) {
			t.Fatalf("alone: %v", got)
		}
		submit(t, speech, "bob", esl.Copies(8, hollow.Task(1000)), gang.Gang{})
		time.Sleep(45 * time.Second)
		if got := of(s.Snapshot(), "vision/alice", "speech/bob"); !equal(got, []float64{8, 8}) {
			t.Fatalf("after bob came: %v", got)
		}
		submit(t, vision, "carol", esl.Copies(20, hollow.Task(1000)))
		time.Sleep(time.Minute)
		if got := of(s.Snapshot(), "vision/alice", "vision/carol", "speech/bob"); !equal(got, []float64{4, 4, 8}) && !equal(got, []float64{0, 8, 8}) && !equal(got, []float64{8, 0, 8}) {
			t.Errorf("with carol: %v", got)
		}
		if err := s.Jobs.Withdraw(t.Context(), "teams", false); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "4 jobs, such as speech:bob") {
			t.Errorf("withdrawn while in use: %v", err)
		}
		end(t, vision)
		end(t, speech)
		time.Sleep(10 * time.Second)
		if err := s.Jobs.Withdraw(t.Context(), "teams", false); err != nil {
			t.Fatal(err)
		}
		for rid := range s.Snapshot().Pools {
			t.Errorf("left behind: %s", rid)
		}
		if err := s.Audit(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// end stops all tasks of a namespace.
func end(t *testing.T, c *esl.Client) {
	t.Helper()
	tasks, _, err := c.Tasks(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		if err := c.Stop(t.Context(), task.ID, controlplane.StopOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

// hersFirst is a context of requests by alice.
func hersFirst(t *testing.T) context.Context { return as(t.Context(), "alice") }

// TestAcrossWhatProgramsPut: uses that no submission has checked count for nothing, a namespace over its budget
// gets no pool and holds up no other one, and defaults of a namespace draw on the share.
func TestAcrossWhatProgramsPut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 4)}, "teams", projects(0))
		for _, ns := range []string{"vision", "speech", "alpha"} {
			joins(t, s.Jobs.Client, ns, true)
		}
		store := s.Jobs.Store()
		// A program claims the share of bob, and a team of its own.
		for id, as := range map[string]string{"claims": "speech/bob", "invents": "more/mallory"} {
			use, err := esl.Stored(esl.Use{Name: "d:teams", As: as})
			if err != nil {
				t.Fatal(err)
			}
			put := controlplane.NewChange(controlplane.NewBatch())
			put.Put(controlplane.PoliciesKey("alpha", id), &types.Policies{Job: id, Policies: []types.Policy{use}})
			put.Put(controlplane.JobKey("alpha", id), &types.Job{Name: id, Tasks: 1})
			put.Put(controlplane.TaskKey("alpha", id), &types.Task{Job: id, Name: id, Submitted: 1, Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000, "never": 1000})})
			if _, err := controlplane.Commit(t.Context(), store, put.Txn()); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Jobs.SetNamespace(t.Context(), "speech", func(n *types.Namespace) error {
			n.Defaults = types.NewRequests(map[string]types.Quantity{"cpu": 2000})
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		vision, speech := client(t, store, "vision"), client(t, store, "speech")
		// Nothing is added to vision while its new user waits for a pool.
		waits := submit(t, vision, "alice", esl.Copies(2, hollow.Task(1000)))
		put := controlplane.NewChange(controlplane.NewBatch())
		put.Put(controlplane.NamespaceAdmissionKey("vision"), &types.Admission{Reason: "max-keys: full"})
		if _, err := controlplane.Commit(t.Context(), store, put.Txn()); err != nil {
			t.Fatal(err)
		}
		small := hollow.Task(0)
		small.Task.Requests = nil
		submit(t, speech, "bob", esl.Copies(2, small))
		time.Sleep(5 * time.Second)
		v := s.Snapshot()
		if got := of(v, "speech/bob"); !equal(got, []float64{4}) {
			t.Errorf("bob has %v", got)
		}
		for rid := range v.Pools {
			if ns, _, _ := rid.Split(); ns == "alpha" {
				t.Errorf("there is a pool %s", rid)
			}
		}
		for _, id := range waits.Tasks {
			if s, err := vision.Status(t.Context(), id); err != nil || s.Phase() == types.Pending && v.Closed["vision"] == nil {
				t.Errorf("%+v, %v", s, err)
			}
		}
	})
}

// TestAcrossWithdrawn: an administrator, as a server knows it, withdraws a policy that is in use, with all that it
// has made in other namespaces.
func TestAcrossWithdrawn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(2, 4)}, "teams", projects(0))
		joins(t, s.Jobs.Client, "vision", true)
		submit(t, client(t, s.Jobs.Store(), "vision"), "alice", esl.Copies(2, hollow.Task(1000)))
		time.Sleep(5 * time.Second)
		if got := of(s.Snapshot(), "vision/alice"); !equal(got, []float64{2}) {
			t.Fatalf("alice has %v", got)
		}
		org := client(t, s.Jobs.Store(), "d")
		if err := org.Withdraw(as(t.Context(), "boss"), "teams", true); err != nil {
			t.Fatal(err)
		}
		for rid, pool := range s.Snapshot().Pools {
			if pool.Info.V != nil {
				t.Errorf("left behind: %s", rid)
			}
		}
	})
}

// TestPoolsOfDomains: a resource of a domain has no dots in the name of a pool of another namespace, so that the
// name tells the user.
func TestPoolsOfDomains(t *testing.T) {
	store := memstore.New()
	org := client(t, store, "d")
	p := projects(0)
	p.Over = []string{"acme.io/fpga", "cpu"}
	if err := org.Declare(t.Context(), "teams", p, ""); err != nil {
		t.Fatal(err)
	}
	joins(t, org.Client, "vision", true)
	task := hollow.Task(1000)
	task.Task.Requests = task.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{"acme.io/fpga": 2000}))
	job := submit(t, client(t, store, "vision"), "alice", []controlplane.Submission{task})
	is, err := org.Client.Store().List(t.Context(), controlplane.ListOptions{Key: controlplane.TaskKey("vision", job.Tasks[0])})
	if err != nil {
		t.Fatal(err)
	}
	var stored types.Task
	pool := "d..teams.fair-share.vision.alice.acme_io_fpga"
	if !controlplane.Read(is.KVs[0], &stored) || stored.Requests.Get(pool) != 2000 || share.Payer(pool) != "alice" {
		t.Errorf("%+v, of %q", stored.Requests, share.Payer(pool))
	}
	if _, err := client(t, store, "vision").SetResource(as(t.Context(), "alice"), pool, 1, controlplane.InCluster(), controlplane.SetOptions{}); !types.Is(err, types.Denied) {
		t.Errorf("set: %v", err)
	}
}

// TestAcrossRefused is the table of what takes no part, and of what must.
func TestAcrossRefused(t *testing.T) {
	store := memstore.New()
	org, vision := client(t, store, "d"), client(t, store, "vision")
	if err := org.Declare(t.Context(), "teams", projects(0), ""); err != nil {
		t.Fatal(err)
	}
	launch := func(ns string, policies ...esl.Policy) error {
		_, err := client(t, store, ns).Submit(as(t.Context(), "alice"), controlplane.Job{Name: "j", Tasks: esl.Copies(1, hollow.Task(1000))}, policies...)
		return err
	}
	refused := func(err error, class types.Class, says string) {
		t.Helper()
		if !types.Is(err, class) || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	refused(launch("vision", esl.Use{Name: "d:teams"}), types.Denied, "jobs of namespace vision may not take part in d:teams: have an administrator allow it")
	refused(launch("vision", esl.Use{Name: "d:none"}), types.Denied, "jobs of namespace vision may not take part in d:none")
	joins(t, org.Client, "vision", false)
	if err := errors.Join(launch("vision", esl.Use{Name: "d:teams"}), launch("vision", esl.Use{Name: "d:teams", As: "vision/alice"}), launch("vision")); err != nil {
		t.Errorf("allowed: %v", err)
	}
	refused(launch("vision", esl.Use{Name: "d:teams", As: "speech/alice"}), types.Invalid, `as: "speech/alice" is not of the team of its namespace`)
	refused(launch("vision", esl.Use{Name: "d:teams", As: "vision/bob"}), types.Denied, `as: "bob" is another user`)
	joins(t, org.Client, "other", true)
	refused(launch("other"), types.Invalid, `as: "other/alice": d:teams has no such share: have an administrator add it`)
	refused(vision.Declare(hersFirst(t), "d..teams", projects(0), ""), types.Invalid, `"d..teams" has two dots in a row`)
	stored, err := esl.Stored(projects(0))
	if err != nil {
		t.Fatal(err)
	}
	_, err = vision.Begin().SetPolicies("d..teams", types.Policies{Policies: []types.Policy{stored}}, 0).Commit(hersFirst(t))
	refused(err, types.Denied, `"d..teams" has two dots in a row`)
	refused(launch("vision", esl.Use{Name: ":"}), types.Denied, "may not take part in :")

	joins(t, org.Client, "vision", true)
	if err := launch("vision"); err != nil {
		t.Errorf("required: %v", err)
	}
	hers := as(t.Context(), "alice")
	task := hollow.Task(1000)
	_, err = vision.Launch(hers, task)
	refused(err, types.Denied, "each task of namespace vision draws on a share of d:teams, as much as it requests of cpu")
	pool := "d..teams.fair-share.vision.alice.cpu"
	for says, more := range map[string]types.Requests{
		"as much as it requests of cpu": types.NewRequests(map[string]types.Quantity{pool: 999}),
		`"bob" is another user`:         types.NewRequests(map[string]types.Quantity{"d..teams.fair-share.vision.bob.cpu": 1000}),
		"each task of namespace vision": types.NewRequests(map[string]types.Quantity{"d..other.fair-share.vision.alice.cpu": 1000}),
	} {
		task := hollow.Task(1000)
		task.Task.Requests = task.Task.Requests.Plus(more)
		_, err := vision.Launch(hers, task)
		refused(err, types.Denied, says)
	}
	task.Task.Requests = task.Task.Requests.Plus(types.NewRequests(map[string]types.Quantity{pool: 1000}))
	if _, err := vision.Launch(hers, task); err != nil {
		t.Errorf("one that draws on the share: %v", err)
	}
	err = vision.Reserve(hers, "r", types.Reservation{Bundles: []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}}})
	refused(err, types.Denied, "reservations without a job draw on no share")
	err = vision.Declare(hers, "ahead", ahead.ReserveAhead{Bundles: []manifest.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}}, For: manifest.Duration(time.Hour), At: "2100-01-01T00:00:00Z"}, "")
	refused(err, types.Denied, "reserve-ahead reserves capacity that draws on no share")
	_, err = vision.SetResource(hers, pool, 64000, controlplane.InCluster(), controlplane.SetOptions{})
	refused(err, types.Denied, "it is a share of d:teams, which alone sets it")
	if _, err := vision.SetResource(hers, "mine.fair-share.alice.cpu", 64000, controlplane.InCluster(), controlplane.SetOptions{}); err != nil {
		t.Errorf("one of the own namespace: %v", err)
	}
}
