package sim

import (
	"fmt"
	"maps"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// oracle says of every revision of the store whether the invariants hold. It is
// written from the keys alone, without the view that the schedulers decide on, so
// that a mistake there is not made here as well.
type oracle struct {
	cells      map[string]*cell
	bindingsOn map[string]map[string]*cell
	bindingsOf map[string]map[string]*cell // by the key of the task's status
	grantsOn   map[string]map[*cell]bool
	accounts   map[string]account

	// What the revision at hand is about; was are the keys before it.
	was          map[string]*cell
	touchedNodes map[string]bool
	touchedPools map[types.ResourceID]bool
	touchedTasks map[string]bool
	findings     []string
	seen         map[string]int
}

func newOracle(seen map[string]int) *oracle {
	return &oracle{
		seen:       seen,
		cells:      make(map[string]*cell),
		bindingsOn: make(map[string]map[string]*cell),
		bindingsOf: make(map[string]map[string]*cell),
		grantsOn:   make(map[string]map[*cell]bool),
		accounts:   make(map[string]account),
	}
}

// apply takes in one revision and returns what is wrong with it.
func (o *oracle) apply(b controlplane.Batch) []string {
	o.touchedNodes = make(map[string]bool)
	o.touchedPools = make(map[types.ResourceID]bool)
	o.touchedTasks = make(map[string]bool)
	o.findings = nil
	o.was = make(map[string]*cell, len(b.Events))
	type change struct {
		before, after *cell
	}
	var changes []change
	for _, e := range b.Events {
		before, after := o.cells[e.Key], o.decode(e)
		o.was[e.Key] = before
		o.replace(e.Key, before, after)
		changes = append(changes, change{before, after})
	}
	for i, x := range changes {
		o.count(x.before, x.after)
		if x.after == nil {
			if x.before != nil && x.before.key.Kind == controlplane.Bindings {
				o.checkRelease(x.before)
			}
			continue
		}
		switch m := x.after.message.(type) {
		case *types.Binding:
			if x.before == nil {
				o.checkBind(x.after, m)
			}
		case *types.Grant:
			o.checkGrant(x.before, x.after, m)
		case *types.Status:
			var was *types.Status
			if x.before != nil {
				was = x.before.message.(*types.Status)
			}
			if !types.MayFollow(was, m) {
				o.find("%s: %s may not follow %s", b.Events[i].Key, phaseOf(m), phaseOf(was))
			}
		case *types.Report:
			o.checkReport(x.after, m)
		}
	}
	o.checkTouched()
	return o.findings
}

func phaseOf(s *types.Status) string {
	if s == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s of attempt %d", s.Phase, s.Attempt)
}

func (o *oracle) find(format string, args ...any) {
	o.findings = append(o.findings, fmt.Sprintf(format, args...))
}

// messageOf returns an empty message of what is stored under a kind of key, nil for
// what the oracle does not look at.
func messageOf(kind controlplane.Kind) types.Message {
	switch kind {
	case controlplane.Nodes:
		return &types.Node{}
	case controlplane.Devices:
		return &types.Devices{}
	case controlplane.Alive:
		return &types.Alive{}
	case controlplane.Cordons:
		return &types.Cordon{}
	case controlplane.Namespaces:
		return &types.Namespace{}
	case controlplane.Resources:
		return &types.Resource{}
	case controlplane.Tasks:
		return &types.Task{}
	case controlplane.Jobs:
		return &types.Job{}
	case controlplane.Reservations:
		return &types.Reservation{}
	case controlplane.Grants:
		return &types.Grant{}
	case controlplane.Allocated:
		return &types.Allocated{}
	case controlplane.Bindings:
		return &types.Binding{}
	case controlplane.Reports:
		return &types.Report{}
	case controlplane.Provided:
		return &types.Provided{}
	case controlplane.Statuses:
		return &types.Status{}
	}
	return nil
}

// decode returns the cell that an event makes, nil for a delete.
func (o *oracle) decode(e controlplane.Event) *cell {
	k, ok := controlplane.Parse(e.Key)
	if !ok {
		o.find("%s is no key of the cluster", e.Key)
	}
	m := messageOf(k.Kind)
	if e.Delete || m == nil {
		return nil
	}
	if err := types.Decode(e.Value, m); err != nil {
		o.find("%s: %v", e.Key, err)
		return nil
	}
	return &cell{key: k, message: m, mod: e.ModRevision, create: e.CreateRevision}
}

// replace keeps the indexes and the accounts.
func (o *oracle) replace(key string, before, after *cell) {
	k, _ := controlplane.Parse(key)
	o.post(before, -1)
	if after == nil {
		delete(o.cells, key)
	} else {
		o.cells[key] = after
	}
	o.post(after, 1)
	switch k.Kind {
	case controlplane.Bindings:
		task := controlplane.StatusKey(k.Namespace, k.ID)
		index(o.bindingsOn, k.Node, key, after)
		index(o.bindingsOf, task, key, after)
		o.touchedTasks[task] = true
	case controlplane.Statuses:
		o.touchedTasks[key] = true
	case controlplane.Allocated:
		if k.Where != "" {
			o.touchedPools[types.Resolve(k.Namespace, k.Name)] = true
			return
		}
		o.touchNode(k.Node)
	}
}

func index(in map[string]map[string]*cell, by, key string, c *cell) {
	if c == nil {
		delete(in[by], key)
		return
	}
	if in[by] == nil {
		in[by] = make(map[string]*cell)
	}
	in[by][key] = c
}

func (o *oracle) touchNode(node string) { o.touchedNodes[node] = true }

func (o *oracle) get(key string) types.Message {
	if c := o.cells[key]; c != nil {
		return c.message
	}
	return nil
}

func (o *oracle) session(node string) int64 {
	if c := o.cells[controlplane.AliveKey(node)]; c != nil {
		return c.create
	}
	return 0
}

// checkTouched checks the sums of what the revision changed.
func (o *oracle) checkTouched() {
	for _, node := range slices.Sorted(maps.Keys(o.touchedNodes)) {
		alloc, _ := o.get(controlplane.AllocatedKey(node)).(*types.Allocated)
		if text := o.expected(node).differs(alloc); text != "" {
			o.find("node %s: %s", node, text)
		}
		o.checkDevices(node, alloc)
	}
	for _, rid := range slices.Sorted(maps.Keys(o.touchedPools)) {
		ns, name, _ := rid.Split()
		alloc, _ := o.get(controlplane.PoolKey(ns, name)).(*types.Allocated)
		if text := o.expectedOfPool(rid).differs(alloc); text != "" {
			o.find("pool %s: %s", rid, text)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(o.touchedTasks)) {
		o.checkTask(key)
	}
}

// checkDevices: a device has one whole holder, or shares that sum to at most one.
func (o *oracle) checkDevices(node string, alloc *types.Allocated) {
	if alloc == nil {
		return
	}
	for _, h := range alloc.Holds {
		for _, d := range h.Devices {
			if d.Share < 0 || d.Share > 1000 {
				o.find("node %s: %d thousandths of device %s are in use", node, d.Share, d.ID)
			}
			if h.Resource.Scoped() && d.Share > share(alloc.DevicesOf(h.Resource.Unscoped()), d.ID) {
				o.find("node %s: more of device %s is in use than %s holds", node, d.ID, h.Resource)
			}
		}
	}
}

func share(shares []types.DeviceShare, id string) types.Quantity {
	for _, s := range shares {
		if s.ID == id {
			return s.Share
		}
	}
	return 0
}

// checkTask: a task is bound exactly while its status says so, once.
func (o *oracle) checkTask(key string) {
	s, _ := o.get(key).(*types.Status)
	bound := o.bindingsOf[key]
	switch {
	case s == nil || !s.Phase.Held():
		if len(bound) > 0 {
			o.find("%s is %s, and bound %d times", key, phaseOf(s), len(bound))
		}
	case len(bound) != 1:
		o.find("%s is %s, and bound %d times", key, phaseOf(s), len(bound))
	default:
		k, _ := controlplane.Parse(key)
		if bound[controlplane.BindingKey(s.Node, k.Namespace, k.ID, s.Attempt)] == nil {
			o.find("%s is %s on %s, and bound as %v", key, phaseOf(s), s.Node, slices.Collect(maps.Keys(bound)))
		}
	}
}
