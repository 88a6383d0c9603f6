package server

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// drawKey draws from few keys, so that they collide.
func drawKey(r *rapid.T) (key string, m types.Message) {
	of := func(what string, choices ...string) string { return rapid.SampledFrom(choices).Draw(r, what) }
	id := of("id", "a", "b", "c")
	kind := of("kind", "task", "task", "status", "job", "session", "admission", "resource", "resource", "provided", "reservation", "policies", "alive", "namespace", "over")
	switch kind {
	case "task":
		t := &types.Task{Job: of("job", "", "j", "k"), Session: of("session", "", "s", "t"), Spec: of("spec", "x", "y")}
		if of("stop", "no", "yes") == "yes" {
			t.Stop = &types.Stop{}
		}
		return controlplane.TaskKey("ns", id), t
	case "status":
		phase := rapid.SampledFrom(types.Phases()).Draw(r, "phase")
		return controlplane.StatusKey("ns", id), &types.Status{Phase: phase, Ended: ago(int64(rapid.IntRange(1, 5).Draw(r, "age")) * hour)}
	case "job":
		return controlplane.JobKey("ns", of("job", "j", "k")), &types.Job{Tasks: rapid.IntRange(0, 3).Draw(r, "tasks")}
	case "session":
		return controlplane.SessionKey("ns", of("session", "s", "t")), &types.Session{}
	case "resource":
		lifetime := rapid.SampledFrom([]types.Lifetime{types.Forever, types.OfTask, types.OfSession, types.OfReservation, types.OfJob, types.OfPolicy}).Draw(r, "lifetime")
		res := &types.Resource{Lifetime: lifetime, Owner: of("owner", "a", "b", "s", "j", "q"), NodeSession: int64(rapid.IntRange(0, 2).Draw(r, "node session"))}
		return controlplane.ResourceKey("ns", of("name", "p", "q"), of("where", "+", "*", "n1", "n2")), res
	case "provided":
		return controlplane.ProvidedKey("ns", "p", of("node", "n1", "n2")), &types.Provided{NodeSession: int64(rapid.IntRange(0, 2).Draw(r, "node session")), Job: of("job", "", "j", "k")}
	case "reservation":
		return controlplane.ReservationKey("ns", of("reservation", "a", "s")), &types.Reservation{Session: of("session", "", "s", "t"), Job: of("job", "", "j", "k"), Policy: of("policy", "", "q")}
	case "policies":
		return controlplane.PoliciesKey("ns", of("id", "j", "q")), &types.Policies{Session: of("session", "", "s", "t"), Job: of("job", "", "j", "k")}
	}
	switch kind {
	case "namespace":
		budget := &types.Budget{Keys: int64(rapid.IntRange(0, 4).Draw(r, "keys")), Pending: int64(rapid.IntRange(0, 2).Draw(r, "pending"))}
		return controlplane.NamespaceKey("ns"), &types.Namespace{Budget: budget}
	case "over":
		return controlplane.NamespaceAdmissionKey("ns"), controlplane.Over(of("budget", "keys", "pending"), "9", "3")
	}
	if kind == "admission" {
		return controlplane.AdmissionKey(), &types.Admission{Busy: true}
	}
	return controlplane.AliveKey(of("node", "n1", "n2")), &types.Alive{}
}

// changes is a sequence of random changes.
type changes struct {
	rapid *rapid.T
	state map[string]controlplane.Event
	rev   int64
}

// next returns the next changes. An ended task stays so until it is deleted with its status; either
// delete may come first.
func (h *changes) next() []controlplane.Event {
	key, m := drawKey(h.rapid)
	if k, _ := controlplane.Parse(key); k.Kind == controlplane.Statuses || k.Kind == controlplane.Tasks {
		status := controlplane.StatusKey(k.Namespace, k.ID)
		var was types.Status
		if e, ok := h.state[status]; ok && types.Decode(e.Value, &was) == nil && was.Phase.Ended() {
			return rapid.Permutation([]controlplane.Event{h.delete(status), h.delete(controlplane.TaskKey(k.Namespace, k.ID))}).Draw(h.rapid, "order")
		}
	}
	if rapid.IntRange(0, 2).Draw(h.rapid, "delete") == 0 {
		return []controlplane.Event{h.delete(key)}
	}
	h.rev++
	e := controlplane.Event{KV: controlplane.KV{Key: key, Value: types.Encode(1, m), CreateRevision: h.rev, ModRevision: h.rev}}
	if old, ok := h.state[key]; ok {
		e.CreateRevision = old.CreateRevision
	}
	h.state[key] = e
	return []controlplane.Event{e}
}

func (h *changes) delete(key string) controlplane.Event {
	h.rev++
	delete(h.state, key)
	return controlplane.Event{KV: controlplane.KV{Key: key, ModRevision: h.rev}, Delete: true}
}

// reload lists everything to an index with gaps.
func (h *changes) reload(x *index) {
	has := func(key string) bool { _, ok := h.state[key]; return ok }
	for _, kind := range followed() {
		for _, key := range slices.Sorted(maps.Keys(h.state)) {
			if k, _ := controlplane.Parse(key); k.Kind == kind {
				x.apply(h.state[key], now())
			}
		}
		x.reduce(kind, has, h.rev, now())
	}
}

// TestIndexIsAsIfRebuilt checks that after any changes the index decides like one built from the
// present state, and is no larger.
func TestIndexIsAsIfRebuilt(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		x, h := newIndex(), &changes{rapid: r, state: make(map[string]controlplane.Event)}
		for range rapid.IntRange(1, 40).Draw(r, "changes") {
			events := h.next()
			if missed := rapid.IntRange(0, 7).Draw(r, "missed") == 0; missed {
				h.reload(x)
				continue
			}
			for _, e := range events {
				x.apply(e, now())
			}
			if rapid.Bool().Draw(r, "sized") {
				x.sizeAll()
			}
			// Undone decisions are considered again.
			steps, _ := x.at(now().Add(time.Hour), DefaultPolicy()).decide()
			for _, s := range steps {
				if s.of != nil {
					s.of.requeue(x)
				}
			}
		}
		rebuilt := newIndex()
		for _, key := range slices.Sorted(maps.Keys(h.state)) {
			rebuilt.apply(h.state[key], now())
		}
		x.sizeAll()
		rebuilt.sizeAll()
		if got, want := x.outline(), rebuilt.outline(); got != want {
			r.Fatalf("it has\n%s\na rebuilt one\n%s", got, want)
		}
		got, _ := x.at(now().Add(time.Hour), DefaultPolicy()).decide()
		want, _ := rebuilt.at(now().Add(time.Hour), DefaultPolicy()).decide()
		if told(got) != told(want) {
			r.Fatalf("it decides\n%s\na rebuilt one\n%s", told(got), told(want))
		}
	})
}

// sizeAll sets the size of unsized specs by their names.
func (x *index) sizeAll() {
	for _, p := range x.unsized {
		x.sizeSpec(p, controlplane.KV{Key: p.digest, Value: make([]byte, 100*int(p.digest[0]-'w'))})
	}
	x.unsized = nil
}

// outline returns the sizes of all parts.
func (x *index) outline() string {
	s := x.space("ns")
	specs := 0
	for _, p := range s.specs {
		specs += p.tasks
	}
	// Whether a job holds an ended task is only decided at its collection.
	members, open, ended := 0, 0, len(x.ended)
	for _, j := range s.jobs {
		open += j.open
		ended += len(j.held)
	}
	for _, p := range s.sessions {
		members += len(p.tasks)
	}
	return fmt.Sprintf("used %+v, %d tasks, %d wait, %d ended, %d jobs, %d of their tasks are open, %d empty, %d incomplete, %d sessions of %d, %d over, %d specs of %d, %d nodes, %d dependents, %d owners",
		s.used, len(s.tasks), x.waiting, ended, len(s.jobs), open, len(x.empty), len(x.incomplete), len(s.sessions), members, len(x.over),
		len(s.specs), specs, len(x.nodes), len(x.dependents), len(x.owned))
}

// TestEndingsAreInOrder checks the order after any additions and removals.
func TestEndingsAreInOrder(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		var h endings
		in := make(map[*task]bool)
		for range rapid.IntRange(1, 60).Draw(r, "steps") {
			if len(in) == 0 || rapid.IntRange(0, 2).Draw(r, "what") > 0 {
				x := &task{end: int64(rapid.IntRange(0, 20).Draw(r, "end"))}
				in[x] = true
				h.add(x)
			} else {
				x := h[rapid.IntRange(0, len(h)-1).Draw(r, "which")]
				delete(in, x)
				h.remove(x)
			}
		}
		last := int64(0)
		for range len(in) {
			x := h.first()
			if x.end < last || !in[x] {
				r.Fatalf("%d came after %d", x.end, last)
			}
			last = x.end
			h.remove(x)
		}
	})
}

// TestUnreadableValuesAreThere checks that an undecodable value counts as present, refers to
// nothing, and is not collected.
func TestUnreadableValuesAreThere(t *testing.T) {
	x := newIndex()
	broken := func(rev int64, key string) {
		x.apply(controlplane.Event{KV: controlplane.KV{Key: key, Value: []byte("?"), CreateRevision: rev, ModRevision: rev}}, now())
	}
	broken(1, controlplane.TaskKey("ns", "a"))
	x.learn(2, resource("*", types.Resource{Lifetime: types.OfTask, Owner: "a"}))
	broken(3, controlplane.SessionKey("ns", "s"))
	x.learn(4, aTask("b", types.Task{Session: "s", Job: "j"}))
	broken(5, controlplane.JobKey("ns", "j"))
	broken(6, controlplane.StatusKey("ns", "b"))
	broken(7, controlplane.ReservationKey("ns", "r"))
	x.learn(8, resource("+", types.Resource{Lifetime: types.OfReservation, Owner: "r"}))
	broken(9, controlplane.ResourceKey("ns", "q", "n1"))
	steps, _ := x.at(now().Add(9*time.Hour), DefaultPolicy()).decide()
	if len(steps) > 0 {
		t.Errorf("decided\n%s", told(steps))
	}
	broken(10, controlplane.AdmissionKey())
	steps, _ = x.at(now(), DefaultPolicy()).decide()
	if len(steps) > 0 {
		t.Errorf("decided\n%s", told(steps))
	}
}

// TestWithdrawnIsConsidered checks that dependents of policies are collected with them, though
// nothing else changes.
func TestWithdrawnIsConsidered(t *testing.T) {
	x := newIndex()
	policy := controlplane.PoliciesKey("ns", "q")
	x.learn(1, put{policy, &types.Policies{}})
	x.learn(2, resource("+", types.Resource{Lifetime: types.OfPolicy, Owner: "q"}))
	x.learn(3, put{controlplane.ReservationKey("ns", "a"), &types.Reservation{Policy: "q"}})
	if steps, _ := x.at(now(), DefaultPolicy()).decide(); len(steps) > 0 {
		t.Errorf("while the policy is there:\n%s", told(steps))
	}
	x.apply(controlplane.Event{KV: controlplane.KV{Key: policy, ModRevision: 4}, Delete: true}, now())
	steps, _ := x.at(now(), DefaultPolicy()).decide()
	for _, key := range []string{controlplane.ResourceKey("ns", "r", "+"), controlplane.ReservationKey("ns", "a")} {
		if !slices.ContainsFunc(steps, func(s step) bool { return slices.Contains(s.deletes, key) }) {
			t.Errorf("%s stays: decided\n%s", key, told(steps))
		}
	}
}
