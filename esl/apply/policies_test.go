package apply_test

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/types"
)

// slots is a policy that creates a resource and makes each task request one unit.
type slots struct {
	Most int `json:"most,omitempty" desc:"how many there are"`
}

func (slots) Kind() string { return "slots" }

func (p slots) Apply(g *esl.Group) error {
	if p.Most < 0 {
		return esl.Invalid("most: %d is negative", p.Most)
	}
	g.AskAll(g.Own(""), esl.One)
	g.Make(g.Own(""), types.Quantity(max(1, p.Most))*esl.One, controlplane.InCluster())
	return nil
}

// lanes is a shared policy that creates a closed pool.
type lanes struct {
	Most int `json:"most,omitempty" desc:"how many there are"`

	kind string
}

func (p lanes) Kind() string { return p.kind }

func (lanes) Apply(*esl.Group) error { return nil }

func (lanes) Use(g *esl.Group, u esl.Use) error {
	g.AskAll(esl.OwnerOf(u.Name)+".lane", esl.One)
	return nil
}

func (lanes) Next(*esl.State) esl.Plan { return esl.Plan{} }

func (lanes) Declare(id string) ([]controlplane.Resource, error) {
	return []controlplane.Resource{{Name: id + ".lane", Where: controlplane.InCluster(), Options: controlplane.SetOptions{Declare: true}}}, nil
}

// kinds returns the policies of these tests.
func kinds() esl.Kinds {
	return esl.Kinds{}.With(
		func() esl.Policy { return slots{} },
		func() esl.Policy { return lanes{kind: "lane"} },
		func() esl.Policy { return lanes{kind: "house"} },
	)
}

// known returns the policies of these tests in the form of files.
func known() manifest.Policies {
	return manifest.Policies{
		"slots": {New: func() any { return &slots{} }, Job: true},
		"use":   {New: func() any { return &esl.Use{} }, Job: true},
		"lane":  {New: func() any { return &lanes{kind: "lane"} }, Shared: true},
		"house": {New: func() any { return &lanes{kind: "house"} }, Shared: true},
	}
}

const (
	gang  = train + "policies: [{name: slots, with: {most: 2}}]\n"
	lane  = header + "kind: Policy\nname: fast\npolicy: {name: lane, with: {most: 4}}\n"
	lane5 = header + "kind: Policy\nname: fast\npolicy: {name: lane, with: {most: 5}}\n"
)

// tasks returns the ids of the tasks of a job.
func (w *world) tasks(job string) []string {
	var ids []string
	for _, t := range w.view().Members(cluster.ID{Namespace: "team", ID: job}) {
		ids = append(ids, t.ID.ID)
	}
	return ids
}

func TestJobWithPoliciesIsAppliedOnce(t *testing.T) {
	w := newWorld(t)
	d := w.apply(gang, apply.Options{})
	want(t, d, apply.Launch)
	id := d.Changes[0].ID
	if p, _, err := w.Policies(t.Context(), id); err != nil || p.Policies[0].With != `{"most":2}` || len(w.tasks(id)) != 3 {
		t.Fatalf("%+v, %v, %v", p, w.tasks(id), err)
	}
	if got := strings.Join(d.Changes[0].Adds, "; "); got != "resource <job>.slots: 2 in the cluster; of 3 tasks, requests.<job>.slots: none → 1" {
		t.Errorf("it adds %s", got)
	}
	before := w.revision()
	want(t, w.apply(gang, apply.Options{}), apply.Unchanged)
	if w.revision() != before {
		t.Error("something was written")
	}
	// A job that has ended, without its policies, is still known.
	for _, task := range w.tasks(id) {
		w.phase(task, types.Succeeded)
	}
	_, revision, err := w.Policies(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Begin().RemovePolicies(id, revision).Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, w.apply(gang, apply.Options{}), apply.Unchanged)
}

func TestChangedPoliciesAreDifferences(t *testing.T) {
	w := newWorld(t)
	id := w.apply(gang, apply.Options{}).Changes[0].ID
	other := strings.Replace(gang, "most: 2", "most: 3", 1)
	w.blocked(other, apply.Options{}, types.Precondition, id+" differs", `(policies: slots {"most":2} → slots {"most":3})`)
	w.blocked(train, apply.Options{}, types.Precondition, `policies: slots {"most":2} → none`)
	// The additions of policies are no difference.
	w.blocked(strings.Replace(gang, "image: a", "image: b", 1), apply.Options{}, types.Precondition, "(spec.image: a → b)")
	w.blocked(strings.Replace(gang, "spec:", "deadline: 1h, spec:", 1), apply.Options{}, types.Precondition, "(deadline: none → ")
	d := w.apply(other, apply.Options{Replace: true})
	want(t, d, apply.Replace)
	want(t, w.apply(other, apply.Options{}), apply.Unchanged)
}

// A job without policies does not equal one with.
func TestPoliciesAreAddedToAJob(t *testing.T) {
	w := newWorld(t)
	id := w.apply(train, apply.Options{}).Changes[0].ID
	w.blocked(gang, apply.Options{}, types.Precondition, id+" differs", `(policies: none → slots {"most":2})`)
}

func TestPoliciesThatCannotBeMetAreToldAtOnce(t *testing.T) {
	w := newWorld(t)
	bad := strings.Replace(gang, "most: 2", "most: -2", 1)
	both := bad + "---\n" + strings.Replace(bad, "name: train", "name: other", 1)
	w.blocked(both, apply.Options{}, types.Invalid, "job train: policies[0] (slots): most: -2 is negative", "job other: policies[0]")
	if _, err := w.decide(both, apply.Options{}); err == nil || strings.Count(err.Error(), "train") != 1 || strings.Count(err.Error(), "other") != 1 {
		t.Errorf("%v does not name each job once", err)
	}
}

func TestSharedPolicyIsDeclaredWithItsJobs(t *testing.T) {
	w := newWorld(t)
	of := train + "policies: [{name: use, with: {name: fast}}]\n"
	w.blocked(of, apply.Options{}, types.Precondition, `job train: policies[0] (use): there is no shared policy "fast"`)
	both := of + "---\n" + lane
	want(t, w.apply(both, apply.Options{}), apply.Launch, apply.Declare)
	if p := w.view().Pool("team:fast.lane"); p == nil || p.Info.V == nil {
		t.Error("its resource is not declared")
	}
	before := w.revision()
	want(t, w.apply(lane, apply.Options{}), apply.Unchanged)
	if w.revision() != before {
		t.Error("something was written")
	}
	d, err := w.decide(lane5, apply.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, d, apply.Declare)
	if got := strings.Join(d.Changes[0].Differences, "; "); got != "with.most: 4 → 5" {
		t.Errorf("it differs by %s", got)
	}
	w.blocked(lane5, apply.Options{If: apply.Condition{Revision: 1}}, types.Conflict, "fast has changed at revision")
	// One of two concurrent changes is refused.
	want(t, w.apply(lane5, apply.Options{}), apply.Declare)
	if err := d.Perform(t.Context(), w.Client); !types.Is(err, types.Conflict) {
		t.Errorf("the second one got %v", err)
	}
	want(t, w.apply(lane5, apply.Options{}), apply.Unchanged)
	w.blocked(strings.Replace(both, "image: a", "image: b", 1), apply.Options{}, types.Precondition, "(spec.image: a → b)")
	w.blocked(strings.Replace(lane5, "name: lane", "name: house", 1), apply.Options{}, types.Precondition,
		`it is lane {"most":5}, and cannot be changed to house: remove policy fast`)
}

func TestSharedPolicyTakesNoIDOfAJob(t *testing.T) {
	w := newWorld(t)
	id := w.apply(gang, apply.Options{}).Changes[0].ID
	w.blocked(strings.Replace(lane, "name: fast", "name: "+id, 1), apply.Options{}, types.Precondition, "a job has that id: give the policy another name")
	plain := w.apply(strings.Replace(train, "name: train", "name: plain", 1), apply.Options{}).Changes[0].ID
	w.blocked(strings.Replace(lane, "name: fast", "name: "+plain, 1), apply.Options{}, types.Precondition, "a job has that id: give the policy another name")
}

// TestSharedPolicyTakesNothingOver checks that a shared policy leaves an existing resource of its
// name alone, even one created in between.
func TestSharedPolicyTakesNothingOver(t *testing.T) {
	w := newWorld(t)
	set := func(capacity types.Quantity, where controlplane.Where) {
		t.Helper()
		if _, err := w.SetResource(t.Context(), "fast.lane", capacity, where, controlplane.SetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	set(5000, controlplane.OnEvery())
	w.blocked(lane, apply.Options{}, types.AlreadyExists, "there is a resource fast.lane already (5 on every node), which would change its owner: remove it: set fast.lane to 0 on every node, or choose another id")
	d, err := w.decide(lane, apply.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Preview(t.Context(), w.Client, w.view()); !types.Is(err, types.AlreadyExists) {
		t.Errorf("plan says %v", err)
	}
	set(0, controlplane.OnEvery())
	resource := header + "kind: Resource\nname: fast.lane\ncapacity: 3\nwhere: {cluster: true}\n---\n"
	w.blocked(resource+lane, apply.Options{}, types.Invalid, "policy fast: it creates resource fast.lane, which the document in line 1 sets: drop that")
	want(t, w.apply(lane, apply.Options{}), apply.Declare)
	want(t, w.apply(lane5, apply.Options{}), apply.Declare) // it owns the resource now
}

// A preview has the objects of policies before the tasks are placed.
func TestPreviewHasWhatPoliciesMake(t *testing.T) {
	w := newWorld(t)
	before := w.revision()
	d, err := w.decide(gang, apply.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v := w.view()
	if err := d.Preview(t.Context(), w.Client, v); err != nil {
		t.Fatal(err)
	}
	name := d.Changes[0].Submissions[0].Task.Requests[0].Name
	if p := v.Pool(types.Resolve("team", name)); p == nil || p.Info.V == nil || p.Info.V.Capacity != 2000 {
		t.Errorf("%s is not there", name)
	}
	for range v.Tasks() {
		t.Error("there is a task")
	}
	if w.revision() != before {
		t.Error("something was written")
	}
}
