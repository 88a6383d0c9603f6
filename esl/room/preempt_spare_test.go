package room

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// put puts a key into the view of a state.
func put(t *testing.T, s *esl.State, key string, m types.Message) {
	t.Helper()
	next := s.View.Revision + 1
	if _, _, err := s.View.Apply(controlplane.Event{KV: controlplane.KV{Key: key, ModRevision: next, CreateRevision: next, Value: types.Encode(1, m)}}); err != nil {
		t.Fatal(err)
	}
	s.View.Reached(next)
}

// cores returns bundles of so many cores.
func cores(of ...int) (bundles []types.Bundle) {
	for _, n := range of {
		bundles = append(bundles, types.Bundle{Requests: types.NewRequests(map[string]types.Quantity{"cpu": types.Quantity(n) * 1000})})
	}
	return bundles
}

// evictedBy returns the victims for bundles of priority 5, and whether all of the bundles fit then.
func evictedBy(s *esl.State, bundles []types.Bundle) (ids []string, ok bool) {
	c := newClearing(s, 5, time.Minute, true)
	_, ok = c.clear(asker{"d", "high", 5}, bundles)
	for _, u := range c.evicted {
		for _, t := range u.tasks {
			ids = append(ids, t.ID.ID)
		}
	}
	slices.Sort(ids)
	return ids, ok
}

// TestSpareAccumulated takes back what a reservation of lower priority has accumulated before any
// eviction, there or elsewhere.
func TestSpareAccumulated(t *testing.T) {
	s := occupied(t, "a n1 2 1 1", "b n2 4 0 1", "c n3 4 9 1")
	put(t, s, controlplane.ReservationKey("d", "other.gang"), &types.Reservation{Job: "other", Priority: 3})
	held := types.Holding{Resource: types.CPU, Amount: 2000}
	put(t, s, controlplane.GrantKey("d", "other.gang"), &types.Grant{
		Phase: types.Collecting, Reservation: s.View.Revision, Nodes: []types.GrantNode{{Node: "n1", Holds: []types.Holding{held}}},
	})
	put(t, s, controlplane.AllocatedKey("n1"), &types.Allocated{Holds: []types.Holding{{Resource: types.CPU, Amount: 4000}}})
	for asks, want := range map[int][]string{2: nil, 4: {"b"}} {
		if got, ok := evictedBy(s, cores(asks)); !ok || !slices.Equal(got, want) {
			t.Errorf("for %d cores are evicted %v, not %v, and it fits then: %v", asks, got, want, ok)
		}
	}
}

// TestSparePorts evicts the holder of a requested port and, if any port of the range will do, as
// few holders as needed, and no others, even of lower priority.
func TestSparePorts(t *testing.T) {
	for name, c := range map[string]struct {
		asks string
		want []string
	}{
		"by number":  {"port/8080", []string{"b"}},
		"by another": {"port/8081", nil},
		"of range":   {"port", []string{"c"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := occupied(t, "a n1 1 0 9", "b n1 1 1 1", "c n1 1 2 1", "d n2 4 9 1", "e n3 4 9 1")
			put(t, s, controlplane.NodeKey("n1"), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000}), PortFirst: 20000, PortLast: 20000})
			cpu := types.Holding{Resource: types.CPU, Amount: 1000}
			number := types.Holding{Resource: types.FixedPort(8080), Amount: 1000}
			ranged := types.Holding{Resource: types.Port, Amount: 1000, Devices: []types.DeviceShare{{ID: "20000", Share: 1000}}}
			put(t, s, controlplane.BindingKey("n1", "d", "b", 1), &types.Binding{Holds: []types.Holding{cpu, number}})
			put(t, s, controlplane.BindingKey("n1", "d", "c", 1), &types.Binding{Holds: []types.Holding{cpu, ranged}})
			used := &types.Allocated{Holds: []types.Holding{{Resource: types.CPU, Amount: 3000}, ranged, number}}
			put(t, s, controlplane.AllocatedKey("n1"), used)
			asks := types.NewRequests(map[string]types.Quantity{"cpu": 1000, c.asks: 1000})
			if got, ok := evictedBy(s, []types.Bundle{{Requests: asks}}); !ok || !slices.Equal(got, c.want) {
				t.Errorf("evicted are %v, not %v, and it fits then: %v", got, c.want, ok)
			}
		})
	}
}

// TestSpareOfLess spares, and counts on, holders of a resource that is in use beyond its capacity:
// no task requests it.
func TestSpareOfLess(t *testing.T) {
	for name, c := range map[string]struct {
		where string
		holds types.Holding
	}{
		"node": {"n1", types.Holding{Resource: "d:x", Amount: 1000}},
		"pool": {types.ClusterWide, types.Holding{Resource: "d:x", Amount: 1000, Cluster: true}},
	} {
		t.Run(name, func(t *testing.T) {
			s := occupied(t, "s n1 2 0 9", "a n1 2 1 1 g", "b n2 4 1 1 g", "d n3 4 5 1")
			cpu := types.Holding{Resource: types.CPU, Amount: 2000}
			put(t, s, controlplane.ResourceKey("d", "x", c.where), &types.Resource{})
			put(t, s, controlplane.BindingKey("n1", "d", "s", 1), &types.Binding{Holds: []types.Holding{cpu, c.holds}})
			if used := (types.Holding{Resource: "d:x", Amount: 2000}); c.holds.Cluster {
				put(t, s, controlplane.PoolKey("d", "x"), &types.Allocated{Holds: []types.Holding{used}})
			} else {
				put(t, s, controlplane.AllocatedKey("n1"), &types.Allocated{Holds: []types.Holding{{Resource: types.CPU, Amount: 4000}, used}})
			}
			for _, of := range []struct {
				asks []int
				want []string
			}{{[]int{2}, []string{"s"}}, {[]int{2, 4}, []string{"a", "b"}}} {
				if got, ok := evictedBy(s, cores(of.asks...)); !ok || !slices.Equal(got, of.want) {
					t.Errorf("for %v cores are evicted %v, not %v, and it fits then: %v", of.asks, got, of.want, ok)
				}
			}
		})
	}
}

// TestHandsOverOne makes capacity for a task whose handover fits in one transaction, though one
// before it does not fit; none is evicted for that one.
func TestHandsOverOne(t *testing.T) {
	s := occupied(t, "a n1 4 1 1", "b n2 4 1 2", "c n3 4 1 3")
	s.Ops = controlplane.HandOverCompares(1, 1)
	plan, fits := Preempt{}.making(s).begin([]taskset.Wish{
		{Job: "high", ID: "gang", Priority: 5, Ways: [][]types.Bundle{cores(4, 4)}},
		{Job: "high", ID: "one", Priority: 5, Ways: [][]types.Bundle{cores(4)}},
	}, []string{"0", "1"})
	if fits || len(plan.Reserve) != 1 || len(plan.Reserve[0].Bundles) != 1 || plan.Reason != "evict 1 task of lower priority" {
		t.Errorf("it fits: %v, and %+v", fits, plan)
	}
}

// TestReasonCountsTasks: the reason of a plan says how many tasks make room.
func TestReasonCountsTasks(t *testing.T) {
	s := occupied(t, "a n1 2 1 1", "b n1 2 1 2", "c n2 4 9 3", "d n3 4 9 4")
	for cpu, want := range map[int]string{2: "evict 1 task of lower priority", 4: "evict 2 tasks of lower priority"} {
		plan, _ := Preempt{}.making(s).begin([]taskset.Wish{{Job: "high", ID: "one", Priority: 5, Ways: [][]types.Bundle{cores(cpu)}}}, []string{"0"})
		if plan.Reason != want {
			t.Errorf("for %d cpu: %q, want %q", cpu, plan.Reason, want)
		}
	}
}

// TestHandsOver makes no reservation whose handover would be too large for a transaction.
func TestHandsOver(t *testing.T) {
	s := occupied(t)
	for i := range 30 {
		name := fmt.Sprintf("m%02d", i)
		put(t, s, controlplane.NodeKey(name), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000})})
	}
	put(t, s, controlplane.ResourceKey("d", "lic", types.ClusterWide), &types.Resource{Capacity: types.Inf})
	for _, c := range []struct {
		asks  string
		most  int
		stock int
	}{{"cpu", 28, 128}, {"lic", 27, 128}, {"x", 22, 128}, {"cpu", 30, 0}} {
		s.Ops = c.stock
		var bundles []types.Bundle
		for i := range 30 {
			asks := map[string]types.Quantity{"cpu": 1000, c.asks: 1000}
			bundles = append(bundles, types.Bundle{Node: fmt.Sprintf("m%02d", i), Requests: types.NewRequests(asks)})
			if ok := canHandOver(s, bundles); ok != (i < c.most) {
				t.Errorf("of %s on %d nodes, of %d operations: %v", c.asks, i+1, c.stock, ok)
			}
		}
	}
}
