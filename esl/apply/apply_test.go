package apply_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/types"
)

// world is a store with a client of namespace team.
type world struct {
	*controlplane.Client
	t     *testing.T
	store controlplane.Store
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, memstore.New(memstore.WithLimits(controlplane.Limits{Ops: 128, Bytes: 1 << 20})))
}

func newWorldOf(t *testing.T, store controlplane.Store) *world {
	t.Helper()
	w := &world{t: t, store: store}
	c, err := controlplane.New(w.store, "team")
	if err != nil {
		t.Fatal(err)
	}
	w.Client = c
	return w
}

// view reads everything.
func (w *world) view() *cluster.View {
	w.t.Helper()
	v := cluster.New()
	kvs, revision, err := controlplane.ListAll(w.t.Context(), w.store, controlplane.ListOptions{Prefix: controlplane.Root})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, kv := range kvs {
		if _, _, err := v.Apply(controlplane.Event{KV: kv}); err != nil {
			w.t.Fatal(err)
		}
	}
	v.Reached(revision)
	return v
}

// revision returns the revision of the store.
func (w *world) revision() int64 {
	w.t.Helper()
	page, err := w.store.List(w.t.Context(), controlplane.ListOptions{Key: controlplane.EpochKey()})
	if err != nil {
		w.t.Fatal(err)
	}
	return page.Revision
}

// removed ends and removes the launched tasks.
func (w *world) removed(d *apply.Decision) {
	w.t.Helper()
	id := d.Changes[0].ID
	w.phase(id, types.Succeeded)
	if err := w.Remove(w.t.Context(), id); err != nil {
		w.t.Fatal(err)
	}
}

// forget compacts the history.
func (w *world) forget(revision int64) {
	w.t.Helper()
	if err := w.store.(*memstore.Store).Compact(w.t.Context(), revision); err != nil {
		w.t.Fatal(err)
	}
}

// phase sets the phase of a task.
func (w *world) phase(id string, p types.Phase) {
	w.t.Helper()
	change := controlplane.NewChange(controlplane.NewBatch())
	change.Put(controlplane.StatusKey("team", id), &types.Status{Phase: p, Attempt: 1})
	if _, err := w.store.Commit(w.t.Context(), change.Txn()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) parse(text string) []manifest.Document {
	w.t.Helper()
	docs, err := manifest.Parse("f", []byte(text), known())
	if err != nil {
		w.t.Fatal(err)
	}
	return docs
}

func (w *world) decide(text string, opts apply.Options) (*apply.Decision, error) {
	w.t.Helper()
	specs := func(digest string) (*types.Spec, error) { return w.Spec(context.Background(), digest) }
	docs, view := w.parse(text), w.view()
	d, err := apply.Decide(view, "team", specs, docs, time.Now(), opts)
	if err == nil {
		err = opts.If.Check(w.t.Context(), w.store, "team", docs, view.Revision)
	}
	if err != nil {
		return nil, err
	}
	if err := d.Expand(w.t.Context(), &esl.Client{Client: w.Client, Kinds: kinds()}); err != nil {
		return nil, err
	}
	return d, d.CheckSettings(w.t.Context(), w.Client)
}

// apply applies a file and returns the decision.
func (w *world) apply(text string, opts apply.Options) *apply.Decision {
	w.t.Helper()
	d, err := w.decide(text, opts)
	if err == nil {
		err = d.Perform(w.t.Context(), w.Client)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	return d
}

// want checks the actions.
func want(t *testing.T, d *apply.Decision, actions ...apply.Action) {
	t.Helper()
	var got []apply.Action
	for _, c := range d.Changes {
		got = append(got, c.Action)
	}
	if fmt.Sprint(got) != fmt.Sprint(actions) {
		t.Errorf("got %v, want %v", got, actions)
	}
}

// blocked checks that nothing is done and nothing is written.
func (w *world) blocked(text string, opts apply.Options, class types.Class, says ...string) {
	w.t.Helper()
	before := w.revision()
	d, err := w.decide(text, opts)
	if err == nil {
		err = d.Perform(w.t.Context(), w.Client)
	}
	if !types.Is(err, class) {
		w.t.Errorf("got %v, want it %s", err, class)
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			w.t.Errorf("%q does not say %q", err, s)
		}
	}
	if w.revision() != before {
		w.t.Error("something was written")
	}
}

const (
	header  = "apiVersion: escher.dev/v1\n"
	web     = header + "kind: Task\nname: web\ndeadline: 2h\nspec: {image: a}\n"
	changed = header + "kind: Task\nname: web\ndeadline: 2h\nspec: {image: b, env: [X=y]}\n"
	train   = header + "kind: Job\nname: train\ncount: 3\ntemplate: {spec: {image: a, grace: 3s}}\n"
	slot    = header + "kind: Resource\nname: slot\ncapacity: 2\nwhere: {cluster: true}\n"
	room    = header + "kind: Reservation\nname: room\nbundles: [{requests: {cpu: 1}}]\n"
)

func TestApplyIsDoneOnce(t *testing.T) {
	w := newWorld(t)
	all := strings.Join([]string{web, train, slot, room}, "---\n")
	want(t, w.apply(all, apply.Options{}), apply.Launch, apply.Launch, apply.Set, apply.Reserve)
	// A relative deadline counts from the submission, whenever the file is applied again.
	before := w.revision()
	want(t, w.apply(all, apply.Options{}), apply.Unchanged, apply.Unchanged, apply.Unchanged, apply.Unchanged)
	if w.revision() != before {
		t.Error("something was written")
	}
}

func TestApplyReplacesOnlyIfTold(t *testing.T) {
	w := newWorld(t)
	first := w.apply(web, apply.Options{}).Changes[0].ID
	w.phase(first, types.Running)
	w.blocked(changed, apply.Options{}, types.Precondition, first+" differs", "spec.env[0]: none → X=y", "spec.image: a → b", "allow replacing")
	d := w.apply(changed, apply.Options{Replace: true})
	want(t, d, apply.Replace)
	if s, err := w.Status(t.Context(), first); err != nil || s.Task.Stop == nil || s.Task.Stop.Grace != controlplane.DefaultGrace {
		t.Errorf("it is not stopped: %+v, %v", s.Task, err)
	}
	want(t, w.apply(changed, apply.Options{}), apply.Unchanged)
}

func TestApplyOfWhatHasEnded(t *testing.T) {
	w := newWorld(t)
	id := w.apply(web, apply.Options{}).Changes[0].ID
	// A task that ended by itself counts; a stopped one does not.
	w.phase(id, types.Succeeded)
	d := w.apply(web, apply.Options{})
	want(t, d, apply.Unchanged)
	if d.Changes[0].Note != "succeeded" {
		t.Errorf("note %q", d.Changes[0].Note)
	}
	// Nothing blocks a different one.
	d = w.apply(changed, apply.Options{})
	want(t, d, apply.Launch)
	if err := w.Stop(t.Context(), d.Changes[0].ID, controlplane.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	d = w.apply(changed, apply.Options{})
	want(t, d, apply.Launch)
	w.phase(d.Changes[0].ID, types.Cancelled)
	want(t, w.apply(changed, apply.Options{}), apply.Launch)
}

func TestApplyOfSeveralOfOneName(t *testing.T) {
	w := newWorld(t)
	for range 2 {
		if _, err := w.Launch(t.Context(), controlplane.Submission{Task: types.Task{Name: "web"}, Spec: &types.Spec{Image: "x"}}); err != nil {
			t.Fatal(err)
		}
	}
	w.blocked(web, apply.Options{}, types.Precondition, "of the same name have not ended", "stop all but one")
	d := w.apply(web, apply.Options{Replace: true})
	if want(t, d, apply.Replace); len(d.Changes[0].Stops) != 2 {
		t.Errorf("it stops %v", d.Changes[0].Stops)
	}
	if _, err := w.Launch(t.Context(), controlplane.Submission{Task: types.Task{Name: "web"}, Spec: &types.Spec{Image: "x"}}); err != nil {
		t.Fatal(err)
	}
	w.blocked(web, apply.Options{}, types.Precondition, d.Changes[0].ID+" is as described")
	want(t, w.apply(web, apply.Options{Replace: true}), apply.Unchanged)
	want(t, w.apply(web, apply.Options{}), apply.Unchanged)
}

func TestApplyOfJobs(t *testing.T) {
	w := newWorld(t)
	d := w.apply(train, apply.Options{})
	ids := d.Launched()
	for _, id := range ids {
		w.phase(id, types.Running)
	}
	w.blocked(strings.Replace(train, "count: 3", "count: 2", 1), apply.Options{}, types.Precondition, "tasks: 3 → 2")
	w.blocked(strings.Replace(train, "image: a", "image: b", 1), apply.Options{}, types.Precondition, "spec.image: a → b")
	// Some ended tasks may be deleted.
	w.phase(ids[0], types.Succeeded)
	if err := w.Remove(t.Context(), ids[0]); err != nil {
		t.Fatal(err)
	}
	want(t, w.apply(train, apply.Options{}), apply.Unchanged)
	d = w.apply(strings.Replace(strings.Replace(train, "count: 3", "count: 100", 1), "image: a", "image: b", 1), apply.Options{Replace: true})
	want(t, d, apply.Replace)
	if d.Changes[0].ID == "" || len(d.Launched()) != 100 {
		t.Errorf("job %q has %d tasks", d.Changes[0].ID, len(d.Launched()))
	}
	for _, id := range ids[1:] {
		if s, err := w.Status(t.Context(), id); err != nil || s.Task.Stop == nil || s.Task.Stop.Grace != 3*time.Second {
			t.Errorf("%s is not stopped: %+v, %v", id, s.Task, err)
		}
	}
}

func TestApplyOnCondition(t *testing.T) {
	w := newWorld(t)
	w.apply(web+"---\n"+slot, apply.Options{})
	d, err := w.decide(web+"---\n"+slot, apply.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want(t, w.apply(web+"---\n"+slot, apply.Options{If: d.Condition}), apply.Unchanged, apply.Unchanged)
	if _, err := w.SetResource(t.Context(), "slot", 5000, controlplane.InCluster(), controlplane.SetOptions{}); err != nil {
		t.Fatal(err)
	}
	w.blocked(slot, apply.Options{If: d.Condition}, types.Conflict, "slot has changed at revision", "review the plan")
	want(t, w.apply(slot, apply.Options{}), apply.Set)

	// A change between the decision and the commit is a conflict too.
	d, err = w.decide(changed, apply.Options{Replace: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Stop(t.Context(), d.Changes[0].Stops[0], controlplane.StopOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := d.Perform(t.Context(), w.Client); !types.Is(err, types.Conflict) {
		t.Errorf("got %v", err)
	}
}

// TestApplyDirectedReservation: where a reservation collects, and how far it is raised, is no
// difference from its file.
func TestApplyDirectedReservation(t *testing.T) {
	w := newWorld(t)
	file := room + "accumulate: true\n"
	w.apply(file, apply.Options{})
	key := controlplane.ReservationKey("team", "room")
	kv, err := controlplane.Get(t.Context(), w.Store(), key)
	var r types.Reservation
	if err != nil || types.Decode(kv.Value, &r) != nil {
		t.Fatal(err)
	}
	r.Raised, r.Collect = 1, &types.Collect{On: []string{"n1"}}
	c := controlplane.NewChange(1)
	c.Put(key, &r)
	if _, err := controlplane.Commit(t.Context(), w.Store(), c.Txn()); err != nil {
		t.Fatal(err)
	}
	want(t, w.apply(file, apply.Options{}), apply.Unchanged)
}

func TestApplyRefuses(t *testing.T) {
	w := newWorld(t)
	w.apply(room, apply.Options{})
	w.blocked(strings.Replace(room, "cpu: 1", "cpu: 2", 1), apply.Options{Replace: true}, types.Precondition, "reservation room", "delete reservation room")
	w.blocked(header+"kind: Task\nspec: {image: a}\n", apply.Options{}, types.Invalid, "line 1", "name: is missing", "submit it")
	w.blocked(header+"kind: Task\nid: x\nname: x\nspec: {image: a}\n", apply.Options{}, types.Invalid, "id: ", "leave it out")
	if _, err := apply.Submit(w.parse(slot), time.Now()); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "apply it") {
		t.Errorf("got %v", err)
	}
}

// The condition of a plan fails if an object that the file names has changed, even if it is back as
// it was, or gone again.
func TestApplyOnConditionOfWhatCameAndWent(t *testing.T) {
	room2 := strings.Replace(room, "name: room", "name: room2", 1)
	for name, c := range map[string]struct {
		file, before string
		change       func(w *world)
		conflict     string
	}{
		"task came and went": {file: web, change: func(w *world) { w.removed(w.apply(web, apply.Options{})) }, conflict: "/escher/tasks/team/web-"},
		"task went":          {file: web, before: web, change: func(w *world) { w.removed(w.apply(web, apply.Options{})) }, conflict: "an object that the file names was deleted"},
		"job came and went": {file: train, change: func(w *world) {
			d := w.apply(train, apply.Options{})
			for _, id := range d.Launched() {
				w.phase(id, types.Succeeded)
			}
			if _, err := w.RemoveJob(w.t.Context(), d.Changes[0].ID); err != nil {
				w.t.Fatal(err)
			}
		}, conflict: "/escher/jobs/team/train-"},
		"reservation came and went": {file: room, change: func(w *world) {
			w.apply(room, apply.Options{})
			if err := w.Unreserve(w.t.Context(), "room"); err != nil {
				w.t.Fatal(err)
			}
		}, conflict: "/escher/reservations/team/room has changed"},
		"others": {file: web + "---\n" + train + "---\n" + room, change: func(w *world) {
			longer := strings.Replace(web, "name: web", "name: web-api", 1)
			w.removed(w.apply(longer, apply.Options{}))
			w.apply(room2+"---\n"+slot, apply.Options{})
		}},
	} {
		for _, forgotten := range []bool{false, true} {
			w := newWorld(t)
			w.apply(slot, apply.Options{})
			if c.before != "" {
				w.apply(c.before, apply.Options{})
			}
			d, err := w.decide(c.file, apply.Options{})
			if err != nil {
				t.Fatal(err)
			}
			c.change(w)
			if forgotten {
				w.forget(w.revision())
			}
			bare := apply.Condition{Revision: d.Condition.Revision}
			for _, condition := range []apply.Condition{d.Condition, bare} {
				class := types.Internal
				switch {
				case c.before != "" && condition.Digest != "", c.conflict != "" && !forgotten:
					class = types.Conflict
				case forgotten && condition.Digest == "":
					class = types.Precondition
				}
				_, err := w.decide(c.file, apply.Options{If: condition})
				if (class == types.Internal) != (err == nil) || err != nil && (types.ClassOf(err) != class || !strings.Contains(err.Error(), "review the plan")) {
					t.Errorf("%s, %v, forgotten %v: %v", name, condition, forgotten, err)
				}
				if class == types.Conflict && condition.Digest != "" && !strings.Contains(err.Error(), c.conflict) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
}

func TestParseCondition(t *testing.T) {
	for text, want := range map[string]apply.Condition{
		"4711":          {Revision: 4711},
		"4711-9f86d081": {Revision: 4711, Digest: "9f86d081"},
	} {
		if got, err := apply.ParseCondition(text); err != nil || got != want || got.String() != text {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"0", "-1", "x", "4711-", "4711-9f", "4711-9f86d08g", "4711-9f86d081-", "99999999999999999999"} {
		if _, err := apply.ParseCondition(text); !types.Is(err, types.Invalid) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// Changes too large for one transaction are made in parts, each once.
func TestApplyInParts(t *testing.T) {
	w := newWorld(t)
	many := strings.Replace(train, "count: 3", "count: 200", 1)
	all := strings.Join([]string{slot, web, many}, "---\n")
	d := w.apply(all, apply.Options{})
	want(t, d, apply.Set, apply.Launch, apply.Launch)
	if n := len(d.Launched()); n != 201 || d.Changes[1].ID == "" || d.Changes[2].ID == "" {
		t.Errorf("launched %d: %q, %q", n, d.Changes[1].ID, d.Changes[2].ID)
	}
	want(t, w.apply(all, apply.Options{}), apply.Unchanged, apply.Unchanged, apply.Unchanged)
}

// TestApplyManyTasks applies more tasks of their own than one transaction holds. Those that an
// interrupted apply has launched are left alone by the next one.
func TestApplyManyTasks(t *testing.T) {
	w := newWorld(t)
	docs := []string{slot}
	for i := range 150 {
		docs = append(docs, strings.Replace(web, "name: web", fmt.Sprintf("name: web-%d", i), 1))
	}
	all := strings.Join(docs, "---\n")
	if n := len(w.apply(strings.Join(docs[:40], "---\n"), apply.Options{}).Launched()); n != 39 {
		t.Errorf("launched %d", n)
	}
	d := w.apply(all, apply.Options{})
	seen := make(map[string]bool)
	for i, c := range d.Changes[1:] {
		if c.ID == "" || seen[c.ID] || i >= 39 && c.Action != apply.Launch || i < 39 && c.Action != apply.Unchanged {
			t.Errorf("document %d: %s %q", i, c.Action, c.ID)
		}
		seen[c.ID] = true
	}
	if n := len(d.Launched()); n != 111 {
		t.Errorf("launched %d", n)
	}
	n := 0
	for range w.view().Tasks() {
		n++
	}
	if n != 150 {
		t.Errorf("there are %d tasks", n)
	}
}

func TestPreviewShowsWhatWillBeThere(t *testing.T) {
	w := newWorld(t)
	d, err := w.decide(slot, apply.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v, before := w.view(), w.revision()
	if err := d.Preview(t.Context(), w.Client, v); err != nil {
		t.Fatal(err)
	}
	if p := v.Pool("team:slot"); p == nil || p.Info.V.Capacity != 2000 || w.revision() != before {
		t.Errorf("the view shows %+v; revision %d, was %d", p, w.revision(), before)
	}
}
