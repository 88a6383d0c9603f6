package controlplane_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/relabel"
	"github.com/escher-sched/escher/types"
)

// between is a store in which an event happens before the first commit, and which drops the
// compares of some keys.
type between struct {
	controlplane.Store
	do        func()
	unguarded func(key string) bool
}

func (s *between) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	if do := s.do; do != nil {
		s.do = nil
		do()
	}
	if s.unguarded != nil {
		txn.Compares = slices.DeleteFunc(slices.Clone(txn.Compares), func(c controlplane.Compare) bool { return s.unguarded(c.Key) })
	}
	return s.Store.Commit(ctx, txn)
}

// clientGuard has an action of one client, an action of another one between its decision and its
// commit, and the damage if the compares below prefix are dropped.
type clientGuard struct {
	name, prefix string
	before       func(*world)
	act          func(context.Context, *controlplane.Client) error
	between      func(*world)
	wrong        func(*world) string
}

const guardedTask = "t-0123456789"

// bound binds the task to node n1.
func bound(w *world) {
	w.node("n1")
	w.put(controlplane.TaskKey("team", guardedTask), &types.Task{Name: "t", Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})})
	w.put(controlplane.StatusKey("team", guardedTask), &types.Status{Phase: types.Running, Attempt: 1, Node: "n1"})
}

func launchOne(ctx context.Context, c *controlplane.Client) error {
	_, err := c.Launch(ctx, controlplane.Submission{ID: guardedTask, Task: types.Task{Name: "t", Priority: 5}, Spec: &types.Spec{Image: "img"}})
	return err
}

// exists describes a key that exists although it must not.
func exists(key, although string) func(*world) string {
	return func(w *world) string {
		if page, _ := w.store.List(context.Background(), controlplane.ListOptions{Key: key}); len(page.KVs) > 0 {
			return key + " is there although " + although
		}
		return ""
	}
}

func taskGuards() []clientGuard {
	task := controlplane.TaskKey("team", guardedTask)
	lost := func(w *world) string {
		var t types.Task
		if w.get(task, &t); t.Stop == nil || t.Evict != 1 {
			return fmt.Sprintf("stop %v, evict %d: one of both is lost", t.Stop, t.Evict)
		}
		return ""
	}
	stop := func(ctx context.Context, c *controlplane.Client) error {
		return c.Stop(ctx, guardedTask, controlplane.StopOptions{Reason: "asked for"})
	}
	evict := func(ctx context.Context, c *controlplane.Client) error { return c.Evict(ctx, guardedTask, 1) }
	as := func(f func(context.Context, *controlplane.Client) error) func(*world) {
		return func(w *world) { _ = f(context.Background(), w.other()) }
	}
	return []clientGuard{
		{"stop", task, bound, stop, as(evict), lost},
		{"evict", task, bound, evict, as(stop), func(w *world) string {
			var t types.Task
			if w.get(task, &t); t.Stop == nil {
				return "the stop is lost"
			}
			return ""
		}},
		{"launch/task of that id", task, nil, launchOne, func(w *world) { w.put(task, &types.Task{Name: "other"}) }, func(w *world) string {
			var t types.Task
			if w.get(task, &t); t.Name != "other" {
				return "another client's task is gone"
			}
			return ""
		}},
		{"launch/closed cluster", controlplane.AdmissionKey(), nil, launchOne,
			func(w *world) { w.put(controlplane.AdmissionKey(), &types.Admission{Reason: "full"}) }, exists(task, "the cluster is closed")},
		{"launch/closed namespace", controlplane.NamespaceAdmissionKey("team"), nil, launchOne,
			func(w *world) { w.put(controlplane.NamespaceAdmissionKey("team"), controlplane.Over("keys", "9", "3")) }, exists(task, "the namespace is closed")},
		{"launch/ceiling", controlplane.NamespaceKey("team"), nil, launchOne, func(w *world) {
			w.put(controlplane.NamespaceKey("team"), &types.Namespace{Budget: &types.Budget{Priority: &types.Ceiling{Max: 1}}})
		}, exists(task, "its priority is above the ceiling")},
	}
}

func thingGuards() []clientGuard {
	reservation := controlplane.ReservationKey("team", "r")
	policies := controlplane.PoliciesKey("team", "p")
	return []clientGuard{
		{"reserve", reservation, nil, func(ctx context.Context, c *controlplane.Client) error {
			return c.Reserve(ctx, "r", types.Reservation{Priority: 2, Bundles: []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1})}}})
		}, func(w *world) { w.put(reservation, &types.Reservation{Priority: 1}) }, func(w *world) string {
			var r types.Reservation
			if w.get(reservation, &r); r.Priority != 1 {
				return "another client's reservation is gone"
			}
			return ""
		}},
		{"set resource/session of the node", controlplane.AliveKey("n1"), func(w *world) { w.node("n1") },
			func(ctx context.Context, c *controlplane.Client) error {
				_, err := c.SetResource(ctx, "x", 1000, controlplane.OnNode("n1"), controlplane.SetOptions{})
				return err
			}, func(w *world) {
				w.delete(controlplane.AliveKey("n1"))
				w.put(controlplane.AliveKey("n1"), &types.Alive{})
			}, func(w *world) string {
				page, _ := w.store.List(context.Background(), controlplane.ListOptions{Key: controlplane.AliveKey("n1")})
				var r types.Resource
				if w.get(controlplane.ResourceKey("team", "x", "n1"), &r) && r.NodeSession != page.KVs[0].CreateRevision {
					return "the resource is of a session that is over"
				}
				return ""
			}},
		{"set resource/owner", controlplane.Prefix(controlplane.Reservations, "team"), func(w *world) { w.put(reservation, &types.Reservation{}) },
			func(ctx context.Context, c *controlplane.Client) error {
				_, err := c.SetResource(ctx, "x", 1000, controlplane.InCluster(), controlplane.SetOptions{Lifetime: types.OfReservation, Owner: "r"})
				return err
			}, func(w *world) { w.delete(reservation) }, exists(controlplane.ResourceKey("team", "x", types.ClusterWide), "its owner is gone")},
		{"reserve/session", controlplane.SessionKey("team", "s"), func(w *world) { w.put(controlplane.SessionKey("team", "s"), &types.Session{}) },
			func(ctx context.Context, c *controlplane.Client) error {
				return c.Reserve(ctx, "r", types.Reservation{Session: "s", Bundles: []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1})}}})
			}, func(w *world) { w.delete(controlplane.SessionKey("team", "s")) }, exists(reservation, "its session is over")},
		{"set policies", policies, nil, func(ctx context.Context, c *controlplane.Client) error {
			_, err := c.Begin().SetPolicies("p", types.Policies{Policies: []types.Policy{{Kind: "mine"}}}, 0).Commit(ctx)
			return err
		}, func(w *world) { w.put(policies, &types.Policies{Policies: []types.Policy{{Kind: "theirs"}}}) }, func(w *world) string {
			var p types.Policies
			if w.get(policies, &p); len(p.Policies) != 1 || p.Policies[0].Kind != "theirs" {
				return "another client's declaration is gone"
			}
			return ""
		}},
	}
}

func administratorGuards() []clientGuard {
	space, cordon := controlplane.NamespaceKey("lab"), controlplane.CordonKey("n1")
	one := func(w *world) { w.node("n1") }
	away := func(w *world) { w.node("n1"); w.delete(controlplane.AliveKey("n1")) }
	back := func(w *world) { w.put(controlplane.AliveKey("n1"), &types.Alive{}) }
	return []clientGuard{
		{"create namespace", space, nil, func(ctx context.Context, c *controlplane.Client) error {
			return c.CreateNamespace(ctx, "lab", types.Namespace{Pids: 2})
		}, func(w *world) { w.put(space, &types.Namespace{Pids: 1}) }, func(w *world) string {
			var n types.Namespace
			if w.get(space, &n); n.Pids != 1 {
				return "another client's settings are gone"
			}
			return ""
		}},
		{"remove namespace in use", controlplane.Prefix(controlplane.Tasks, "lab"), func(w *world) { w.put(space, &types.Namespace{Pids: 1}) },
			func(ctx context.Context, c *controlplane.Client) error { return c.RemoveNamespace(ctx, "lab") },
			func(w *world) { w.put(controlplane.TaskKey("lab", guardedTask), &types.Task{Name: "t"}) }, func(w *world) string {
				if !w.get(space, &types.Namespace{}) {
					return "the settings of a namespace in use are gone"
				}
				return ""
			}},
		{"cordon", cordon, one, func(ctx context.Context, c *controlplane.Client) error {
			_, err := c.Cordon(ctx, "n1", types.Cordon{Reason: "mine"})
			return err
		}, func(w *world) { w.put(cordon, &types.Cordon{Drain: types.DrainMove}) }, func(w *world) string {
			var x types.Cordon
			if w.get(cordon, &x); x.Drain != types.DrainMove {
				return "the drain is over"
			}
			return ""
		}},
		{"cordon/node", controlplane.NodeKey("n1"), one, func(ctx context.Context, c *controlplane.Client) error {
			_, err := c.Cordon(ctx, "n1", types.Cordon{Reason: "mine"})
			return err
		}, func(w *world) { w.delete(controlplane.NodeKey("n1")) }, exists(cordon, "there is no such node")},
		{"label node", controlplane.NodeKey("n1"), one, func(ctx context.Context, c *controlplane.Client) error {
			_, _, err := relabel.Node(ctx, c.Store(), "n1", relabel.Change{Add: []types.Label{{Name: "team", Value: "x"}}})
			return err
		}, func(w *world) {
			w.put(controlplane.NodeKey("n1"), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 1000})})
		}, func(w *world) string {
			var n types.Node
			switch w.get(controlplane.NodeKey("n1"), &n); {
			case n.Capacity.Get("cpu") != 1000:
				return "the capacity that the agent has registered is gone"
			case n.Label("team") != "x":
				return "the label is gone"
			}
			return ""
		}},
		{"declare dead", controlplane.AliveKey("n1"), away, func(ctx context.Context, c *controlplane.Client) error {
			return c.DeclareDead(ctx, "n1", "burnt")
		}, back, exists(cordon, "the node is alive")},
		{"forget/alive", controlplane.AliveKey("n1"), away, func(ctx context.Context, c *controlplane.Client) error { return c.Forget(ctx, "n1") },
			back, func(w *world) string {
				if !w.get(controlplane.NodeKey("n1"), &types.Node{}) {
					return "the node is alive and forgotten"
				}
				return ""
			}},
		{"forget/held", controlplane.AllocatedKey("n1"), away, func(ctx context.Context, c *controlplane.Client) error { return c.Forget(ctx, "n1") },
			func(w *world) {
				w.put(controlplane.AllocatedKey("n1"), &types.Allocated{Holds: []types.Holding{{Resource: types.CPU, Amount: 1000}}})
			}, func(w *world) string {
				if !w.get(controlplane.NodeKey("n1"), &types.Node{}) {
					return "a node with a hold is forgotten"
				}
				return ""
			}},
	}
}

// other returns a second client of the same namespace.
func (w *world) other() *controlplane.Client {
	w.t.Helper()
	c, err := controlplane.New(w.store, "team")
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// run lets the client act while the other one interferes, and returns the damage.
func (g clientGuard) run(t *testing.T, guarded bool) string {
	t.Helper()
	w := newWorld(t)
	if g.before != nil {
		g.before(w)
	}
	s := &between{Store: w.store, do: func() { g.between(w) }}
	if !guarded {
		s.unguarded = func(key string) bool { return strings.HasPrefix(key, g.prefix) }
	}
	c, err := controlplane.New(s, "team")
	if err != nil {
		t.Fatal(err)
	}
	err = g.act(t.Context(), c)
	wrong := g.wrong(w)
	if !guarded && wrong == "" {
		t.Errorf("nothing is wrong without it: %v", err)
	}
	return wrong
}

// TestClientGuards checks that no interference between a read and a commit loses or corrupts
// anything, and that every compare is needed for that.
func TestClientGuards(t *testing.T) {
	for _, g := range slices.Concat(taskGuards(), thingGuards(), administratorGuards()) {
		t.Run(strings.ReplaceAll(g.name, " ", "-"), func(t *testing.T) {
			if wrong := g.run(t, true); wrong != "" {
				t.Error(wrong)
			}
			t.Logf("without it: %s", g.run(t, false))
		})
	}
}
