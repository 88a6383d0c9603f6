package room

import (
	"cmp"
	"slices"
)

// target is a node to which tasks may move that request the same.
type target struct {
	node string
	// has is how many of the tasks are there, room how many may be there with these, and comes how many more
	// are to come.
	has, room, comes int
}

// onFewer chooses fewer nodes than the tasks are on, and says how many come to each; nil if they do not fit on
// fewer. It takes the nodes with room for the most tasks first, of these the one that has the most. All tasks
// on other nodes move, so none is chosen to which no task comes.
func onFewer(all []target, tasks, on int) (to []target) {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b target) int { return cmp.Or(cmp.Compare(b.room, a.room), cmp.Compare(b.has, a.has)) })
	for _, x := range all[:min(len(all), on-1)] {
		if tasks <= 0 {
			break
		}
		x.comes = min(tasks, x.room) - min(tasks, x.has)
		if x.comes == 0 {
			return nil // bundles name destinations only: tasks there would have to leave
		}
		to = append(to, x)
		tasks -= x.room
	}
	if tasks > 0 {
		return nil
	}
	return to
}
