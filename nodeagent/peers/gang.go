package peers

import (
	"context"

	"github.com/escher-sched/escher/types"
)

// maxGangs bounds the jobs that a Reader remembers. A node starts tasks of few at a time.
const maxGangs = 64

// gangKey identifies an attempt of a job.
type gangKey struct {
	ns, job string
	attempt int
}

// gang is what is known of the tasks of a job at an attempt. Its tasks on a node share it, so that
// the node reads each task once. The address of an attempt does not change.
type gang struct {
	// turn holds one value while a task reads and writes the other fields. It is no mutex: the others
	// wait as long as their own contexts permit, and the next goes on where a task gave up.
	turn chan struct{}
	// all are the tasks by index, once the job was read.
	all []Peer
	// lacking are the indexes of those without an address.
	lacking []int
}

// gang returns what is known of a job at the attempt of self.
func (r *Reader) gang(self Self, job string) *gang {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := gangKey{self.Namespace, job, self.Attempt}
	g := r.gangs[key]
	if g != nil {
		return g
	}
	if len(r.gangs) >= maxGangs {
		for other := range r.gangs { // Any will do: it can be read again.
			delete(r.gangs, other)
			break
		}
	}
	if r.gangs == nil {
		r.gangs = make(map[gangKey]*gang)
	}
	g = &gang{turn: make(chan struct{}, 1)}
	r.gangs[key] = g
	return g
}

// Forget forgets what r remembers: attempts and sessions of another history may have the same numbers.
func (r *Reader) Forget() {
	r.mu.Lock()
	r.gangs = nil
	r.mu.Unlock()
	r.hosts.mu.Lock()
	r.hosts.known = nil
	r.hosts.mu.Unlock()
}

// whole returns all tasks of a job once each has a node at the attempt of self; none if the job does
// not list them. It reads the revision of the own bind once, and sets looked: the tasks of a gang are
// bound at one revision, and all read the same there, whatever ends meanwhile. Then it reads the
// present of the others. A task that has ended needs no address.
//
// Unavailable: the store does not answer in time, or a task has no node yet.
func (r *Reader) whole(ctx context.Context, self Self, job string, looked *bool) ([]Peer, error) {
	g := r.gang(self, job)
	select {
	case g.turn <- struct{}{}:
		defer func() { <-g.turn }()
	case <-ctx.Done():
		return nil, types.Errorf(types.Unavailable, "wait for peers: another task of job %s still reads them: %w", job, context.Cause(ctx))
	}
	if !*looked && (g.all == nil || len(g.lacking) > 0) {
		if err := r.gather(ctx, self, job, g, self.Revision); err != nil && !types.Is(err, types.Compacted) {
			return nil, err
		}
		*looked = true
	}
	if g.all == nil || len(g.lacking) > 0 {
		if err := r.gather(ctx, self, job, g, 0); err != nil {
			return nil, err
		}
	}
	if len(g.lacking) > 0 {
		return nil, g.all[g.lacking[0]].absent(self.Attempt)
	}
	return g.all, nil
}

// gather reads the tasks that lack an address, at a revision; 0 means the present.
func (r *Reader) gather(ctx context.Context, self Self, job string, g *gang, revision int64) error {
	if g.all == nil {
		members, _, err := r.members(ctx, self.Namespace, job, revision)
		if err != nil {
			return err
		}
		g.all, g.lacking = make([]Peer, len(members)), make([]int, len(members))
		for i, id := range members {
			g.all[i], g.lacking[i] = Peer{Index: i, Task: id}, i
		}
	}
	ids := make([]string, len(g.lacking))
	for k, i := range g.lacking {
		ids[k] = g.all[i].Task
	}
	now, err := r.statuses(ctx, self.Namespace, ids, revision)
	if err != nil {
		return err
	}
	var there []Peer
	for k, i := range g.lacking {
		now[k].Index = i
		if g.all[i] = now[k]; !self.awaits(now[k]) {
			there = append(there, now[k])
		}
	}
	if err := r.locate(ctx, self.Namespace, there, revision); err != nil {
		return err
	}
	for _, p := range there {
		g.all[p.Index] = p
	}
	lacking := g.lacking[:0]
	for _, i := range g.lacking {
		if p := g.all[i]; (p.Host == "" || self.awaits(p)) && (revision != 0 || !p.Phase.Ended()) {
			lacking = append(lacking, i)
		}
	}
	g.lacking = lacking
	return nil
}

// absent returns the error that a task has no address at an attempt.
func (p Peer) absent(attempt int) error {
	switch {
	case p.Attempt > attempt:
		return types.Errorf(types.Unavailable, "wait for peers: task %s is at attempt %d already, and this is attempt %d", p.Task, p.Attempt, attempt)
	case p.Phase.Held() && p.Attempt == attempt:
		return types.Errorf(types.Unavailable, "wait for peers: task %s is on node %s, and the address there cannot be read", p.Task, p.Node)
	}
	return types.Errorf(types.Unavailable, "wait for peers: task %s has no node at attempt %d yet", p.Task, attempt)
}
