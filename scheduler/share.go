package scheduler

import (
	"maps"
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler/draft"
	"github.com/escher-sched/escher/types"
)

// Live schedulers with Shared divide the namespaces. This only avoids conflicts; correctness does
// not depend on it.

// shared is the state of the division.
type shared struct {
	// mine caches whether a namespace is this scheduler's.
	mine map[string]bool
	// named are the schedulers that tasks name.
	named map[string]struct{}
	// rank is this scheduler's position among the live ones, by name. of is their number; 0 means
	// not yet counted.
	rank, of int
}

// owns reports whether this scheduler serves a namespace, and tasks of it that name scheduler.
func (c *Core) owns(ns, scheduler string) bool {
	if scheduler != "" {
		return scheduler == c.cfg.Name
	}
	if !c.cfg.Shared {
		return true
	}
	mine, known := c.shared.mine[ns]
	if !known {
		if c.shared.mine == nil {
			c.shared.mine = make(map[string]bool)
		}
		mine = OwnerOf(ns, c.view.Schedulers) == c.cfg.Name
		c.shared.mine[ns] = mine
	}
	return mine
}

// OwnerOf selects a live scheduler for a namespace. All observers of the same set agree, and few
// namespaces change hands when one comes or goes (rendezvous hashing, Thaler and Ravishankar 1996).
func OwnerOf[T any](ns string, live map[string]T) string {
	best, most := "", uint64(0)
	for name := range live {
		if h := hash(ns + "\x00" + name); best == "" || h > most || h == most && name < best {
			best, most = name, h
		}
	}
	return best
}

// ownsTask reports whether this scheduler serves a task.
func (c *Core) ownsTask(t *cluster.Task) bool {
	if t.Info.V == nil {
		return c.owns(t.ID.Namespace, "")
	}
	return c.owns(t.ID.Namespace, t.Info.V.Scheduler)
}

// settles reports whether this scheduler ends a waiting task, and releases, loses and stops its
// attempts: a task that it serves, or one that names a scheduler that does not run and so would
// wait, and hold its resources, forever.
func (c *Core) settles(t *cluster.Task) bool {
	if t.Info.V == nil || t.Info.V.Scheduler == "" {
		return c.ownsTask(t)
	}
	named := t.Info.V.Scheduler
	c.noteNamed(named)
	return c.ownsTask(t) || c.view.Schedulers[named] == nil && c.owns(t.ID.Namespace, "")
}

func (c *Core) noteNamed(name string) {
	if _, ok := c.shared.named[name]; ok {
		return
	}
	if c.shared.named == nil {
		c.shared.named = make(map[string]struct{})
	}
	c.shared.named[name] = struct{}{}
}

// touchScheduler rechecks what changed hands since a scheduler came or went. There may be millions
// of tasks, and others wait for it.
func (c *Core) touchScheduler(name string) {
	_, named := c.shared.named[name]
	if !c.cfg.Shared && !named {
		return
	}
	c.shared.of = 0
	moved := c.moved()
	if len(moved) == 0 && !named {
		return
	}
	var others []*cluster.Task
	for t := range c.view.Tasks() {
		if _, ok := moved[t.ID.Namespace]; !ok && !(named && t.Info.V != nil && t.Info.V.Scheduler == name) || c.isSettled(t) {
			continue
		}
		if !c.waitsOnly(t) {
			others = append(others, t)
			continue
		}
		c.touchTask(t)
	}
	c.touchInOrder(others)
	for _, id := range slices.SortedFunc(maps.Keys(c.view.Reservations), compareID) {
		if _, ok := moved[id.Namespace]; ok {
			c.touchReservation(c.view.Reservations[id])
		}
	}
	c.touchPools()
}

// part returns the nodes that this scheduler tries first, so that two rarely choose the same node
// at the same time.
func (c *Core) part() (from, to int) {
	if !c.cfg.Shared {
		return 0, len(c.nodes.All())
	}
	x := &c.shared
	if x.of == 0 {
		x.rank, x.of = 0, max(1, len(c.view.Schedulers))
		for name := range c.view.Schedulers {
			if name < c.cfg.Name {
				x.rank++
			}
		}
		x.rank = min(x.rank, x.of-1)
	}
	return x.rank * len(c.nodes.All()) / x.of, (x.rank + 1) * len(c.nodes.All()) / x.of
}

// moved returns the namespaces that changed hands.
func (c *Core) moved() map[string]struct{} {
	before := c.shared.mine
	c.shared.mine = nil
	moved := make(map[string]struct{})
	for ns, mine := range before {
		if c.owns(ns, "") != mine {
			moved[ns] = struct{}{}
		}
	}
	return moved
}

// isSettled reports whether a task needs no action by any scheduler: it has ended, or runs.
func (c *Core) isSettled(t *cluster.Task) bool {
	if t.Phase() == types.Pending || t.Phase().Ended() != (len(t.Bindings) == 0) {
		return false
	}
	return !slices.ContainsFunc(t.Bindings, func(b *cluster.Binding) bool { return draft.ActionFor(t, b) != draft.NoAction })
}

// waitsOnly reports whether a task only waits for placement, so that the order of rechecks does not
// matter.
func (c *Core) waitsOnly(t *cluster.Task) bool {
	return len(t.Bindings) == 0 && t.Info.V != nil && t.Phase() == types.Pending && t.Info.V.Stop == nil &&
		!draft.IsOverdue(t.Info.V, c.now) && !t.Info.V.Accumulate
}

// touchInOrder rechecks tasks in a deterministic order.
func (c *Core) touchInOrder(tasks []*cluster.Task) {
	slices.SortFunc(tasks, func(a, b *cluster.Task) int { return compareID(a.ID, b.ID) })
	for _, t := range tasks {
		c.touchTask(t)
	}
}
