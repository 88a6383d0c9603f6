package controlplane_test

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// gang returns policies with one gang policy.
func gang(job string) types.Policies {
	return types.Policies{Job: job, Policies: []types.Policy{{Kind: "gang", With: `{"onLoss":"fail"}`}}}
}

// TestJobsAreSubmittedWithWhatIsTheirs creates objects owned by a job in the transaction that
// launches it.
func TestJobsAreSubmittedWithWhatIsTheirs(t *testing.T) {
	w := newWorld(t)
	tx := w.Begin()
	l := tx.LaunchJob(controlplane.Job{ID: "j", Tasks: several(2)})
	r := bundles(2)
	r.Job = l.Job
	tx.Reserve("j.gang", r)
	tx.SetResource("j.slots", 1000, controlplane.InCluster(), controlplane.SetOptions{Lifetime: types.OfJob, Owner: l.Job})
	tx.SetPolicies("j", gang("j"), 0)
	done, err := tx.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		controlplane.JobKey("team", "j"), controlplane.ReservationKey("team", "j.gang"),
		controlplane.ResourceKey("team", "j.slots", "*"), controlplane.PoliciesKey("team", "j"),
	} {
		if rev := w.mod(key); rev != done.Revision {
			t.Errorf("%s is of revision %d, want %d", key, rev, done.Revision)
		}
	}
	var stored types.Reservation
	if w.get(controlplane.ReservationKey("team", "j.gang"), &stored); stored.Job != "j" {
		t.Errorf("stored is %+v", stored)
	}
}

// TestWhatIsOfAJobNeedsIt checks that an object cannot be owned by a missing job, or by one that
// the same transaction removes.
func TestWhatIsOfAJobNeedsIt(t *testing.T) {
	w := newWorld(t)
	r := bundles(1)
	r.Job = "j"
	w.refused(types.Precondition, func() error { return w.Reserve(t.Context(), "r", r) }, `job: there is no job "j"`, "create it first")
	set := func() error { _, err := w.Begin().SetPolicies("j", gang("j"), 0).Commit(t.Context()); return err }
	w.refused(types.Precondition, set, `job: there is no job "j"`, "create it first")
	w.put(controlplane.ReservationKey("team", "r"), &types.Reservation{})
	w.refused(types.Precondition, func() error {
		_, err := w.Begin().Unreserve("r").
			SetResource("x", 1, controlplane.InCluster(), controlplane.SetOptions{Lifetime: types.OfReservation, Owner: "r"}).Commit(t.Context())
		return err
	}, `owner: there is no reservation "r"`)
	r.Job = "a/b"
	w.refused(types.Invalid, func() error { return w.Reserve(t.Context(), "r", r) }, "job: ")
	w.put(controlplane.JobKey("team", "j"), &types.Job{})
	if err := set(); err != nil {
		t.Error(err)
	}
}

// TestPoliciesAreSetAndRemoved checks that policies are replaced only at the revision that was
// read.
func TestPoliciesAreSetAndRemoved(t *testing.T) {
	w, ctx := newWorld(t), t.Context()
	_, _, err := w.Policies(ctx, "q")
	w.refused(types.NotFound, func() error { return err }, "read policies q")
	set := func(p types.Policies, revision int64) error {
		_, err := w.Begin().SetPolicies("q", p, revision).Commit(ctx)
		return err
	}
	if err := set(gang(""), 0); err != nil {
		t.Fatal(err)
	}
	got, revision, err := w.Policies(ctx, "q")
	if err != nil || revision == 0 || len(got.Policies) != 1 || got.Policies[0] != gang("").Policies[0] {
		t.Fatalf("%+v of %d, %v", got, revision, err)
	}
	w.refused(types.AlreadyExists, func() error { return set(gang(""), 0) }, "set policies q", "policies with that id exist")
	other := types.Policies{Session: "s", Policies: []types.Policy{{Kind: "acme.com/even"}}}
	w.refused(types.Precondition, func() error { return set(other, revision) }, `session: there is no session "s"`)
	w.put(controlplane.SessionKey("team", "s"), &types.Session{})
	if err := set(other, revision); err != nil {
		t.Fatal(err)
	}
	w.refused(types.Conflict, func() error { return set(gang(""), revision) }, "set policies q", "decide again")
	remove := func(revision int64) error {
		_, err := w.Begin().RemovePolicies("q", revision).Commit(ctx)
		return err
	}
	w.refused(types.Conflict, func() error { return remove(revision) }, "decide again")
	if err := remove(w.mod(controlplane.PoliciesKey("team", "q"))); err != nil || w.has1(controlplane.PoliciesKey("team", "q")) {
		t.Errorf("it is not removed: %v", err)
	}
}

func TestSetPoliciesRefuses(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		id   string
		p    types.Policies
		says []string
	}{
		"nothing": {"q", types.Policies{}, []string{"policies: is empty"}},
		"names": {"a b", types.Policies{Job: "a/b", Session: "-", Policies: []types.Policy{{Kind: "gang"}, {Kind: "even/even"}, {Kind: ""}}},
			[]string{"id: ", "job: ", "session: ", "policies[1].name: ", "has no domain", "policies[2].name: "}},
	} {
		t.Run(name, func(t *testing.T) {
			before := w.store.Revision()
			w.refused(types.Invalid, func() error {
				_, err := w.Begin().SetPolicies(c.id, c.p, 0).Commit(t.Context())
				return err
			}, c.says...)
			if w.store.Revision() != before {
				t.Error("something was written")
			}
		})
	}
}

// TestNoResource checks that the condition names the owner of an existing resource, even one
// created just before the commit.
func TestNoResource(t *testing.T) {
	w := newWorld(t)
	set := func() error {
		_, err := w.Begin().IfNoResource("q.queue", "q").SetResource("q.queue", 1000, controlplane.InCluster(), controlplane.SetOptions{}).Commit(t.Context())
		return err
	}
	w.put(controlplane.ResourceKey("team", "q.queue", "n1"), &types.Resource{Capacity: 2000, Lifetime: types.OfSession, Owner: "s"})
	w.refused(types.AlreadyExists, set, "q.queue already (2 on node n1), of session s, which would change its owner", "set q.queue to 0 on node n1")
	w.delete(controlplane.ResourceKey("team", "q.queue", "n1"))
	if err := set(); err != nil {
		t.Error(err)
	}
	w.refused(types.AlreadyExists, set, "q.queue already (1 in the cluster), which would", "set q.queue to 0 in the cluster")
	w.put(controlplane.ResourceKey("team", "q.queue", "*"), &types.Resource{Capacity: 2000, Lifetime: types.OfPolicy, Owner: "other"})
	w.refused(types.AlreadyExists, set, "q.queue already (2 in the cluster), of policy other, which would", "set q.queue to 0 in the cluster")
	w.put(controlplane.ResourceKey("team", "q.queue", "*"), &types.Resource{Capacity: 2000, Lifetime: types.OfPolicy, Owner: "q"})
	if err := set(); err != nil {
		t.Errorf("of one that was left by the same policy the error is %v", err)
	}
	w.delete(controlplane.ResourceKey("team", "q.queue", "*"))
	w.lossy.before = func(int) {
		w.put(controlplane.ResourceKey("team", "q.queue", "*"), &types.Resource{Capacity: 3000})
	}
	if err := set(); !types.Is(err, types.AlreadyExists) || !strings.Contains(err.Error(), "q.queue already (3 in the cluster)") {
		t.Errorf("of one that came in between the error is %v", err)
	}
}
