package collecting

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/grants"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
)

// late is the work that arrives next to an accumulating gang.
type late struct {
	// gang is the number of bundles, each a whole node; 0 means tasks single tasks.
	gang, tasks int
	priority    int
	// age is how much older than the gang they are.
	age time.Duration
	// accumulate lets the late gang accumulate, too.
	accumulate bool
}

// put submits it.
func (l late) put(b *bench) {
	b.t.Helper()
	for i := range l.tasks {
		b.task(fmt.Sprintf("late%d", i), map[string]types.Quantity{"cpu": 1000}, func(t *types.Task) { t.Priority = l.priority })
	}
	if l.gang > 0 {
		b.lock("late", l.gang, func(r *types.Reservation) { r.Priority, r.Accumulate = l.priority, l.accumulate })
	}
	b.settle()
}

// begun is the number of its members that have begun; a gang counts as a whole.
func (l late) begun(b *bench) (n int) {
	for i := range l.tasks {
		if b.where(fmt.Sprintf("late%d", i)) != "pending" {
			n++
		}
	}
	if l.gang > 0 && b.isGranted("late") {
		n++
	}
	return n
}

// TestACollectingGangHoldsUpNothingAhead: four nodes become free after 10, 20, 30 and 40 minutes,
// and a gang of four collects them. Work of higher priority, or older at equal priority, begins as
// if it did not. Later work waits for it.
func TestACollectingGangHoldsUpNothingAhead(t *testing.T) {
	for name, test := range map[string]struct {
		late
		// want are the minutes in which some of it begins; never means after the gang.
		want []int
	}{
		"a task of one node":                         {late{tasks: 1, priority: 9}, []int{10}},
		"a gang of two":                              {late{gang: 2, priority: 9}, []int{20}},
		"a gang of two that may collect":             {late{gang: 2, priority: 9, accumulate: true}, []int{20}},
		"a gang of four":                             {late{gang: 4, priority: 9}, []int{40}},
		"a gang of four that may collect":            {late{gang: 4, priority: 9, accumulate: true}, []int{40}},
		"a gang of the same priority":                {late{gang: 4, accumulate: true}, nil},
		"older tasks of higher priority":             {late{tasks: 8, priority: 5, age: 5 * time.Minute}, []int{10, 20, 30, 40}},
		"older tasks of the same priority":           {late{tasks: 8, age: 5 * time.Minute}, []int{10, 20, 30, 40}},
		"an older gang of two of the same priority":  {late{gang: 2, age: 5 * time.Minute}, []int{20}},
		"younger tasks of the same priority":         {late{tasks: 8}, nil},
		"younger tasks of lower priority":            {late{tasks: 8, priority: -1}, nil},
		"an older gang of two, lower":                {late{gang: 2, priority: -1, age: 5 * time.Minute}, nil},
		"a younger gang of three of higher priority": {late{gang: 3, priority: 1}, []int{30}},
	} {
		for _, ops := range []int{128, 4096} {
			t.Run(fmt.Sprintf("%s, %d operations", name, ops), func(t *testing.T) {
				b := newLimitedBench(t, controlplane.Limits{Ops: ops, Bytes: 3 << 19}, config{Config: scheduler.Config{Seed: 1}})
				for i := range 4 {
					b.node(fmt.Sprintf("n%d", i), 1000)
					b.task(fmt.Sprintf("hog%d", i), map[string]types.Quantity{"cpu": 1000, fmt.Sprintf("node/n%d", i): 1})
				}
				b.settle()
				start := b.now
				if test.age > 0 {
					b.now = start.Add(-test.age)
					test.put(b)
					b.now = start
				}
				b.lock("r", 4, func(r *types.Reservation) { r.Accumulate = true })
				b.settle()
				var begins []int
				for minute := 1; minute <= 40; minute++ {
					for range 4 {
						b.later(15 * time.Second)
					}
					if minute == 1 && test.age == 0 {
						test.put(b)
					}
					if minute%10 == 0 {
						b.exited(fmt.Sprintf("hog%d", minute/10-1))
						b.settle()
						b.later(time.Second)
						b.now = start.Add(time.Duration(minute) * time.Minute)
					}
					for len(begins) < test.begun(b) {
						begins = append(begins, minute)
					}
				}
				if !slices.Equal(begins, test.want) {
					t.Errorf("it begins after %v minutes, want %v", begins, test.want)
				}
				if first := len(test.want) == 0; first != b.isGranted("r") {
					t.Errorf("the gang has begun: %t", !first)
				}
			})
		}
	}
}

// TestWhatIsAheadTakesAPartOfWhatWasCollected: a task that precedes the claimant fits on a node
// that is partly free and partly collected, pools included. The remainder stays collected.
func TestWhatIsAheadTakesAPartOfWhatWasCollected(t *testing.T) {
	b := newAging(t)
	b.put(controlplane.ResourceKey("d", "lic", types.ClusterWide), &types.Resource{Capacity: 3000})
	b.node("n1", 2000)
	b.task("a", map[string]types.Quantity{"cpu": 1200})
	b.task("b", map[string]types.Quantity{"cpu": 300, "lic": 1000})
	b.settle()
	b.reserve(bundleOf(map[string]types.Quantity{"cpu": 2000, "lic": 3000}))
	if g := b.grant(); grants.HeldOf(g.On("n1"), "cpu") != 500 || grants.HeldOf(g.On("n1"), "d:lic") != 2000 {
		t.Fatalf("it has collected %v", g.On("n1"))
	}
	b.task("high", map[string]types.Quantity{"cpu": 700, "lic": 2500}, func(t *types.Task) { t.Priority = 1 })
	b.task("low", map[string]types.Quantity{"cpu": 100}, func(t *types.Task) { t.Priority = -1 })
	b.settle()
	b.expect("high", "pending")
	b.exited("b")
	b.settle()
	b.expect("high", "bound on n1")
	b.expect("low", "pending")
	if g := b.grant(); grants.HeldOf(g.On("n1"), "cpu") != 100 || grants.HeldOf(g.On("n1"), "d:lic") != 500 {
		t.Errorf("it has %v left", g.On("n1"))
	}
	b.exited("high")
	b.exited("a")
	b.settle()
	b.later(2 * time.Second)
	if g := b.grant(); g.Phase != types.Granted {
		t.Errorf("its grant is %s", g.Phase)
	}
}

// TestACollectingGangGivesAllBackWhereTransactionsAreSmall: a gang that precedes the claimant gets
// its nodes even if they exceed a transaction.
func TestACollectingGangGivesAllBackWhereTransactionsAreSmall(t *testing.T) {
	const nodes = 100
	b := newLimitedBench(t, stock, config{Config: scheduler.Config{Seed: 1}, after: time.Second})
	for i := range nodes {
		b.node(fmt.Sprintf("n%03d", i), 1000)
	}
	b.task("hog", map[string]types.Quantity{"cpu": 1000, "node/n000": 1})
	b.settle()
	b.lock("r", nodes, func(r *types.Reservation) { r.Accumulate = true })
	b.settle()
	b.later(2 * time.Second)
	if g := b.grant(); g.Phase != types.Collecting || amountHeld(g) != 99_000 {
		t.Fatalf("its grant is %s and holds %d", g.Phase, amountHeld(g))
	}
	b.lock("high", 60, func(r *types.Reservation) { r.Priority = 1 })
	b.settle()
	if !b.isGranted("high") {
		t.Fatalf("it waits, and %d are held", amountHeld(b.grant()))
	}
	b.later(2 * time.Second)
	b.later(2 * time.Second)
	if g := b.grant(); g.Phase != types.Collecting || amountHeld(g) != 39_000 {
		t.Errorf("the other grant is %q and holds %d", g.Phase, amountHeld(g))
	}
}
