package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/scheduler/queue"
	"github.com/escher-sched/escher/types"
)

// resource sets the capacity of a resource of namespace d on a node.
func (b *bench) resource(name, node string) {
	b.t.Helper()
	b.put(controlplane.ResourceKey("d", name, node), &types.Resource{Capacity: 100_000, NodeSession: b.session(node)})
}

// asking submits tasks, each younger than the previous: "a: x y" requests x and y, and its own
// amount of cpu.
func (b *bench) asking(tasks ...string) {
	b.t.Helper()
	for i, text := range tasks {
		id, names, _ := strings.Cut(text, ":")
		requests := map[string]types.Quantity{"cpu": types.Quantity(100 + i)}
		for name := range strings.FieldsSeq(names) {
			requests[name] = 1
		}
		b.now = b.now.Add(time.Nanosecond)
		b.task(id, requests)
	}
}

// bindsOf returns the binds of drafts with their nodes, in order.
func bindsOf(drafts ...*Transaction) string {
	var out []string
	for _, d := range drafts {
		for _, x := range d.Binds {
			out = append(out, x.Task.ID+"@"+x.Node)
		}
	}
	return strings.Join(out, " ")
}

// besides is a core with nodes n1 to n3, and x1, x2 and x3 on one each.
func besides(t *testing.T, cfg Config) *bench {
	b := newBench(t, cfg)
	for _, n := range []string{"n1", "n2", "n3"} {
		b.node(n, 64000)
	}
	b.see()
	for _, n := range []string{"1", "2", "3"} {
		b.resource("x"+n, "n"+n)
	}
	b.see()
	return b
}

// besideCase is the waiting work, and the binds of the first transaction in order.
type besideCase struct {
	cfg  Config
	make func(b *bench)
	want string
}

// whatGoesBeside are cases of tasks that join a task on its node.
func whatGoesBeside() map[string]besideCase {
	return map[string]besideCase{
		"by a resource": {
			make: func(b *bench) { b.asking("a: x1", "b: x2", "c: x1", "d: x2", "e: x1") },
			want: "a@n1 c@n1 e@n1 b@n2 d@n2",
		},
		"by the name of the node": {
			make: func(b *bench) { b.asking("a: node/n1", "b: node/n2", "c: node/n1", "d: x1") },
			want: "a@n1 c@n1 d@n1 b@n2",
		},
		"few of many": {
			make: func(b *bench) {
				b.asking("a: x1", "b: x2", "c: x1", "d: x1", "e: x1", "f: x1", "g: x1", "h: x1", "i: x1", "j: x1")
			},
			want: "a@n1 c@n1 d@n1 e@n1 f@n1 g@n1 h@n1 i@n1 b@n2 j@n1",
		},
		"few in one transaction": {
			make: func(b *bench) {
				b.asking("a: x1", "b: x2", "c: x1", "d: x1", "e: x1", "f: x1", "g: x1", "h: x1", "i: x1", "j: x1", "k: x3", "l: x1")
			},
			want: "a@n1 c@n1 d@n1 e@n1 f@n1 g@n1 h@n1 i@n1 b@n2 j@n1 k@n3 l@n1",
		},
		"of one shape": {
			make: func(b *bench) {
				for _, id := range []string{"a", "b", "c"} {
					b.now = b.now.Add(time.Nanosecond)
					name := map[string]string{"a": "x1", "b": "x2", "c": "x1"}[id]
					b.task(id, map[string]types.Quantity{name: 1})
				}
			},
			want: "a@n1 c@n1 b@n2",
		},
		"beside what may go anywhere": {
			make: func(b *bench) {
				b.task("hog", map[string]types.Quantity{"cpu": 1000, "node/n1": 1})
				b.task("pig", map[string]types.Quantity{"cpu": 1000, "node/n2": 1})
				b.settle()
				b.asking("a", "b: x1", "c: x3")
			},
			want: "a@n3 c@n3 b@n1",
		},
	}
}

// whatDoesNot are cases of tasks that do not.
func whatDoesNot() map[string]besideCase {
	return map[string]besideCase{
		"not of another priority": {
			make: func(b *bench) {
				b.asking("a: x1", "b: x2")
				b.task("low", map[string]types.Quantity{"x1": 1}, func(t *types.Task) { t.Priority = -1 })
				b.task("high", map[string]types.Quantity{"x2": 1}, func(t *types.Task) { t.Priority = 1 })
			},
			want: "high@n2 a@n1 b@n2 low@n1",
		},
		"not what draws on a pool": {
			make: func(b *bench) {
				b.put(controlplane.ResourceKey("d", "licence", types.ClusterWide), &types.Resource{Capacity: 10})
				b.asking("a: x1", "b: x2", "c: x1 licence", "d: x1")
			},
			want: "a@n1 d@n1 b@n2 c@n1",
		},
		"not what may go elsewhere": {
			make: func(b *bench) {
				b.resource("x1", "n2")
				b.asking("a: node/n1", "b: node/n3", "c: x1", "d: node/n1")
				b.task("e", nil, func(t *types.Task) { // which it prefers, both are on one node
					t.Alternatives = []types.Alternative{
						{Requests: types.NewRequests(map[string]types.Quantity{"x3": 1})},
						{Requests: types.NewRequests(map[string]types.Quantity{"x2": 1})},
					}
				})
				b.asking("f: node/n3")
			},
			want: "a@n1 d@n1 b@n3 f@n3 c@n2 e@n3",
		},
		"not what collects": {
			make: func(b *bench) {
				b.asking("a: x1", "b: x2")
				b.task("c", map[string]types.Quantity{"x1": 1}, func(t *types.Task) { t.Accumulate = true })
				b.asking("d: x1")
			},
			want: "a@n1 d@n1 b@n2 c@n1",
		},
		"no more than a batch": {
			cfg:  Config{BatchTasks: 2},
			make: func(b *bench) { b.asking("a: x1", "b: x2", "c: x1", "d: x1") },
			want: "a@n1 c@n1",
		},
	}
}

// whatIsAlone are cases of tasks that neither join others nor are joined.
func whatIsAlone() map[string]besideCase {
	return map[string]besideCase{
		"not what is sent alone": {
			make: func(b *bench) {
				b.core.retries[queue.Key{ID: clusterID("d", "c")}] = solo
				b.asking("a: x1", "b: x2", "c: x1", "d: x1")
			},
			want: "a@n1 d@n1 b@n2",
		},
		"not beside what is sent alone": {
			make: func(b *bench) {
				b.core.retries[queue.Key{ID: clusterID("d", "a")}] = solo
				b.asking("a: x1", "b: x2", "c: x1")
			},
			want: "a@n1",
		},
		"a reservation in its turn": {
			make: func(b *bench) {
				b.asking("a: x1", "b: x2")
				b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{
					Submitted: b.now.UnixNano(), Bundles: []types.Bundle{bundleOf(map[string]types.Quantity{"x3": 1})},
				})
				b.asking("c: x1", "d: x3@r")
			},
			want: "a@n1 c@n1 b@n2 d@n3",
		},
		"not beside a reservation": {
			make: func(b *bench) {
				b.task("a", map[string]types.Quantity{"x1": 1}, func(t *types.Task) { t.Priority = 1 })
				b.put(controlplane.ReservationKey("d", "r"), &types.Reservation{
					Submitted: b.now.UnixNano(), Bundles: []types.Bundle{bundleOf(map[string]types.Quantity{"x3": 1})},
				})
				b.asking("b: x2", "c: x1")
			},
			want: "a@n1 b@n2 c@n1",
		},
	}
}

// whatIsWoken are cases of tasks pinned when woken, now or earlier.
func whatIsWoken() map[string]besideCase {
	return map[string]besideCase{
		"woken by a resource of its own": {
			make: func(b *bench) {
				b.asking("a: y1", "b: y2", "c: y3", "d: y4")
				b.settle()
				for i, n := range []string{"n1", "n2", "n1", "n2"} {
					b.resource(fmt.Sprintf("y%d", i+1), n)
				}
			},
			want: "a@n1 c@n1 b@n2 d@n2",
		},
		"woken by what was released": {
			make: func(b *bench) {
				b.asking("h: node/n1")
				b.put(controlplane.NodeKey("n1"), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 1000})})
				b.task("hog", map[string]types.Quantity{"cpu": 900, "node/n1": 1})
				b.settle()
				b.asking("a: x1", "b: x1")
				b.settle()
				b.exited("hog")
				b.see()
				d, res := b.commit() // returns the holdings of hog
				b.done(d, res)
			},
			want: "a@n1 b@n1",
		},
		"where the resource went meanwhile": {
			make: func(b *bench) {
				b.asking("a: node/n1", "b: node/n3", "c: x1", "d: node/n1", "e: x1")
				b.see()
				b.del(controlplane.ResourceKey("d", "x1", "n1"))
				b.resource("x1", "n2")
			},
			want: "a@n1 c@n2 d@n1 e@n2 b@n3",
		},
		"few, wherever they go": {
			make: func(b *bench) {
				b.asking("a: node/n1", "b: node/n3", "c: x1", "d: x1", "e: x1", "f: x1", "g: x1", "h: x1", "i: x1", "j: x1", "k: x1")
				b.see()
				b.del(controlplane.ResourceKey("d", "x1", "n1"))
				b.resource("x1", "n2")
			},
			want: "a@n1 c@n2 d@n2 e@n2 f@n2 g@n2 h@n2 i@n2 b@n3 j@n2 k@n2",
		},
		"waits when the resource went": {
			make: func(b *bench) {
				b.asking("a: node/n1", "b: node/n3", "c: x1", "d: node/n1", "e: x1")
				b.see()
				b.del(controlplane.ResourceKey("d", "x1", "n1"))
			},
			want: "a@n1 d@n1 b@n3",
		},
	}
}

// TestPlacedBeside: tasks pinned to the node of a task join it, and no others.
func TestPlacedBeside(t *testing.T) {
	for _, cases := range []map[string]besideCase{whatGoesBeside(), whatDoesNot(), whatIsAlone(), whatIsWoken()} {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				b := besides(t, c.cfg)
				c.make(b)
				b.see()
				d := b.core.nextOne(b.now)
				if got := bindsOf(d); got != c.want {
					t.Errorf("bound %s, want %s", got, c.want)
				}
				b.commitOne(d)
				b.settle()
			})
		}
	}
}

// commitOne commits a draft, and passes the answer to the core.
func (b *bench) commitOne(d *Transaction) {
	b.t.Helper()
	res, err := b.store.Commit(context.Background(), d.Change.Txn())
	if err != nil {
		b.t.Fatal(err)
	}
	b.core.Done(d, res, nil, b.now)
}

// TestRoomIsUsedUp: a transaction ends only when one more task would exceed it: each task that
// shares its node, and its relied keys, costs two compares.
func TestRoomIsUsedUp(t *testing.T) {
	for ops := 20; ops < 30; ops++ {
		b := besides(t, Config{Limits: controlplane.Limits{Ops: ops, Bytes: 1 << 20}})
		for i := range 20 {
			b.asking(fmt.Sprintf("t%02d: x1", i))
		}
		b.see()
		d := b.core.nextOne(b.now)
		if compares, _ := d.Change.Size(); compares+draft.Spare > ops || compares+draft.Spare+2 <= ops {
			t.Errorf("%d compares for %d tasks, of at most %d", compares, len(d.Binds), ops)
		}
		b.commitOne(d)
		b.settle()
	}
}

// TestScheduleBeside: the pure decision has the same order.
func TestScheduleBeside(t *testing.T) {
	b := besides(t, Config{})
	b.asking("a: x1", "b: x2", "c: x1", "d: x1", "e: x1", "f: x1", "g: x2")
	b.see()
	var pure []string
	for _, x := range Schedule(b.core.View(), Config{}, b.now).Binds {
		pure = append(pure, x.Task.ID+"@"+x.Node)
	}
	d := b.core.nextOne(b.now)
	if got, want := strings.Join(pure, " "), bindsOf(d); got != want {
		t.Errorf("it decides %s, the core %s", got, want)
	}
	b.commitOne(d)
}

// TestOvertaking: no task is bound before one of higher priority. An older task is overtaken by at
// most three for each task bound before it in turn.
func TestOvertaking(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := besides(t, Config{BatchTasks: rapid.IntRange(1, 20).Draw(rt, "batch")})
		type task struct {
			id       string
			priority int
		}
		var tasks []task // by age
		for range rapid.IntRange(0, 15).Draw(rt, "tasks") {
			x := task{fmt.Sprintf("t%03d", len(tasks)), rapid.IntRange(0, 1).Draw(rt, "priority")}
			tasks = append(tasks, x)
			b.now = b.now.Add(time.Nanosecond)
			requests := map[string]types.Quantity{"cpu": types.Quantity(len(tasks))}
			if n := rapid.IntRange(0, 3).Draw(rt, "node"); n > 0 {
				requests[fmt.Sprint("x", n)] = 1
			}
			b.task(x.id, requests, func(t *types.Task) { t.Priority = x.priority })
		}
		var order []string
		for {
			b.see()
			d := b.core.nextOne(b.now)
			if d == nil {
				break
			}
			for _, x := range d.Binds {
				order = append(order, x.Task.ID)
			}
			b.commitOne(d)
		}
		if len(order) != len(tasks) {
			rt.Fatalf("%d of %d are bound", len(order), len(tasks))
		}
		checkOvertaken(rt, order, func(id string) (age, priority int) {
			age = slices.IndexFunc(tasks, func(x task) bool { return x.id == id })
			return age, tasks[age].priority
		})
	})
}

func checkOvertaken(t *rapid.T, order []string, of func(id string) (age, priority int)) {
	for at, id := range order {
		age, priority := of(id)
		older, younger := 0, 0
		for _, before := range order[:at] {
			a, p := of(before)
			switch {
			case p < priority:
				t.Fatalf("%s is bound before %s, of a higher priority: %v", before, id, order)
			case p == priority && a < age:
				older++
			case p == priority:
				younger++
			}
		}
		if younger > (mostBeside-1)*older {
			t.Fatalf("%d that are younger are bound before %s, and %d that are older: %v", younger, id, older, order)
		}
	}
}

// TestSteeringIsNotAllocated: pinning does not allocate for a waiting task.
func TestSteeringIsNotAllocated(t *testing.T) {
	b := besides(t, Config{})
	b.asking("a: x1", "b: node/n2")
	b.see()
	for _, id := range []string{"a", "b"} {
		x := b.core.view.Task(clusterID("d", id))
		s := b.core.queue.Entry(queue.Key{ID: x.ID}).Shape
		if !s.IsPinned() {
			t.Errorf("%s is not pinned: %+v", id, s)
		}
		if n := testing.AllocsPerRun(100, func() { b.core.steer(s, x) }); n != 0 {
			t.Errorf("%s: %v allocations", id, n)
		}
	}
	b.settle()
}
