package sim

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// applications submit tasks and reservations and set resources, in two namespaces, like clients:
// every write compares what it was decided on. They include administrators.
type applications struct {
	w     *world
	tasks []ref
	// jobs are the jobs whose key is not written yet.
	jobs []ref
	// owned are jobs with resources, reservations and policies of their own. sessions are the
	// opened sessions.
	owned, sessions []ref
	nextID          int
	// submitted is the total number of tasks.
	submitted int
}

// ref names a task, job or reservation.
type ref struct{ ns, id string }

// namespaces are the namespaces of the applications.
func namespaces() []string { return []string{"a", "b"} }

func (p *applications) newRef(ns, kind string) ref {
	p.nextID++
	return ref{ns, fmt.Sprintf("%s%d", kind, p.nextID)}
}

// submit submits some tasks of a kind: one by one, or as a job whose key is written last.
func (p *applications) submit(rng *rand.Rand) {
	if len(p.jobs) > 0 && rng.IntN(2) == 0 {
		p.finishJob()
		return
	}
	ns := pick(namespaces(), rng.Uint32())
	made := p.shape(rng, ns)
	job := ref{ns: ns}
	if rng.IntN(3) == 0 {
		job = p.newRef(ns, "j")
		p.jobs = append(p.jobs, job)
	}
	n := min(1+rng.IntN(24), p.w.cfg.Tasks-p.submitted)
	c := p.w.newChange()
	for i := range n {
		t := made(i)
		t.Job, t.Priority, t.Submitted = job.id, rng.IntN(3), p.w.now.UnixNano()
		switch {
		case rng.IntN(8) == 0:
			t.OnDisconnect = types.Keep
		case i%8 == 7:
			t.OnDisconnect = types.StopLost
		}
		if rng.IntN(12) == 0 {
			t.Deadline = t.Submitted + int64(time.Duration(1+rng.IntN(30))*time.Second)
		}
		if rng.IntN(3) == 0 {
			t.Retries = 1 + rng.IntN(4)
		}
		p.add(c, ns, t)
	}
	p.w.try(c)
	p.w.say("%d tasks up to t%d, of %s", n, p.nextID, job)
}

// add adds a task to a submission.
func (p *applications) add(c *controlplane.Change, ns string, t *types.Task) {
	id := p.newRef(ns, "t")
	c.IfUnchanged(controlplane.TaskKey(ns, id.id), 0)
	c.Put(controlplane.TaskKey(ns, id.id), t)
	p.tasks = append(p.tasks, id)
	p.submitted++
}

func (p *applications) finishJob() {
	job := p.jobs[0]
	p.jobs = p.jobs[1:]
	c, n := p.w.newChange(), 0
	for _, id := range p.tasks {
		var t types.Task
		if id.ns == job.ns && p.w.read(controlplane.TaskKey(id.ns, id.id), &t) != 0 && t.Job == job.id {
			n++
		}
	}
	c.Put(controlplane.JobKey(job.ns, job.id), &types.Job{Tasks: n})
	p.w.try(c)
	p.w.say("job %s is there", job)
}

func requests(amounts map[string]types.Quantity) types.Requests { return types.NewRequests(amounts) }

// shape picks a kind of tasks and returns the function that makes the i-th of them.
func (p *applications) shape(rng *rand.Rand, ns string) func(i int) *types.Task {
	cpu := types.Quantity(100 + 100*rng.IntN(10))
	x := fmt.Sprintf("x%d", rng.IntN(4))
	switch rng.IntN(11) {
	case 10:
		port := pick([]string{"port", "port/8080", "port/20003"}, rng.Uint32())
		n := types.Quantity(1)
		if port == "port" {
			n = types.Quantity(1 + rng.IntN(3))
		}
		return plain(map[string]types.Quantity{"cpu": 100, port: 1000 * n})
	case 0:
		gpu := types.Quantity([]int{300, 500, 1000, 2000}[rng.IntN(4)])
		return gpus(gpu)
	case 1, 2:
		return plain(map[string]types.Quantity{"cpu": 100, x: cpu})
	case 3:
		return plain(map[string]types.Quantity{"cpu": cpu, fmt.Sprintf("lic%d", rng.IntN(2)): 1000})
	case 4:
		return provider(rng)
	case 5:
		return choosy(cpu, x, fmt.Sprintf("node/n%d", rng.IntN(p.w.cfg.Nodes)))
	case 6:
		return func(int) *types.Task {
			return &types.Task{Requests: requests(map[string]types.Quantity{"cpu": cpu}), MaxRun: time.Duration(1+rng.IntN(20)) * time.Second}
		}
	case 7:
		if id := p.reservation(rng, ns); id != "" {
			return drawer(id, rng)
		}
	case 8:
		if cpu > 800 {
			return large(rng)
		}
		return plain(map[string]types.Quantity{"cpu": cpu, "memory": 1 << 26, "rack/r1": 1})
	}
	return plain(map[string]types.Quantity{"cpu": cpu, "memory": 1 << 27})
}

func plain(amounts map[string]types.Quantity) func(int) *types.Task {
	return func(int) *types.Task { return &types.Task{Requests: requests(amounts)} }
}

// gpus makes tasks with a number of devices, most of them restricted. A node has two devices of
// each model, which are linked, and on two NUMA nodes.
func gpus(amount types.Quantity) func(int) *types.Task {
	return func(i int) *types.Task {
		t := &types.Task{Requests: requests(map[string]types.Quantity{"cpu": 100, "gpu": amount})}
		switch i % 5 {
		case 1:
			t.Devices = wanted(types.DeviceRequest{Models: []string{"g300", "g200"}})
		case 2:
			t.Devices = wanted(types.DeviceRequest{Topology: types.LinkedDevices})
		case 3:
			t.Devices = wanted(types.DeviceRequest{MinMemory: 1 << 36, Topology: types.LinkedDevices})
		case 4:
			t.Devices = wanted(types.DeviceRequest{Topology: types.OneNUMA})
		}
		return t
	}
}

func wanted(r types.DeviceRequest) []types.DeviceRequest {
	r.Resource = "gpu"
	return []types.DeviceRequest{r}
}

// provider makes one task that provides a resource, and then tasks that need it.
func provider(rng *rand.Rand) func(int) *types.Task {
	name := fmt.Sprintf("p%d", rng.IntN(3))
	when := []types.When{types.WhenBound, types.WhenRunning, types.WhenSucceeded}[rng.IntN(3)]
	return func(i int) *types.Task {
		if i%4 == 0 {
			return &types.Task{
				Requests: requests(map[string]types.Quantity{"cpu": 100}),
				Provides: []types.Provide{{Name: name, Amount: 2000, When: when}},
			}
		}
		return &types.Task{Requests: requests(map[string]types.Quantity{"cpu": 100, name: 1000})}
	}
}

// large makes tasks of which few fit on a node, and that may accumulate.
func large(rng *rand.Rand) func(int) *types.Task {
	amounts := map[string]types.Quantity{"cpu": types.Quantity(2000 + 500*rng.IntN(4))}
	switch rng.IntN(4) {
	case 0:
		amounts["gpu"] = 2000
	case 1:
		amounts["lic0"] = 1000
	case 2:
		amounts["port"] = 2000
	}
	maxRun := time.Duration(rng.IntN(3)) * 5 * time.Second
	var devices []types.DeviceRequest
	if amounts["gpu"] > 0 && amounts["cpu"]%1000 == 0 {
		devices = wanted(types.DeviceRequest{Topology: types.OneNUMA})
	}
	return func(int) *types.Task {
		return &types.Task{Requests: requests(amounts), Devices: devices, Accumulate: true, MaxRun: maxRun}
	}
}

// choosy makes tasks that prefer a node, then x, then anything.
func choosy(cpu types.Quantity, x, node string) func(int) *types.Task {
	return func(int) *types.Task {
		return &types.Task{
			Requests: requests(map[string]types.Quantity{"cpu": cpu}),
			Alternatives: []types.Alternative{
				{Requests: requests(map[string]types.Quantity{node: 1})},
				{Requests: requests(map[string]types.Quantity{x: 500}), After: 2 * time.Second},
				{After: 5 * time.Second},
			},
		}
	}
}

// drawer makes tasks that draw on a reservation.
func drawer(id string, rng *rand.Rand) func(int) *types.Task {
	name := []string{"cpu", "cpu", "gpu", "x0", "lic0", "port"}[rng.IntN(6)]
	amount := types.Quantity(500)
	if name == "port" {
		amount = 1000
	}
	return func(int) *types.Task {
		return &types.Task{Requests: requests(map[string]types.Quantity{name + "@" + id: amount})}
	}
}

// reservation returns a reservation of a namespace; "" if there is none.
func (p *applications) reservation(rng *rand.Rand, ns string) string {
	page := p.w.list(controlplane.Prefix(controlplane.Reservations, ns))
	if len(page.KVs) == 0 {
		return ""
	}
	k, _ := controlplane.Parse(page.KVs[rng.IntN(len(page.KVs))].Key)
	return k.ID
}

// reserve requests a reservation under one of a few names, with its members.
func (p *applications) reserve(rng *rand.Rand) {
	ns, id := pick(namespaces(), rng.Uint32()), fmt.Sprintf("r%d", rng.IntN(4))
	if rng.IntN(3) > 0 && p.collectFor(rng, ns, id) {
		return
	}
	r := &types.Reservation{Accumulate: rng.IntN(2) == 0, Submitted: p.w.now.UnixNano(), Priority: rng.IntN(3)}
	for range 1 + rng.IntN(3) {
		amounts := map[string]types.Quantity{"cpu": types.Quantity(1000 + 500*rng.IntN(5))}
		switch rng.IntN(6) {
		case 5:
			amounts["port"] = types.Quantity(1000 * (1 + rng.IntN(3)))
		case 0:
			amounts["gpu"] = types.Quantity(1000 * (1 + rng.IntN(2)))
		case 1:
			amounts["x0"] = 1000
		case 2:
			amounts["lic0"] = 1000
		}
		b := types.Bundle{Requests: requests(amounts)}
		switch {
		case amounts["gpu"] == 1000 && len(r.Bundles) != 1:
			b.Devices = wanted(types.DeviceRequest{Models: []string{"G200"}})
		case amounts["gpu"] == 2000:
			b.Devices = wanted(types.DeviceRequest{Topology: types.LinkedDevices})
		}
		if rng.IntN(4) == 0 && amounts["gpu"] == 0 {
			b.Node = fmt.Sprintf("n%d", rng.IntN(p.w.cfg.Nodes))
		}
		r.Bundles = append(r.Bundles, b)
	}
	if rng.IntN(2) == 0 {
		r.Lost = types.MoveBundles
	}
	c := p.w.newChange()
	key := controlplane.ReservationKey(ns, id)
	c.IfUnchanged(key, 0)
	c.Put(key, r)
	if p.w.get(key).Key != "" {
		return
	}
	for range min(rng.IntN(6), p.w.cfg.Tasks-p.submitted) {
		p.add(c, ns, &types.Task{
			Requests:  requests(map[string]types.Quantity{"cpu@" + id: 500}),
			Submitted: p.w.now.UnixNano(),
		})
	}
	p.w.try(c)
	p.w.say("reservation %s/%s of %d bundles", ns, id, len(r.Bundles))
}

// unreserve deletes a reservation.
func (p *applications) unreserve(rng *rand.Rand) {
	ns := pick(namespaces(), rng.Uint32())
	if id := p.reservation(rng, ns); id != "" {
		p.remove(controlplane.ReservationKey(ns, id))
	}
}

func (p *applications) remove(key string) {
	c := p.w.newChange()
	c.Delete(key)
	p.w.try(c)
	p.w.say("deleted %s", key)
}

// setResource sets a resource somewhere: less, more, closed, removed, on a node, on all of some
// kind, or in the cluster.
func (p *applications) setResource(rng *rand.Rand) {
	ns := pick(namespaces(), rng.Uint32())
	capacity := types.Quantity(500 * rng.IntN(9))
	switch rng.IntN(8) {
	case 0:
		p.put(ns, fmt.Sprintf("lic%d", rng.IntN(2)), types.ClusterWide, &types.Resource{Capacity: capacity}, capacity == 0 && rng.IntN(4) == 0)
		return
	case 1: // the same name as a pool, and removed
		p.clear(ns, "x3")
		p.put(ns, "x3", types.ClusterWide, &types.Resource{Capacity: capacity}, rng.IntN(2) == 0)
		return
	case 2, 3:
		r := &types.Resource{Capacity: capacity}
		if rng.IntN(2) == 0 {
			r.Selector = &types.Selector{Labels: []types.Label{{Name: "rack", Value: "r0"}}}
		}
		p.put(ns, p.name(rng), types.EveryNode, r, rng.IntN(3) == 0)
		return
	case 4:
		left := p.w.list(controlplane.Prefix(controlplane.Provided, ns))
		if len(left.KVs) > 0 {
			p.remove(left.KVs[rng.IntN(len(left.KVs))].Key)
			return
		}
	}
	a := pick(p.w.agents, rng.Uint32())
	r := &types.Resource{Capacity: capacity, NodeSession: a.session}
	p.put(ns, p.name(rng), a.name, r, capacity == 0 && rng.IntN(2) == 0)
}

func (p *applications) name(rng *rand.Rand) string {
	return []string{"x0", "x1", "x2", "x3", "p0"}[rng.IntN(5)]
}

func (p *applications) put(ns, name, where string, r *types.Resource, remove bool) {
	key := controlplane.ResourceKey(ns, name, where)
	if remove {
		p.remove(key)
		return
	}
	c := p.w.newChange()
	if r.NodeSession != 0 {
		c.IfCreated(controlplane.AliveKey(where), r.NodeSession)
	}
	if where != types.ClusterWide {
		c.IfUnchanged(controlplane.ResourceKey(ns, name, types.ClusterWide), 0)
	} else if p.w.get(key).Key == "" {
		c.IfNoneSince(controlplane.Prefix(controlplane.Resources, ns, name), 0)
	}
	c.Put(key, r)
	p.w.try(c)
	p.w.say("%s has %d", key, r.Capacity)
}

// clear removes a name from all nodes: a future pool must be on none.
func (p *applications) clear(ns, name string) {
	c := p.w.newChange()
	for _, kv := range p.w.list(controlplane.Prefix(controlplane.Resources, ns, name)).KVs {
		if k, _ := controlplane.Parse(kv.Key); k.Where != types.ClusterWide {
			c.Delete(kv.Key)
		}
	}
	if _, ops := c.Size(); ops > 0 {
		p.w.try(c)
		p.w.say("%s/%s is on no node", ns, name)
	}
}

// edit changes a task if it is unchanged since the read.
func (p *applications) edit(id ref, f func(*types.Task) bool) {
	t := new(types.Task)
	key := controlplane.TaskKey(id.ns, id.id)
	mod := p.w.read(key, t)
	if mod == 0 || !f(t) {
		return
	}
	c := p.w.newChange()
	c.IfUnchanged(key, mod)
	c.Put(key, t)
	p.w.try(c)
}

// recent picks a task, preferably a recent one.
func (p *applications) recent(rng *rand.Rand) (ref, bool) {
	if len(p.tasks) == 0 {
		return ref{}, false
	}
	n := len(p.tasks)
	return p.tasks[n-1-rng.IntN(min(n, 60))], true
}

func (p *applications) stop(rng *rand.Rand) {
	if id, ok := p.recent(rng); ok {
		p.halt(id)
	}
}

func (p *applications) halt(id ref) {
	p.edit(id, func(t *types.Task) bool {
		was := t.Stop
		t.Stop = &types.Stop{Reason: "asked to"}
		return was == nil
	})
	p.w.say("%s is to stop", id)
}

func (p *applications) evict(rng *rand.Rand) {
	bound := p.w.list(controlplane.Prefix(controlplane.Bindings)).KVs
	if len(bound) == 0 {
		return
	}
	k, _ := controlplane.Parse(bound[rng.IntN(len(bound))].Key)
	id := ref{k.Namespace, k.ID}
	p.edit(id, func(t *types.Task) bool {
		t.Evict = k.Attempt
		return true
	})
	p.w.say("%s is to be evicted from attempt %d", id, k.Attempt)
}

// cordon adds or removes a cordon.
func (p *applications) cordon(rng *rand.Rand) {
	if there := p.w.list(controlplane.Prefix(controlplane.Cordons)).KVs; len(there) > 0 && rng.IntN(3) > 0 {
		p.remove(there[rng.IntN(len(there))].Key)
		return
	}
	key := controlplane.CordonKey(pick(p.w.agents, rng.Uint32()).name)
	c := p.w.newChange()
	c.Put(key, &types.Cordon{Reason: "maintenance"})
	p.w.try(c)
	p.w.say("put %s", key)
}

// changeNamespace adds or removes a quota of a namespace.
func (p *applications) changeNamespace(rng *rand.Rand) {
	key := controlplane.NamespaceKey("b")
	if rng.IntN(2) == 0 {
		p.remove(key)
		return
	}
	p.put("admin", "quota", types.ClusterWide, &types.Resource{Capacity: types.Quantity(2000 * rng.IntN(6))}, false)
	space := &types.Namespace{Quotas: []types.Quota{{Resource: types.CPU, Pool: "admin:quota"}}}
	if rng.IntN(2) == 0 {
		p.put("admin", "slots", types.EveryNode, &types.Resource{Capacity: 3000}, false)
		space.Requests = requests(map[string]types.Quantity{"admin:slots": 1000})
	}
	c := p.w.newChange()
	c.Put(key, space)
	p.w.try(c)
	p.w.say("namespace b has %+v", *space)
}

// found makes some resources, so that not everything waits for them.
func (p *applications) found() {
	for _, ns := range namespaces() {
		for _, name := range []string{"x0", "x1", "x2"} {
			p.put(ns, name, types.EveryNode, &types.Resource{Capacity: 4000}, false)
		}
		p.put(ns, "lic0", types.ClusterWide, &types.Resource{Capacity: 20_000}, false)
		p.put(ns, "lic1", types.ClusterWide, &types.Resource{Capacity: 3000}, false)
	}
}

// generous provides everything in abundance: a task that still waits then waits forever.
func (p *applications) generous() {
	for len(p.jobs) > 0 {
		p.finishJob()
	}
	for _, kv := range slices.Concat(p.w.list(controlplane.Prefix(controlplane.Resources)).KVs,
		p.w.list(controlplane.Prefix(controlplane.Cordons)).KVs, p.w.list(controlplane.Prefix(controlplane.Namespaces)).KVs) {
		if k, _ := controlplane.Parse(kv.Key); !strings.Contains(k.Name, ".") {
			p.remove(kv.Key)
		}
	}
	for _, ns := range namespaces() {
		for _, name := range []string{"x0", "x1", "x2", "x3", "p0", "p1", "p2"} {
			p.put(ns, name, types.EveryNode, &types.Resource{Capacity: types.Inf}, false)
		}
		for _, name := range []string{"lic0", "lic1"} {
			p.put(ns, name, types.ClusterWide, &types.Resource{Capacity: types.Inf}, false)
		}
	}
	for _, a := range p.w.agents {
		a.restore()
	}
}
