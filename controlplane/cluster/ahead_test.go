package cluster_test

import (
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

func apply(t *testing.T, v *cluster.View, events ...controlplane.Event) {
	t.Helper()
	for _, e := range events {
		if _, _, err := v.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
}

func put(key string, m types.Message, create, mod int64) controlplane.Event {
	return controlplane.Event{KV: controlplane.KV{Key: key, Value: types.Encode(1, m), CreateRevision: create, ModRevision: mod}}
}

func gone(key string, mod int64) controlplane.Event {
	return controlplane.Event{Delete: true, KV: controlplane.KV{Key: key, ModRevision: mod}}
}

// TestCommittedIsKnownAgain checks that the view has the changes of a transaction before the watch,
// and that the watch's copy changes nothing.
func TestCommittedIsKnownAgain(t *testing.T) {
	v := cluster.New()
	apply(t, v, put(controlplane.AllocatedKey("n"), &types.Allocated{}, 3, 5))
	v.Reached(8)
	writes := []cluster.Write{
		{Key: controlplane.LeaderKey("r"), Value: &types.Leader{Holder: "me"}, Made: true},
		{Key: controlplane.AllocatedKey("n"), Value: &types.Allocated{Holds: []types.Holding{{Resource: "cpu", Amount: 1}}}},
	}
	if n := len(v.Committed(9, writes)); n != 2 {
		t.Fatalf("%d changed", n)
	}
	if a := &v.Nodes["n"].Allocated; a.Mod != 9 || a.Create != 3 || a.V.Of("cpu") != 1 {
		t.Errorf("%+v", a)
	}
	if l := v.Leaders["r"]; l == nil || l.Create != 9 {
		t.Errorf("%+v", l)
	}
	for i, e := range []controlplane.Event{put(writes[0].Key, writes[0].Value, 9, 9), put(writes[1].Key, writes[1].Value, 3, 9)} {
		if _, changed, err := v.Apply(e); changed || err != nil {
			t.Errorf("%d: changed %t, %v", i, changed, err)
		}
	}
	if x := v.Reached(9); len(x) > 0 {
		t.Errorf("%v vanished", x)
	}
	if v.Committed(9, writes) != nil {
		t.Error("it is applied again when it was seen")
	}
}

// TestListingAtTheRevisionOfACommit checks deletes from a listing at the revision of a transaction
// applied ahead.
func TestListingAtTheRevisionOfACommit(t *testing.T) {
	v := cluster.New()
	task := controlplane.TaskKey("d", "t")
	apply(t, v, put(task, &types.Task{}, 3, 3))
	v.Reached(5)
	leader := controlplane.LeaderKey("r")
	v.Committed(9, []cluster.Write{{Key: leader, Value: &types.Leader{}, Made: true}})
	apply(t, v, put(leader, &types.Leader{}, 9, 9), gone(task, 9))
	if x := v.Reached(9); len(x) > 0 {
		t.Errorf("%v vanished", x)
	}
	if v.NumTasks() > 0 {
		t.Error("the task is still there")
	}
}

// TestVanishedBetweenCommitAndListing checks that a key put ahead and missing in the listing is
// gone.
func TestVanishedBetweenCommitAndListing(t *testing.T) {
	v := cluster.New()
	keys := []string{controlplane.LeaderKey("a"), controlplane.LeaderKey("b"), controlplane.LeaderKey("c")}
	var writes []cluster.Write
	for _, key := range keys {
		writes = append(writes, cluster.Write{Key: key, Value: &types.Leader{}, Made: true})
	}
	v.Committed(9, writes)
	// a was put again, b is unchanged, c is gone.
	apply(t, v, put(keys[1], &types.Leader{}, 9, 9), put(keys[0], &types.Leader{Holder: "x"}, 9, 12))
	x := v.Reached(14)
	if len(x) != 1 || x[0].Key != keys[2] || !x[0].Delete {
		t.Fatalf("%v", x)
	}
	apply(t, v, x...)
	if len(v.Leaders) != 2 || v.Leaders["a"].V.Holder != "x" {
		t.Errorf("%v", v.Leaders)
	}
}

// TestDeletedAheadStaysDeleted checks that a change older than a delete applied ahead does not
// bring the key back.
func TestDeletedAheadStaysDeleted(t *testing.T) {
	v := cluster.New()
	key := controlplane.LeaderKey("r")
	apply(t, v, put(key, &types.Leader{}, 3, 3))
	v.Reached(3)
	v.Committed(9, []cluster.Write{{Key: key}})
	apply(t, v, put(key, &types.Leader{}, 3, 7))
	v.Reached(7)
	if len(v.Leaders) > 0 {
		t.Error("it is back")
	}
	apply(t, v, gone(key, 9), put(key, &types.Leader{}, 10, 10))
	v.Reached(10)
	if len(v.Leaders) != 1 {
		t.Error("it was made again, and is not there")
	}
}

// TestAnsweredAmidAListing checks a transaction whose writes, or later values, come with a listing
// in parts before its answer.
func TestAnsweredAmidAListing(t *testing.T) {
	v := cluster.New()
	apply(t, v, put(controlplane.AllocatedKey("n"), &types.Allocated{}, 3, 5))
	v.Reached(8)
	leaders := []string{controlplane.LeaderKey("a"), controlplane.LeaderKey("b"), controlplane.LeaderKey("c")}
	writes := []cluster.Write{{Key: leaders[0], Value: &types.Leader{}, Made: true}, {Key: controlplane.AllocatedKey("n"), Value: &types.Allocated{}}}
	for _, key := range leaders[1:] {
		writes = append(writes, cluster.Write{Key: key, Value: &types.Leader{}, Made: true})
	}
	apply(t, v, put(writes[1].Key, writes[1].Value, 3, 9), put(leaders[1], &types.Leader{Holder: "x"}, 9, 11))
	if n := len(v.Committed(9, writes)); n != 2 {
		t.Errorf("%d changed, want those that the listing has not brought", n)
	}
	apply(t, v, put(leaders[2], &types.Leader{}, 9, 9))
	x := v.Reached(12)
	apply(t, v, x...)
	if len(x) != 1 || x[0].Key != leaders[0] {
		t.Errorf("%v vanished", x)
	}
	if a := &v.Nodes["n"].Allocated; a.Mod != 9 {
		t.Errorf("what is allocated is of revision %d", a.Mod)
	}
}
