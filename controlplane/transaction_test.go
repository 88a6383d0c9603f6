package controlplane_test

import (
	"testing"
	"testing/synctest"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// A reservation, the tasks that draw on it and a resource are committed together.
func TestTransactionIsOneRevision(t *testing.T) {
	w := newWorld(t)
	w.node("n1")
	tx := w.Begin().Reserve("train", bundles(2)).SetResource("queue", 0, controlplane.InCluster(), controlplane.SetOptions{Declare: true})
	ids := tx.Launch(several(2)...)
	got, err := tx.Commit(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{
		controlplane.ReservationKey("team", "train"), controlplane.ResourceKey("team", "queue", "*"),
		controlplane.TaskKey("team", ids[0]), controlplane.TaskKey("team", ids[1]),
	} {
		if rev := w.mod(key); rev != got.Revision {
			t.Errorf("%s is of revision %d, want %d", key, rev, got.Revision)
		}
	}
	got, err = w.Begin().Unreserve("train").Stop(ids[0], controlplane.StopOptions{Reason: "over"}).Commit(t.Context())
	var task types.Task
	if w.get(controlplane.TaskKey("team", ids[0]), &task); err != nil || task.Stop == nil || w.has1(controlplane.ReservationKey("team", "train")) {
		t.Errorf("%+v, %v, task %+v", got, err, task)
	}
}

func TestTransactionIsRefusedWhenWhatWasReadChanged(t *testing.T) {
	for name, c := range map[string]struct {
		change func(w *world)
		says   string
	}{
		"changed": {func(w *world) { w.put("/escher/cordons/n1", &types.Cordon{Reason: "again"}) }, "/escher/cordons/n1 moved from revision 4 to 5"},
		"deleted": {func(w *world) { w.delete("/escher/cordons/n1") }, "/escher/cordons/n1 of revision 4 was deleted"},
		"created": {func(w *world) { w.put("/escher/allocated/n1", &types.Allocated{}) }, "/escher/allocated/n1 was absent and was created at revision 5"},
		"none":    {func(*world) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1")
			reads := controlplane.ReadSet{"/escher/cordons/n1": w.put("/escher/cordons/n1", &types.Cordon{}), "/escher/allocated/n1": 0}
			c.change(w)
			commit := func() error {
				_, err := w.Begin(reads).SetResource("x", 1, controlplane.OnNode("n1"), controlplane.SetOptions{}).Commit(t.Context())
				return err
			}
			if c.says != "" {
				w.refused(types.Conflict, commit, c.says, "read again")
				return
			}
			if err := commit(); err != nil {
				t.Error(err)
			}
			w.wantHas("x", caps{"n1": 1})
		})
	}
}

// Keys in the read set must stay unchanged to the end; keys that the edits read may change
// meanwhile.
func TestTransactionTriesAgainForOtherKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.node("n1")
		reads := controlplane.ReadSet{"/escher/cordons/n1": 0}
		w.lossy.before = func(n int) {
			switch n {
			case 1, 2:
				w.put(controlplane.ResourceKey("team", "x", "n1"), &types.Resource{Capacity: 70})
			case 6:
				w.put(controlplane.ResourceKey("team", "x", "n1"), &types.Resource{Capacity: 71})
				w.put("/escher/cordons/n1", &types.Cordon{})
			}
		}
		set := func(q types.Quantity) error {
			_, err := w.Begin(reads).SetResource("x", q, controlplane.OnNode("n1"), controlplane.SetOptions{}).Commit(t.Context())
			return err
		}
		if err := set(1); err != nil || w.has("x")["n1"] != 1 {
			t.Errorf("%v, %v", err, w.has("x"))
		}
		if err := set(2); err != nil || w.has("x")["n1"] != 2 {
			t.Errorf("%v, %v", err, w.has("x"))
		}
		w.lossy.next(answered)
		w.lossy.commits()
		w.lossy.before = func(n int) {
			if n == 1 {
				w.put("/escher/cordons/n1", &types.Cordon{})
			}
		}
		if err := set(3); !types.Is(err, types.Conflict) || w.has("x")["n1"] != 2 {
			t.Errorf("%v, %v", err, w.has("x"))
		}
	})
}

func TestTransactionRefuses(t *testing.T) {
	w := newWorld(t, memstore.WithLimits(controlplane.Limits{Ops: 16, Bytes: 1 << 20}))
	w.node("n1")
	commit := func(tx *controlplane.Transaction) func() error {
		return func() error {
			_, err := tx.Commit(t.Context())
			return err
		}
	}
	w.refused(types.Invalid, commit(w.Begin()), "the transaction is empty")
	tx := w.Begin().Reserve("a b", types.Reservation{}).SetResource("gpu", -1, controlplane.Where{}, controlplane.SetOptions{})
	tx.Launch(one("-"))
	w.refused(types.Invalid, commit(tx), "id: ", "bundles: ", "capacity: ", "tasks[0]: ")
	tx = w.Begin()
	tx.Launch(several(20)...)
	w.refused(types.Invalid, commit(tx), "takes 16 at once", "--max-txn-ops")
	many := make(controlplane.ReadSet)
	for _, id := range tx.Launch(several(20)...) {
		many["/"+id] = 0
	}
	w.refused(types.Invalid, commit(w.Begin(many).SetResource("x", 1, controlplane.OnNode("n1"), controlplane.SetOptions{})), "takes 16 at once")
	w.refused(types.Conflict, commit(w.Begin(controlplane.ReadSet{"/a": 1}, controlplane.ReadSet{"/a": 2}).Unreserve("x")), "read /a: it moved from revision 1 to 2")
	w.refused(types.Invalid, commit(w.Begin().SetResource("x", 1, controlplane.OnNode("n1"), controlplane.SetOptions{}).SetResource("x", 2, controlplane.OnNode("n1"), controlplane.SetOptions{})), "twice")
	// One invalid part prevents all writes.
	w.refused(types.Invalid, commit(w.Begin().SetResource("x", 1, controlplane.OnNode("n1"), controlplane.SetOptions{}).SetResource("y", 1, controlplane.OnNode("n7"), controlplane.SetOptions{})), `"n7" is unknown`)
	w.refused(types.NotFound, commit(w.Begin().SetResource("x", 1, controlplane.OnNode("n1"), controlplane.SetOptions{}).Stop("nobody-1", controlplane.StopOptions{})), "no task nobody-1")
}

func TestTransactionNotAnswered(t *testing.T) {
	for _, f := range []fate{lost, forgotten, late} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.node("n1")
			w.lossy.next(f)
			reads := controlplane.ReadSet{controlplane.ResourceKey("team", "x", "n1"): 0}
			tx := w.Begin(reads).Reserve("train", bundles(1)).SetResource("x", 1, controlplane.OnNode("n1"), controlplane.SetOptions{})
			tx.Launch(one("web-1"))
			if _, err := tx.Commit(t.Context()); err != nil || w.writes(controlplane.TaskKey("team", "web-1")) != 1 {
				t.Errorf("fate %d: %v", f, err)
			}
		})
	}
}
