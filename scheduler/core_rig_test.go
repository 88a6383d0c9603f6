package scheduler

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// rig is a core on a store that keeps revisions alone.
type rig struct {
	core     *Core
	keys     map[string]rigKey
	revision int64
	now      time.Time
	echoes   [][]controlplane.Event
	flights  []*Transaction
	// tap, unless nil, receives the changes of each transaction.
	tap func(events []controlplane.Event)

	binds, grants, drafts   int
	next, done, echo, apply time.Duration
	// virtual is the duration with a store that answers after latency and needs perOp for each
	// operation, one after the other.
	virtual, storeFree time.Duration
	due                []time.Duration
}

const (
	rigLatency = 1500 * time.Microsecond
	rigPerOp   = 5 * time.Microsecond
	// rigLag is the number of transactions by which the watch is behind the answers.
	rigLag = 3
	// rigPools is the key prefix of the allocated amounts of pools.
	rigPools = controlplane.Root + "allocated/*/"
)

// rigKey is a key; value is set for pools only.
type rigKey struct {
	mod, create int64
	value       string
}

func newRig(cfg Config) *rig {
	return &rig{core: New(cfg), keys: make(map[string]rigKey), now: time.Unix(1000, 0), revision: 1}
}

// cpu returns the CPU time of this thread.
func cpu() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

func timed(sum *time.Duration, f func()) time.Duration {
	start := cpu()
	f()
	took := cpu() - start
	*sum += took
	return took
}

// event is a put or delete at the next revision.
func (r *rig) event(key string, m types.Message) controlplane.Event {
	k := r.keys[key]
	if k.create == 0 {
		k.create = r.revision + 1
	}
	k.mod = r.revision + 1
	r.keys[key] = k
	return controlplane.Event{KV: controlplane.KV{Key: key, Value: types.Encode(1, m), ModRevision: k.mod, CreateRevision: k.create}}
}

// tell passes events of one revision to the core.
func (r *rig) tell(events ...controlplane.Event) {
	r.revision++
	timed(&r.apply, func() {
		r.core.Apply(controlplane.Batch{Revision: r.revision, Events: events}, r.now)
	})
}

// commit checks the compares and applies the operations.
func (r *rig) commit(b *testing.B, d *Transaction) controlplane.Result {
	txn := d.Change.Txn()
	for _, c := range txn.Compares {
		if !r.holds(c) {
			b.Fatalf("refused: %v", c)
		}
	}
	r.revision++
	events := make([]controlplane.Event, len(txn.Ops))
	for i, op := range txn.Ops {
		if op.Delete {
			delete(r.keys, op.Key)
			events[i] = controlplane.Event{Delete: true, KV: controlplane.KV{Key: op.Key, ModRevision: r.revision}}
			continue
		}
		k := r.keys[op.Key]
		if k.create == 0 {
			k.create = r.revision
		}
		k.mod = r.revision
		if strings.HasPrefix(op.Key, rigPools) {
			k.value = string(op.Value)
		}
		r.keys[op.Key] = k
		events[i] = controlplane.Event{KV: controlplane.KV{Key: op.Key, Value: op.Value, ModRevision: k.mod, CreateRevision: k.create}}
	}
	r.echoes = append(r.echoes, events)
	if r.tap != nil {
		r.tap(events)
	}
	if len(txn.Compares) > r.core.cfg.Limits.Ops || len(txn.Ops) > r.core.cfg.Limits.Ops {
		b.Fatalf("%d compares, %d operations", len(txn.Compares), len(txn.Ops))
	}
	return controlplane.Result{Committed: true, Revision: r.revision}
}

func (r *rig) holds(c controlplane.Compare) bool {
	k := r.keys[c.Key]
	switch c.Target {
	case controlplane.CreateRevision:
		return k.create == c.Revision
	case controlplane.Value:
		return k.value == c.Content
	case controlplane.Newest:
		return true // no node is cordoned
	}
	return k.mod == c.Revision
}

// run steps the core until it has nothing to do.
func (r *rig) run(b *testing.B) {
	for {
		r.now = r.now.Add(time.Millisecond)
		for {
			var d *Transaction
			r.virtual += timed(&r.next, func() { d = r.core.nextOne(r.now) })
			if d == nil {
				break
			}
			_, ops := d.Change.Size()
			r.storeFree = max(r.virtual+rigLatency, r.storeFree) + time.Duration(ops)*rigPerOp
			r.due = append(r.due, r.storeFree)
			r.flights = append(r.flights, d)
			r.drafts++
		}
		if len(r.flights) == 0 {
			break
		}
		// Answers that are due are processed together.
		r.virtual = max(r.virtual, r.due[0])
		for len(r.due) > 0 && r.due[0] <= r.virtual {
			d := r.flights[0]
			r.flights, r.due = r.flights[1:], r.due[1:]
			res := r.commit(b, d)
			if res.Committed {
				r.binds += len(d.Binds)
				r.grants += len(d.Grants)
			}
			r.virtual += timed(&r.done, func() { r.core.Done(d, res, nil, r.now) })
		}
		r.virtual += timed(&r.echo, func() { r.deliver(rigLag) })
	}
	timed(&r.echo, func() { r.deliver(0) })
}

// deliver passes all but the last few transactions to the watch.
func (r *rig) deliver(lag int) {
	for len(r.echoes) > lag {
		events := r.echoes[0]
		r.echoes = r.echoes[1:]
		r.core.Apply(controlplane.Batch{Revision: events[0].ModRevision, Events: events}, r.now)
	}
}

// report reports the costs for each of n.
func (r *rig) report(b *testing.B, n int, mem runtime.MemStats) {
	var after runtime.MemStats
	runtime.ReadMemStats(&after)
	each := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / float64(n) }
	b.ReportMetric(each(r.next), "next-ns/x")
	b.ReportMetric(each(r.done), "done-ns/x")
	b.ReportMetric(each(r.echo), "echo-ns/x")
	b.ReportMetric(each(r.apply), "apply-ns/x")
	b.ReportMetric(each(r.next+r.done+r.echo), "core-ns/x")
	b.ReportMetric(float64(after.Mallocs-mem.Mallocs)/float64(n), "allocs/x")
	b.ReportMetric(float64(after.TotalAlloc-mem.TotalAlloc)/float64(n), "B/x")
	b.ReportMetric(float64(n)/r.virtual.Seconds(), "virtual-x/s")
	b.ReportMetric(float64(r.binds)/float64(max(1, r.drafts)), "binds/txn")
	b.ReportMetric(0, "ns/op")
}

// start resets the measurements.
func (r *rig) start() runtime.MemStats {
	r.next, r.done, r.echo, r.apply, r.virtual, r.storeFree = 0, 0, 0, 0, 0, 0
	r.binds, r.grants, r.drafts = 0, 0, 0
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m
}

// kind is a kind of node.
type kind struct{ cpu, memory, gpus int }

// kinds are 24 kinds of node, two fifths of them with devices.
func kinds() []kind {
	var out []kind
	for i := range 24 {
		k := kind{cpu: 32 + 16*(i%7), memory: 64 + 64*(i%5)}
		if i%5 < 2 {
			k.gpus = 2 << (i % 3)
		}
		out = append(out, k)
	}
	return out
}

// nodes registers n nodes of many kinds.
func (r *rig) nodes(n int, of []kind) {
	for first := 0; first < n; first += 1000 {
		var events []controlplane.Event
		for i := first; i < min(n, first+1000); i++ {
			k := of[i%len(of)]
			events = append(events, r.nodeEvents(i, k)...)
		}
		r.tell(events...)
	}
}

func nodeOf(i int) string { return fmt.Sprintf("node-%05d", i) }

func (r *rig) nodeEvents(i int, k kind) []controlplane.Event {
	name := nodeOf(i)
	node := &types.Node{
		Capacity: types.NewRequests(map[string]types.Quantity{
			"cpu": types.Quantity(k.cpu * 1000), "memory": types.Quantity(k.memory) << 30,
		}),
		Labels: []types.Label{{Name: "rack", Value: fmt.Sprintf("r%d", i/20)}, {Name: "zone", Value: fmt.Sprintf("z%d", i%3)}},
	}
	events := []controlplane.Event{r.event(controlplane.AliveKey(name), &types.Alive{TTLSeconds: 15})}
	if k.gpus > 0 {
		node.Capacity = node.Capacity.Plus(types.Requests{{Name: "gpu", Amount: types.Quantity(k.gpus * 1000)}})
		devices := &types.Devices{}
		for g := range k.gpus {
			devices.Devices = append(devices.Devices, types.Device{ID: fmt.Sprintf("nvidia.com/gpu=GPU-%05d-%d", i, g), Resource: types.GPU, NUMA: g / 4})
		}
		events = append(events, r.event(controlplane.DevicesKey(name), devices))
	}
	return append(events, r.event(controlplane.NodeKey(name), node))
}

// shapes are 240 vectors, about a fifth of them with devices.
func shapes(rng *rand.Rand) []types.Requests {
	var out []types.Requests
	for i := range 240 {
		x := map[string]types.Quantity{
			"cpu":    types.Quantity(500 * (1 + rng.IntN(16))),
			"memory": types.Quantity(1+rng.IntN(32)) << 29,
		}
		switch i % 20 {
		case 0, 1:
			x["gpu"] = 1000
		case 2:
			x["gpu"] = 2000
		case 3, 4:
			x["gpu"] = types.Quantity(100 * (1 + rng.IntN(9)))
		}
		out = append(out, types.NewRequests(x))
	}
	return out
}

// mix draws tasks until they take share of the cpu, memory or devices of the nodes.
func mix(rng *rand.Rand, nodes int, of []kind, share float64) []types.Requests {
	var room [3]float64
	for i := range nodes {
		k := of[i%len(of)]
		room[0] += share * float64(k.cpu) * 1000
		room[1] += share * float64(k.memory) * (1 << 30)
		room[2] += share * float64(k.gpus) * 1000
	}
	vectors := shapes(rng)
	var out []types.Requests
	for {
		v := vectors[rng.IntN(len(vectors))]
		for i, name := range []string{"cpu", "memory", "gpu"} {
			if room[i] -= float64(v.Get(name)); room[i] < 0 {
				return out
			}
		}
		out = append(out, v)
	}
}

func taskOf(i int) string { return fmt.Sprintf("t%07d-abcdefgh", i) }

// tasks submits tasks of a job that does not exist yet.
func (r *rig) tasks(ns string, vectors []types.Requests) {
	for first := 0; first < len(vectors); first += 1000 {
		var events []controlplane.Event
		for i := first; i < min(len(vectors), first+1000); i++ {
			events = append(events, r.event(controlplane.TaskKey(ns, taskOf(i)), &types.Task{
				Name: "bench", Job: "job", Requests: vectors[i], Spec: "0123456789abcdef0123456789abcdef", Submitted: r.now.UnixNano() + int64(i),
			}))
		}
		r.tell(events...)
	}
}

// job makes the tasks visible.
func (r *rig) job(ns string) {
	r.tell(r.event(controlplane.JobKey(ns, "job"), &types.Job{Name: "bench"}))
}

var benchLimits = []controlplane.Limits{{Ops: 128, Bytes: 3 << 19}, {Ops: 4096, Bytes: 8 << 20}}

// eachLimit runs f with stock etcd's limits and with our own etcd's.
func eachLimit(b *testing.B, f func(b *testing.B, r *rig)) {
	for _, limits := range benchLimits {
		b.Run(fmt.Sprint(limits.Ops), func(b *testing.B) {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			for b.Loop() {
				f(b, newRig(Config{Limits: limits, Seed: 1}))
			}
		})
	}
}

// bound fails the benchmark if fewer than share of n tasks were bound.
func (r *rig) bound(b *testing.B, n int, share float64) {
	if float64(r.binds) < share*float64(n) {
		b.Errorf("%d of %d were bound", r.binds, n)
	}
}
