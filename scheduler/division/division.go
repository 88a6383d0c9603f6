// Package division divides the namespaces among the live schedulers that share them. This only
// avoids conflicts; correctness does not depend on it.
package division

import (
	"github.com/escher-sched/escher/controlplane/cluster"
)

// Division is the division as one scheduler sees it.
type Division struct {
	name   string
	shared bool
	view   *cluster.View
	// mine caches whether a namespace is this scheduler's.
	mine map[string]bool
	// named are the schedulers that tasks name.
	named map[string]struct{}
	// rank is this scheduler's position among the live ones, by name. of is their number; 0 means
	// not yet counted.
	rank, of int
}

// New returns the division for a scheduler of a name. It serves all namespaces unless they are
// shared.
func New(view *cluster.View, name string, shared bool) *Division {
	return &Division{name: name, shared: shared, view: view, mine: make(map[string]bool), named: make(map[string]struct{})}
}

// Shared reports whether the namespaces are shared.
func (d *Division) Shared() bool { return d.shared }

// Owns reports whether the scheduler serves a namespace, and tasks of it that name scheduler.
func (d *Division) Owns(ns, scheduler string) bool {
	if scheduler != "" {
		return scheduler == d.name
	}
	if !d.shared {
		return true
	}
	mine, known := d.mine[ns]
	if !known {
		mine = OwnerOf(ns, d.view.Schedulers) == d.name
		d.mine[ns] = mine
	}
	return mine
}

// OwnsTask reports whether the scheduler serves a task.
func (d *Division) OwnsTask(t *cluster.Task) bool {
	if t.Info.V == nil {
		return d.Owns(t.ID.Namespace, "")
	}
	return d.Owns(t.ID.Namespace, t.Info.V.Scheduler)
}

// Settles reports whether the scheduler ends a waiting task, and releases, loses and stops its
// attempts: a task that it serves, or one that names a scheduler that does not run and so would
// wait, and hold its resources, forever.
func (d *Division) Settles(t *cluster.Task) bool {
	if t.Info.V == nil || t.Info.V.Scheduler == "" {
		return d.OwnsTask(t)
	}
	named := t.Info.V.Scheduler
	d.named[named] = struct{}{}
	return d.OwnsTask(t) || d.view.Schedulers[named] == nil && d.Owns(t.ID.Namespace, "")
}

// Changed records that a scheduler came or went. It returns the namespaces that changed hands, and
// whether tasks name that scheduler.
func (d *Division) Changed(scheduler string) (moved map[string]struct{}, named bool) {
	if _, named = d.named[scheduler]; !d.shared && !named {
		return nil, false
	}
	d.of = 0
	before := d.mine
	d.mine = make(map[string]bool)
	moved = make(map[string]struct{})
	for ns, mine := range before {
		if d.Owns(ns, "") != mine {
			moved[ns] = struct{}{}
		}
	}
	return moved, named
}

// Part returns the part of n nodes, by their positions, that the scheduler tries first, so that two
// rarely choose the same node at the same time.
func (d *Division) Part(n int) (from, to int) {
	if !d.shared {
		return 0, n
	}
	if d.of == 0 {
		d.rank, d.of = 0, max(1, len(d.view.Schedulers))
		for name := range d.view.Schedulers {
			if name < d.name {
				d.rank++
			}
		}
		d.rank = min(d.rank, d.of-1)
	}
	return d.rank * n / d.of, (d.rank + 1) * n / d.of
}

// OwnerOf selects a live scheduler for a namespace. All observers of the same set agree, and few
// namespaces change hands when one comes or goes (rendezvous hashing, Thaler and Ravishankar 1996).
func OwnerOf[T any](ns string, live map[string]T) string {
	best, most := "", uint64(0)
	for name := range live {
		if h := Hash(ns + "\x00" + name); best == "" || h > most || h == most && name < best {
			best, most = name, h
		}
	}
	return best
}

// Hash is FNV-1a, finished by a mix that makes its high bits depend on all input.
func Hash(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := 0; i < len(s); i++ {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	return h ^ h>>33
}
