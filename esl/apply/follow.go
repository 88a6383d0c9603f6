package apply

import (
	"context"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// follow follows the statuses of tasks until check has reported true for a time. It ends early with an
// error of check. Precondition: that took longer than the timeout of the update; late says why.
func (r *roll) follow(ctx context.Context, hold time.Duration, check func() (bool, error), late func(after time.Duration) string, tasks []*member) error {
	if len(tasks) == 0 {
		return nil
	}
	byID := make(map[string]*member, len(tasks))
	ids := make([]string, len(tasks))
	for i, m := range tasks {
		byID[m.id], ids[i] = m, m.id
	}
	watching, cancel := context.WithCancel(ctx)
	updates, broken := make(chan controlplane.StatusUpdate), make(chan error, 1)
	go func() {
		defer close(broken)
		broken <- r.c.Watch(watching, controlplane.WatchTasks{IDs: ids}, func(u controlplane.StatusUpdate) error {
			select {
			case updates <- u:
				return nil
			case <-watching.Done():
				return watching.Err()
			}
		})
	}()
	defer func() {
		cancel()
		for range broken { // until the watch has ended
			continue
		}
	}()
	limit := time.NewTimer(time.Duration(r.u.opts.Timeout) + hold)
	defer limit.Stop()
	held := time.NewTimer(0)
	defer held.Stop()
	held.Stop()
	for holds, first := false, true; ; {
		select {
		case u := <-updates:
			restarted := take(byID, u)
			if first {
				deleted(byID, u)
			}
			first = false
			ok, err := check()
			switch {
			case err != nil:
				return err
			case ok && hold == 0:
				return nil
			case ok && (!holds || restarted):
				held.Reset(hold)
			case !ok:
				held.Stop()
			}
			holds = ok
		case <-held.C:
			return nil
		case <-limit.C:
			return types.Errorf(types.Precondition, "%s", late(time.Duration(r.u.opts.Timeout)))
		case err := <-broken:
			if ctx.Err() != nil {
				return types.Errorf(types.Unavailable, "interrupted: %w", ctx.Err())
			}
			return err
		case <-ctx.Done():
			return types.Errorf(types.Unavailable, "interrupted: %w", ctx.Err())
		}
	}
}

// take takes changes of statuses. It reports whether a process was started again.
func take(byID map[string]*member, u controlplane.StatusUpdate) (restarted bool) {
	for _, c := range u.Changes {
		m := byID[c.ID]
		if m == nil {
			continue
		}
		was := m.status
		m.status, m.mod, m.gone = c.Status, c.Revision, c.Status == nil && was != nil
		restarted = restarted || was != nil && c.Status != nil && (was.Attempt != c.Status.Attempt || was.Restarts != c.Status.Restarts)
	}
	return restarted
}

// deleted marks the tasks whose status was deleted before the first update of a watch.
func deleted(byID map[string]*member, u controlplane.StatusUpdate) {
	there := make(map[string]bool, len(u.Changes))
	for _, c := range u.Changes {
		there[c.ID] = true
	}
	for id, m := range byID {
		m.gone = m.gone || m.status != nil && !there[id]
	}
}
