package explain

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/mirror"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/types"
)

// follow runs a mirror of what explanations need until the test ends.
func follow(t testing.TB, store controlplane.Store) *mirror.Store {
	t.Helper()
	s := mirror.New(mirror.Config{
		Store: store, Root: controlplane.Root, Prefixes: []string{controlplane.Prefix(controlplane.Tasks), controlplane.Prefix(controlplane.Statuses)}, Forks: BaseKinds(), Now: time.Now, Log: zap.NewNop(),
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return s
}

// TestWhyMirrored changes a cluster, and compares after each change what is explained from a mirror with what is
// explained without one.
func TestWhyMirrored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := crowded(t, 20, 100)
		b := follow(t, store)
		synctest.Wait()
		one := func(key string, m types.Message) func() *controlplane.Change {
			return func() *controlplane.Change {
				c := controlplane.NewChange(1)
				if m == nil {
					c.Delete(key)
				} else {
					c.Put(key, m)
				}
				return c
			}
		}
		for i, change := range []func() *controlplane.Change{
			one("none", &types.Alive{}), // of no kind that it has
			one(controlplane.CordonKey("n00001"), &types.Cordon{Reason: "by test"}),
			one(controlplane.AliveKey("n00002"), nil),
			one(controlplane.NodeKey("n00003"), nil),
			one(controlplane.AllocatedKey("n00004"), &types.Allocated{}),
			one(controlplane.NamespaceKey("a"), &types.Namespace{}),
			one(controlplane.SchedulerKey("s1"), &types.Leader{}),
			one(controlplane.AliveKey("n00002"), &types.Alive{}),
			one(controlplane.CordonKey("n00001"), nil),
			one(controlplane.ResourceKey("a", "x", "n00001"), &types.Resource{Capacity: 1}),
			one(controlplane.TaskKey("a", "large"), &types.Task{Requests: types.MustRequests(map[string]string{"x": "1"})}),
			one(controlplane.TaskKey("a", "large"), &types.Task{Requests: types.MustRequests(map[string]string{"cpu": "1000"})}),
		} {
			commit(t, store, change())
			for _, of := range []Subject{large(), {why.KindTask, "a", "t000001"}, {why.KindNode, "a", "n00001"}, {why.KindNode, "a", "n00003"}} {
				want, _, wantErr := Why(t.Context(), store, of, time.Unix(0, 1<<41))
				got, v, err := Why(t.Context(), b, of, time.Unix(0, 1<<41))
				if fmt.Sprint(err) != fmt.Sprint(wantErr) {
					t.Fatalf("%d. %v: %v, want %v", i, of, err, wantErr)
				}
				if err == nil && rendered(t, got) != rendered(t, want) {
					t.Errorf("%d. %v: a mirror says\n%s\nwant\n%s", i, of, rendered(t, got), rendered(t, want))
				}
				if v != nil && v.Revision != store.Revision() {
					t.Errorf("%d. %v: it is of revision %d, the store at %d", i, of, v.Revision, store.Revision())
				}
			}
		}
	})
}

// TestMirroredReadsLittle: with a mirror, Why reads neither the nodes nor all tasks from the store.
func TestMirroredReadsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := crowded(t, 200, readAtMost+1000)
		s := &counted{Store: store}
		b := follow(t, s)
		synctest.Wait()
		s.keys = 0
		x, _, err := Why(t.Context(), b, large(), time.Unix(0, 1<<41))
		if most := 3*5*110 + 10; err != nil || len(x.Notes) != 1 || s.keys > most {
			t.Errorf("it reads %d keys, at most %d are expected, and notes %v: %v", s.keys, most, x.Notes, err)
		}
	})
}
