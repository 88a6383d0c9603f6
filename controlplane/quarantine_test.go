package controlplane_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/identity"
	"github.com/escher-sched/escher/controlplane/writers"
	"github.com/escher-sched/escher/types"
)

// plantJunk puts an unreadable value under a key of every kind, in the namespace of the world and
// in another one.
func (w *world) plantJunk() []string {
	w.t.Helper()
	var keys []string
	for _, ns := range []string{"team", "other"} {
		for _, k := range []controlplane.Key{
			{Kind: controlplane.Nodes, Node: "junk"}, {Kind: controlplane.Devices, Node: "junk"}, {Kind: controlplane.Alive, Node: "junk"},
			{Kind: controlplane.Rights, ID: "junk"}, {Kind: controlplane.Credentials, ID: "junk"}, {Kind: controlplane.Secrets, Namespace: ns, ID: "junk"},
			{Kind: controlplane.Tokens, Node: "junk"}, {Kind: controlplane.Admissions, Namespace: "junk"},
			{Kind: controlplane.Cordons, Node: "junk"}, {Kind: controlplane.Namespaces, Namespace: "junk"},
			{Kind: controlplane.Resources, Namespace: ns, Name: "junk", Where: "n1"}, {Kind: controlplane.Resources, Namespace: ns, Name: "junk2", Where: "*"},
			{Kind: controlplane.Resources, Namespace: ns, Name: "junk3", Where: "+"}, {Kind: controlplane.Sessions, Namespace: ns, ID: "junk"},
			{Kind: controlplane.Specs, Namespace: ns, ID: strings.Repeat("0", 64)}, {Kind: controlplane.Tasks, Namespace: ns, ID: "junk"},
			{Kind: controlplane.Jobs, Namespace: ns, ID: "junk"}, {Kind: controlplane.Reservations, Namespace: ns, ID: "junk"},
			{Kind: controlplane.Policies, Namespace: ns, ID: "junk"}, {Kind: controlplane.Histories, Namespace: ns, ID: "junk"}, {Kind: controlplane.Grants, Namespace: ns, ID: "junk"},
			{Kind: controlplane.Allocated, Node: "junk"}, {Kind: controlplane.Allocated, Where: "*", Namespace: ns, Name: "junk"},
			{Kind: controlplane.Bindings, Node: "n1", Namespace: ns, ID: "junk", Attempt: 1}, {Kind: controlplane.Reports, Node: "n1", Namespace: ns, ID: "junk", Attempt: 1},
			{Kind: controlplane.Provided, Namespace: ns, Name: "junk", Node: "n1"}, {Kind: controlplane.Statuses, Namespace: ns, ID: "junk"},
			{Kind: controlplane.Statuses, Namespace: ns, ID: "a-status-alone"}, {Kind: controlplane.Schedulers, ID: "junk"}, {Kind: controlplane.Leaders, ID: "junk"},
			{Kind: controlplane.System, ID: "epoch"}, {Kind: controlplane.System, ID: "junk"},
		} {
			key := k.String()
			if _, ok := controlplane.Parse(key); !ok {
				w.t.Fatalf("%s is no key", key)
			}
			if !slices.Contains(keys, key) {
				keys = append(keys, key)
				w.commit(controlplane.Op{Key: key, Value: []byte("junk")})
			}
		}
	}
	for _, a := range writers.Table() {
		if !slices.ContainsFunc(keys, func(key string) bool { return strings.HasPrefix(key, controlplane.Prefix(a.Kind)) }) {
			w.t.Errorf("there is no junk below %s", controlplane.Prefix(a.Kind))
		}
	}
	return keys
}

// second returns the error of a call with two results.
func second[T any](_ T, err error) error { return err }

// TestNothingFailsForJunk calls every method of a client with an unreadable value under a key of
// every kind.
func TestNothingFailsForJunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.put(controlplane.NodeKey("n1"), &types.Node{Capacity: types.Requests{{Name: "cpu", Amount: 1000}}})
		w.put(controlplane.AliveKey("n1"), &types.Alive{})
		w.plantJunk()
		ctx := t.Context()
		launched, err := w.Launch(ctx, controlplane.Submission{Task: types.Task{Name: "web"}, Spec: &types.Spec{Image: "x"}})
		if err != nil {
			t.Fatal(err)
		}
		id := launched.Tasks[0]
		for what, call := range map[string]func() error{
			"tasks":  func() error { _, _, err := w.Tasks(ctx); return err },
			"status": func() error { return second(w.Status(ctx, id)) },
			"state":  func() error { return second(cluster.Read(ctx, w.store, "team")) },
			"set on a node": func() error {
				return second(w.SetResource(ctx, "x", 1000, controlplane.OnNode("n1"), controlplane.SetOptions{}))
			},
			"set in the cluster": func() error {
				return second(w.SetResource(ctx, "y", 1000, controlplane.InCluster(), controlplane.SetOptions{}))
			},
			"set what is junk": func() error {
				return second(w.SetResource(ctx, "junk2", 1000, controlplane.InCluster(), controlplane.SetOptions{}))
			},
			"remove what is junk": func() error {
				return second(w.SetResource(ctx, "junk3", 0, controlplane.OnEvery(), controlplane.SetOptions{}))
			},
			"reserve": func() error {
				return w.Reserve(ctx, "r", types.Reservation{Bundles: []types.Bundle{{Requests: types.Requests{{Name: "cpu", Amount: 1}}}}})
			},
			"stop":                       func() error { return w.Stop(ctx, id, controlplane.StopOptions{}) },
			"make the id of the cluster": func() error { return second(identity.MakeClusterID(ctx, w.store)) },
		} {
			if err := call(); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		for what, call := range map[string]func() error{
			"stop junk":     func() error { return w.Stop(ctx, "junk", controlplane.StopOptions{}) },
			"status of":     func() error { return second(w.Status(ctx, "junk")) },
			"policies of":   func() error { _, _, err := w.Policies(ctx, "junk"); return err },
			"spec of":       func() error { return second(w.Spec(ctx, strings.Repeat("0", 64))) },
			"state of junk": func() error { return w.Evict(ctx, "junk", 0) },
		} {
			if err := call(); !types.Is(err, types.NotFound) || !strings.Contains(err.Error(), "repair key /escher/") {
				t.Errorf("%s: %v; want NotFound, and how to repair it", what, err)
			}
		}
	})
}

// TestWaitOutlastsJunk waits for and watches a task whose status is junk for a while.
func TestWaitOutlastsJunk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		launched, err := w.Launch(t.Context(), controlplane.Submission{Task: types.Task{Name: "web"}, Spec: &types.Spec{Image: "x"}})
		if err != nil {
			t.Fatal(err)
		}
		id := launched.Tasks[0]
		ctx, stop := context.WithCancel(t.Context())
		watched := make(chan error, 1)
		var mu sync.Mutex
		var last controlplane.StatusChange
		go func() {
			watched <- w.Watch(ctx, controlplane.WatchTasks{}, func(u controlplane.StatusUpdate) error {
				mu.Lock()
				defer mu.Unlock()
				for _, c := range u.Changes {
					last = c
				}
				return nil
			})
		}()
		waited := make(chan error, 1)
		go func() {
			_, err := w.Wait(ctx, controlplane.UntilEnded, id)
			waited <- err
		}()
		synctest.Wait()
		w.plantJunk()
		w.commit(controlplane.Op{Key: controlplane.StatusKey("team", id), Value: []byte("junk")})
		time.Sleep(time.Minute)
		mu.Lock()
		if last.ID != id || last.Status != nil || len(waited) > 0 || len(watched) > 0 {
			t.Errorf("%+v; %d waits and %d watches have ended", last, len(waited), len(watched))
		}
		mu.Unlock()
		w.put(controlplane.StatusKey("team", id), &types.Status{Phase: types.Failed})
		if err := <-waited; err != nil {
			t.Errorf("wait: %v", err)
		}
		stop()
		if err := <-watched; !errors.Is(err, context.Canceled) {
			t.Errorf("watch: %v", err)
		}
	})
}
