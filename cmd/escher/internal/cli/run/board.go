package run

import (
	"sync"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// board has the newest statuses of tasks.
type board struct {
	mu    sync.Mutex
	tasks map[string]*posted
}

// posted is what is known about one task.
type posted struct {
	status *types.Status
	// nodes are those of its attempts, as far as known.
	nodes   map[int]string
	removed bool
	// changed is closed when one of these changes.
	changed chan struct{}
}

func newBoard(ids []string) *board {
	b := &board{tasks: make(map[string]*posted, len(ids))}
	for _, id := range ids {
		b.add(id)
	}
	return b
}

// add adds a task; false if it is there already.
func (b *board) add(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.tasks[id] != nil {
		return false
	}
	b.tasks[id] = &posted{nodes: make(map[int]string), changed: make(chan struct{})}
	return true
}

// take stores statuses.
func (b *board) take(u controlplane.StatusUpdate) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range u.Changes {
		p := b.tasks[c.ID]
		if p == nil {
			continue
		}
		if p.removed = c.Status == nil; c.Status != nil {
			p.status = c.Status
			if c.Status.Attempt > 0 && c.Status.Node != "" {
				p.nodes[c.Status.Attempt] = c.Status.Node
			}
		}
		close(p.changed)
		p.changed = make(chan struct{})
	}
	return nil
}

// get returns a task's status, nil if there is none, and a channel that is closed when it changes.
// NotFound: the task was removed.
func (b *board) get(id string) (*types.Status, <-chan struct{}, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.tasks[id]
	if p.removed {
		return nil, nil, types.Errorf(types.NotFound, "follow task %s: it was removed", id)
	}
	return p.status, p.changed, nil
}

// waiting returns the number of tasks that wait for a node, and one of them, always the same while
// it waits.
func (b *board) waiting() (id string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for of, p := range b.tasks {
		if p.removed || p.status != nil && p.status.Phase != types.Pending {
			continue
		}
		if n++; n == 1 || of < id {
			id = of
		}
	}
	return id, n
}

// Node returns the node of an attempt, empty if unknown.
func (b *board) Node(id string, attempt int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tasks[id].nodes[attempt]
}

func (b *board) statuses() map[string]types.Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := make(map[string]types.Status)
	for id, p := range b.tasks {
		if p.status != nil {
			all[id] = *p.status
		}
	}
	return all
}
