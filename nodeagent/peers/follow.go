package peers

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// Gap is the least time between two changes that Follow tells: a large job changes all the time.
const Gap = 500 * time.Millisecond

// Follow tells which tasks of the job of self run, and self, in order of their index: at once, and
// after each change. It ends when ctx is done or tell returns an error, and returns that. It retries
// everything else. Precondition: the task has no job that lists its tasks.
func (r *Reader) Follow(ctx context.Context, self Self, log *zap.Logger, tell func([]Peer) error) error {
	members, err := r.ownMembers(ctx, self)
	if err != nil {
		return err
	}
	client, err := controlplane.New(r.Store, self.Namespace)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f := &follower{r: r, self: self, members: members, statuses: make(map[string]types.Status), known: make(map[string]Peer), changed: make(chan struct{}, 1)}
	var watch sync.WaitGroup
	defer watch.Wait()
	defer cancel(nil)
	watch.Go(func() {
		cancel(client.Watch(ctx, controlplane.WatchTasks{IDs: members, Log: log}, f.apply))
	})
	return f.run(ctx, tell)
}

// ownMembers returns the tasks of the job of self.
func (r *Reader) ownMembers(ctx context.Context, self Self) (members []string, err error) {
	return backoff.Retry(ctx, func() ([]string, error) {
		t, err := r.Task(ctx, self.Namespace, self.Task)
		if err == nil && t != nil && t.Job != "" {
			members, _, err = r.members(ctx, self.Namespace, t.Job, 0)
		}
		if err == nil && (!slices.Contains(members, self.Task) || t.Count > types.MaxPeers) {
			err = types.Errorf(types.Precondition, "follow peers: the task has no job that lists its tasks: submit it with peers, in a job of at most %d tasks", types.MaxPeers)
		}
		if err != nil && !types.ClassOf(err).Retryable() {
			err = backoff.Permanent(err)
		}
		return members, err
	}, backoff.WithBackOff(controlplane.RetryPolicy()), backoff.WithMaxElapsedTime(0))
}

// follower follows the tasks of a job.
type follower struct {
	r       *Reader
	self    Self
	members []string
	changed chan struct{}

	// known holds the located attempts of tasks.
	known map[string]Peer

	mu       sync.Mutex
	statuses map[string]types.Status
}

// apply takes changes of statuses.
func (f *follower) apply(u controlplane.StatusUpdate) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range u.Changes {
		if c.Status == nil {
			delete(f.statuses, c.ID)
		} else {
			f.statuses[c.ID] = *c.Status
		}
	}
	if u.Synced || len(u.Changes) > 0 {
		f.again()
	}
	return nil
}

// again makes run look again.
func (f *follower) again() {
	select {
	case f.changed <- struct{}{}:
	default: // A change is pending.
	}
}

// run tells changes until ctx is done or tell fails.
func (f *follower) run(ctx context.Context, tell func([]Peer) error) error {
	retry := controlplane.RetryPolicy()
	var last []Peer
	for told := false; ; {
		select {
		case <-f.changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		now, err := f.running(ctx)
		wait := Gap
		switch {
		case err != nil:
			wait = retry.NextBackOff()
			f.again()
		case !told || !slices.EqualFunc(now, last, samePlace):
			if err := tell(now); err != nil {
				return err
			}
			told, last = true, now
			retry.Reset()
		}
		if err := supervise.Pause(ctx, wait); err != nil {
			return context.Cause(ctx)
		}
	}
}

// samePlace reports whether two lists say the same of a task.
func samePlace(a, b Peer) bool { return a.Index == b.Index && a.Address() == b.Address() }

// running returns the running tasks, and the own one, with their addresses.
func (f *follower) running(ctx context.Context) ([]Peer, error) {
	f.mu.Lock()
	var there, lacking []Peer
	for i, id := range f.members {
		s := f.statuses[id]
		p := peer(i, id, &s)
		if p.Phase != types.Running && !(id == f.self.Task && p.Phase.Held()) {
			delete(f.known, id)
			continue
		}
		if known, ok := f.known[id]; !ok || known.Attempt != p.Attempt {
			lacking = append(lacking, p)
		}
		there = append(there, p)
	}
	f.mu.Unlock()
	if err := f.r.locate(ctx, f.self.Namespace, lacking, 0); err != nil {
		return nil, err
	}
	for _, p := range lacking {
		if p.Host != "" { // otherwise it has ended since, and its change comes
			f.known[p.Task] = p
		}
	}
	located := there[:0]
	for _, p := range there {
		if known, ok := f.known[p.Task]; ok && known.Attempt == p.Attempt {
			p.Host, p.Port = known.Host, known.Port
			located = append(located, p)
		}
	}
	return located, nil
}
