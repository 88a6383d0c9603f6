package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// choosy is a store that refuses and counts writes of some keys.
type choosy struct {
	*memstore.Store
	refuses func(key string) error
	refused atomic.Int32
	// calm makes it refuse nothing any more.
	calm atomic.Bool
}

func (c *choosy) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	for _, op := range txn.Ops {
		if err := c.refuses(op.Key); err != nil && !c.calm.Load() {
			c.refused.Add(1)
			return controlplane.Result{}, err
		}
	}
	return c.Store.Commit(ctx, txn)
}

func (c *choosy) want(t *testing.T, least, most int32) {
	t.Helper()
	if n := c.refused.Load(); n < least || n > most {
		t.Errorf("%d transactions were refused, want %d to %d", n, least, most)
	}
}

// TestDrainGoesOnDespiteErrors drains two nodes while the store refuses one task for good, and
// everything of one node for a while.
func TestDrainGoesOnDespiteErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &choosy{Store: memstore.New()}
		for _, id := range []string{"a", "bad", "c"} {
			write(t, s.Store, bound("n1", id, 1)...)
		}
		write(t, s.Store, bound("n2", "full", 1)...)
		for _, node := range []string{"n1", "n2"} {
			write(t, s.Store, put{controlplane.CordonKey(node), &types.Cordon{Drain: types.DrainMove}})
		}
		s.refuses = func(key string) error {
			switch key {
			case controlplane.TaskKey("ns", "bad"):
				return types.Errorf(types.Invalid, "too large")
			case controlplane.TaskKey("ns", "full"):
				return types.Errorf(types.Precondition, "the database is full")
			}
			return nil
		}
		core, lines := observer.New(zap.WarnLevel)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		d := NewDrainer(s, nil, Options{Logger: zap.New(core)})
		go func() { ended <- d.Run(ctx) }()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for _, id := range []string{"a", "c"} {
			if taskOf(t, s, id).Evict != 1 {
				t.Errorf("%s is not told", id)
			}
		}
		s.want(t, 40, 80) // two items, about 25 times each in ten minutes
		// One line for each, and one for attempts that do not end here.
		if n := lines.Len(); n != 3 || lines.FilterMessageSnippet("do not end").Len() != 1 {
			t.Errorf("%d lines of log: %v", n, lines.All())
		}
		s.calm.Store(true)
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, id := range []string{"bad", "full"} {
			if taskOf(t, s, id).Evict != 1 {
				t.Errorf("%s is not told later", id)
			}
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
}

// TestDrainWithLongReason drains a node sooner than its tasks were stopped before, by a program
// that stored reasons without a bound. Readable tasks leave with a short reason, and unreadable
// ones stay.
func TestDrainWithLongReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		write(t, s, put{controlplane.SpecKey("ns", "digest"), &types.Spec{Image: "i", Grace: time.Hour}})
		for id, bytes := range map[string]int{"long": 100_000, "huge": 1_572_300} {
			const reasonField, stopField = 2, 14
			stop := protowire.AppendTag(nil, reasonField, protowire.BytesType)
			stop = protowire.AppendString(stop, strings.Repeat("r", bytes))
			value := types.Encode(1, &types.Task{Spec: "digest"})
			value = protowire.AppendTag(value, stopField, protowire.BytesType)
			value = protowire.AppendBytes(value, stop)
			txn := controlplane.Txn{Ops: []controlplane.Op{{Key: controlplane.TaskKey("ns", id), Value: value}}}
			if _, err := s.Commit(t.Context(), txn); err != nil {
				t.Fatal(err)
			}
			write(t, s, put{controlplane.BindingKey("n1", "ns", id, 1), &types.Binding{}})
		}
		write(t, s, bound("n1", "other", 1)...)
		write(t, s, put{controlplane.CordonKey("n1"), &types.Cordon{Drain: types.DrainMove, Grace: 5 * time.Second}})
		err := draintest(t, nil, s, func(pass func()) {
			pass()
			task := taskOf(t, s, "long")
			if task.Stop == nil || task.Stop.Grace != 5*time.Second || len(task.Stop.Reason) != types.MaxReason {
				t.Errorf("it is told %+v", task.Stop)
			}
			if taskOf(t, s, "other").Evict != 1 {
				t.Error("another task is not told")
			}
		})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
}

// TestCollectorGoesOnDespiteErrors stops the tasks of an ended session while the store refuses one
// for good.
func TestCollectorGoesOnDespiteErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &choosy{Store: memstore.New(), refuses: func(key string) error {
			if key == controlplane.TaskKey("ns", "t-07") {
				return types.Errorf(types.Invalid, "too large")
			}
			return nil
		}}
		for i := range 20 {
			write(t, s.Store, aTask(fmt.Sprintf("t-%02d", i), types.Task{Session: "s"}))
		}
		m := &memMaintenance{Store: s.Store, usage: controlplane.Usage{Quota: 1000}}
		core, lines := observer.New(zap.WarnLevel)
		c, err := NewCollector(s, m, DefaultPolicy(), nil, Options{Logger: zap.New(core)})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		for i := range 20 {
			id := fmt.Sprintf("t-%02d", i)
			if stopped := taskOf(t, s, id).Stop != nil; stopped != (i != 7) {
				t.Errorf("%s is stopped: %t", id, stopped)
			}
		}
		if n := lines.Len(); n != 1 {
			t.Errorf("%d lines of log: %v", n, lines.All())
		}
		s.want(t, 10, 60)
		s.calm.Store(true)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if taskOf(t, s, "t-07").Stop == nil {
			t.Error("t-07 is not stopped later")
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
	})
}

// TestPanicsOverOneItem makes the drainer and the collector panic over one task each: they must
// report it, and continue with others.
func TestPanicsOverOneItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &choosy{Store: memstore.New(), refuses: func(key string) error {
			if strings.HasSuffix(key, "/bad") {
				panic("it is bad")
			}
			return nil
		}}
		for _, id := range []string{"a", "bad", "c"} {
			write(t, s.Store, bound("n1", id, 1)...)
			write(t, s.Store, put{controlplane.TaskKey("left", id), &types.Task{Session: "s"}})
		}
		write(t, s.Store, put{controlplane.CordonKey("n1"), &types.Cordon{Drain: types.DrainMove}})
		core, lines := observer.New(zap.ErrorLevel)
		m := &memMaintenance{Store: s.Store, usage: controlplane.Usage{Quota: 1000}}
		collector, err := NewCollector(s, m, DefaultPolicy(), nil, Options{Logger: zap.New(core)})
		if err != nil {
			t.Fatal(err)
		}
		drainer := NewDrainer(s, nil, Options{Logger: zap.New(core)})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		for _, run := range []func(context.Context) error{collector.Run, drainer.Run} {
			go func() { ended <- supervise.Contain(func() error { return run(ctx) }) }()
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		for _, id := range []string{"a", "bad", "c"} {
			page, err := s.List(t.Context(), controlplane.ListOptions{Key: controlplane.TaskKey("left", id)})
			if err != nil {
				t.Fatal(err)
			}
			var left types.Task
			controlplane.Read(page.KVs[0], &left)
			if told, stopped := taskOf(t, s, id).Evict == 1, left.Stop != nil; told != (id != "bad") || stopped != (id != "bad") {
				t.Errorf("%s: told to leave: %t, stopped: %t", id, told, stopped)
			}
		}
		for path, want := range map[string]string{
			controlplane.BindingKey("n1", "ns", "bad", 1): "attempt cannot be told to leave: the drain continues with others",
			controlplane.TaskKey("left", "bad"):           "cannot be collected: collection continues with others",
		} {
			if lines.FilterMessage(want).FilterField(zap.String("path", path)).Len() == 0 {
				t.Errorf("%s is not named: %v", path, lines.All())
			}
		}
		cancel()
		for range 2 {
			if err := <-ended; !errors.Is(err, context.Canceled) {
				t.Errorf("it ended with %v", err)
			}
		}
	})
}
