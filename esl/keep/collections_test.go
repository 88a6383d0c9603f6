package keep_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/esl/collect"
	"github.com/escher-sched/escher/esl/keep"
	"github.com/escher-sched/escher/types"
)

// collecting is a store with a full node, and calls of it counted.
type collecting struct {
	controlplane.Store
	t *testing.T
	// lists counts the listings of everything; meanwhile, unless nil, runs before the next commit.
	lists     atomic.Int32
	meanwhile atomic.Pointer[func()]
}

func (c *collecting) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	if opts.Prefix == controlplane.Root {
		c.lists.Add(1)
	}
	return c.Store.List(ctx, opts)
}

func (c *collecting) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	if f := c.meanwhile.Swap(nil); f != nil {
		(*f)()
	}
	return c.Store.Commit(ctx, txn)
}

func (c *collecting) put(key string, m types.Message) int64 {
	c.t.Helper()
	change := controlplane.NewChange(1)
	change.Put(key, m)
	res, err := c.Store.Commit(c.t.Context(), change.Txn())
	if err != nil {
		c.t.Fatal(err)
	}
	return res.Revision
}

// task is the one that may collect.
func (c *collecting) task() *types.Task {
	c.t.Helper()
	var t types.Task
	kv, err := controlplane.Get(c.t.Context(), c.Store, controlplane.TaskKey("d", "a"))
	if err != nil || types.Decode(kv.Value, &t) != nil {
		c.t.Fatal(err)
	}
	return &t
}

// run runs f next to keep.Run with collections, after a second of waiting.
func run(t *testing.T, guard func(*collecting) controlplane.ReadSet, f func(c *collecting)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := &collecting{Store: memstore.New(), t: t}
		one := types.NewRequests(map[string]types.Quantity{"cpu": 1000})
		c.put(controlplane.NodeKey("n1"), &types.Node{Capacity: one})
		c.put(controlplane.AliveKey("n1"), &types.Alive{})
		c.put(controlplane.AllocatedKey("n1"), &types.Allocated{Holds: []types.Holding{{Resource: "cpu", Amount: 500}}})
		opts := keep.Options{Collect: &collect.Config{After: time.Second}}
		if guard != nil {
			opts.Guard = guard(c)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- keep.Run(ctx, c, opts) }()
		esltest.Pass(time.Minute)
		if n := c.lists.Load(); n > 0 {
			t.Errorf("it follows the cluster, and nothing may collect")
		}
		c.put(controlplane.TaskKey("d", "a"), &types.Task{Requests: one, Accumulate: true, Submitted: time.Now().UnixNano()})
		f(c)
		if cancel(); !errors.Is(<-done, context.Canceled) {
			t.Error("it ended before")
		}
	})
}

// TestCollectionsAreDirected: a task is directed once it has waited, and no earlier. The cluster is
// followed no longer once it has ended.
func TestCollectionsAreDirected(t *testing.T) {
	run(t, nil, func(c *collecting) {
		esltest.Pass(time.Second - time.Millisecond)
		if to := c.task().Collect(); to != nil {
			t.Errorf("it is directed to %v early", to.On)
		}
		esltest.Pass(100 * time.Millisecond)
		if to := c.task().Collect(); to == nil || len(to.On) != 1 || to.On[0] != "n1" {
			t.Fatalf("it is directed to %v", to)
		}
		if c.lists.Load() == 0 {
			t.Error("its listings are not counted")
		}
		c.put(controlplane.StatusKey("d", "a"), &types.Status{Phase: types.Succeeded, Node: "n1", Attempt: 1})
		esltest.Pass(time.Minute)
		n := c.lists.Load()
		if esltest.Pass(time.Hour); c.lists.Load() != n {
			t.Errorf("it follows the cluster for a task that has ended")
		}
	})
}

// TestCollectorOfAnotherServer: a server that leads no more directs nothing.
func TestCollectorOfAnotherServer(t *testing.T) {
	led := func(c *collecting) controlplane.ReadSet {
		key := controlplane.LeaderKey("policies")
		held := c.put(key, &types.Leader{Holder: "a"})
		c.put(key, &types.Leader{Holder: "b"})
		return controlplane.ReadSet{key: held}
	}
	run(t, led, func(c *collecting) {
		esltest.Pass(3 * time.Second)
		if to := c.task().Collect(); to != nil {
			t.Errorf("it is directed to %v", to.On)
		}
	})
}

// TestDirectionOfAChangedObject: a change of the task while it is directed is kept, and the task
// directed after that.
func TestDirectionOfAChangedObject(t *testing.T) {
	run(t, nil, func(c *collecting) {
		raise := func() {
			x := c.task()
			types.UpdateLater(x, func(l *types.Later) { l.Raised = 3 })
			c.put(controlplane.TaskKey("d", "a"), x)
		}
		c.meanwhile.Store(&raise)
		esltest.Pass(3 * time.Second)
		if x := c.task(); x.Later == nil || x.Later.Raised != 3 || x.Later.Collect == nil {
			t.Errorf("it has %+v", x.Later)
		}
	})
}
