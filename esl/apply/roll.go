package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// Step is a finished step of an update: a task was replaced, added or removed.
type Step struct {
	Job   string `json:"job"`
	Index int    `json:"index"`
	// Former is the id of the task that ended, empty if there was none; Task is that of the new one.
	Former string `json:"former,omitempty"`
	Task   string `json:"task,omitempty"`
	// Done of Of replacements are done; 0 of an addition or removal.
	Done int `json:"done,omitempty"`
	Of   int `json:"of,omitempty"`
}

// String says what was done.
func (s Step) String() string {
	switch {
	case s.Of == 0 && s.Former == "":
		return fmt.Sprintf("%s: added %s", s.Job, s.Task)
	case s.Of == 0:
		return fmt.Sprintf("%s: removed %s", s.Job, s.Former)
	case s.Former == "":
		return fmt.Sprintf("%s: started %s (%d of %d)", s.Job, s.Task, s.Done, s.Of)
	}
	return fmt.Sprintf("%s: replaced %s by %s (%d of %d)", s.Job, s.Former, s.Task, s.Done, s.Of)
}

// roll changes a job in place. Each step is one transaction, which compares the key of the job and
// writes it: so two updates at once exclude each other. The next step follows from the tasks that
// there are: so another apply goes on after a crash between any two steps.
type roll struct {
	c    *controlplane.Client
	x    *Change
	u    *InPlace
	tell func(Step)
	// launched are the ids of new tasks.
	launched []string
	done, of int
	// begun reports whether a step was written.
	begun bool
}

// update changes the job of a change in place.
func (d *Decision) update(ctx context.Context, c *controlplane.Client, x *Change) error {
	r := &roll{c: c, x: x, u: x.InPlace, tell: d.Told, of: len(x.InPlace.Replaces)}
	if r.tell == nil {
		r.tell = func(Step) {}
	}
	err := r.run(ctx)
	x.launched = r.launched
	switch {
	case err == nil:
		return nil
	case r.taken(err) && !r.begun:
		return err // decide again
	case r.taken(err):
		return types.Errorf(types.Precondition, "update job %s: another apply or a stop has changed it meanwhile (%w): %s", x.ID, err, action.PlanAgain.Of())
	}
	return types.Errorf(types.ClassOf(err), "update job %s: %w. %s: to go on, apply the file again, changed or not; to go back, apply the former file", x.ID, err, r.state())
}

// taken reports whether an error says that another writer has changed the job.
func (r *roll) taken(err error) bool {
	changed, ok := errors.AsType[types.KeyChanged](err)
	return ok && changed.Key == controlplane.JobKey(r.c.Namespace(), r.x.ID)
}

// state says what runs at present.
func (r *roll) state() string {
	var isNew, former, none []int
	for _, s := range r.u.slots {
		index := s.want.Task.Index
		switch {
		case s.current != nil && s.current.usable():
			isNew = append(isNew, index)
		case slices.ContainsFunc(s.former, (*member).usable):
			former = append(former, index)
		default:
			none = append(none, index)
		}
	}
	text := fmt.Sprintf("Of its %d tasks, %d run as described", len(r.u.slots), len(isNew))
	if len(former) > 0 {
		text += fmt.Sprintf(", %d as before (index %s)", len(former), manifest.IndicesOf(former))
	}
	if len(none) > 0 {
		text += fmt.Sprintf(", %d do not run (index %s)", len(none), manifest.IndicesOf(none))
	}
	return text
}

func (r *roll) run(ctx context.Context) error {
	if r.u.rolling {
		r.u.job.Updating = true
		if err := r.write(ctx, nil, nil, nil); err != nil {
			return err
		}
	}
	if err := r.add(ctx); err != nil {
		return err
	}
	if err := r.remove(ctx); err != nil {
		return err
	}
	if r.u.rolling {
		if err := r.replaceAll(ctx); err != nil {
			return err
		}
	}
	done := r.u.job
	done.Updating, done.Tasks, done.Labels, done.RequestDigest = false, len(r.u.slots), r.x.Labels(), r.u.digest
	if bytes.Equal(types.Encode(0, &done), types.Encode(0, &r.u.job)) {
		return nil
	}
	r.u.job = done
	return r.write(ctx, nil, nil, nil)
}

// write commits a step: it stops tasks, launches others into slots, and writes the job. Conflict: the
// job has changed, or a status in reads.
func (r *roll) write(ctx context.Context, stops []*member, into []*slot, reads controlplane.ReadSet) error {
	tx := r.c.Begin(reads)
	for _, m := range stops {
		tx.Stop(m.id, controlplane.StopOptions{Reason: "replaced by apply", Grace: m.grace})
	}
	subs := make([]controlplane.Submission, len(into))
	for i, s := range into {
		subs[i] = s.want
	}
	ids := tx.UpdateJob(r.x.ID, r.u.job, r.u.mod, subs...)
	res, err := tx.Commit(ctx)
	if err != nil {
		return err
	}
	r.u.mod, r.begun = res.Revision, true
	for _, m := range stops {
		m.stopped = true
	}
	for i, s := range into {
		s.current = &member{id: ids[i], index: s.want.Task.Index, grace: controlplane.GraceOf(s.want.Spec)}
		r.launched = append(r.launched, ids[i])
	}
	return nil
}

// atMost returns how many tasks one step launches or stops.
func (r *roll) atMost() int {
	const each, others = 6, 8 // compares or operations of a task, and of all else
	return max(1, (r.c.Store().Limits().Ops-others)/each)
}

// add launches tasks of new indices.
func (r *roll) add(ctx context.Context) error {
	var added []*slot
	for _, s := range r.u.slots {
		if s.added && s.current == nil {
			added = append(added, s)
		}
	}
	for part := range slices.Chunk(added, r.atMost()) {
		r.u.job.Tasks += len(part)
		if err := r.write(ctx, nil, part, nil); err != nil {
			return err
		}
		for _, s := range part {
			r.tell(Step{Job: r.x.Name, Index: s.want.Task.Index, Task: s.current.id})
		}
	}
	return nil
}

// remove stops the tasks of surplus indices, the highest first, and deletes them once they have ended.
func (r *roll) remove(ctx context.Context) error {
	live := slices.DeleteFunc(slices.Clone(r.u.surplus), func(m *member) bool { return m.stopped })
	slices.SortStableFunc(live, func(a, b *member) int { return b.index - a.index })
	for part := range slices.Chunk(live, r.atMost()) {
		r.u.job.Tasks = max(part[len(part)-1].index, len(r.u.slots))
		if err := r.write(ctx, part, nil, nil); err != nil {
			return err
		}
	}
	if err := r.ended(ctx, r.u.surplus); err != nil {
		return err
	}
	for _, m := range live {
		r.tell(Step{Job: r.x.Name, Index: m.index, Former: m.id})
	}
	return nil
}

// replaceAll replaces tasks, some at once, until all are as wanted. Those that do not work come
// first: no capacity is lost with them. Before it stops one that works, all new ones must be healthy.
func (r *roll) replaceAll(ctx context.Context) error {
	for {
		batch := r.next()
		if len(batch) == 0 {
			break
		}
		if slices.ContainsFunc(batch, (*slot).works) {
			if err := r.healthy(ctx); err != nil {
				return err
			}
		}
		if err := r.replace(ctx, batch); err != nil {
			return err
		}
	}
	if err := r.healthy(ctx); err != nil {
		return err
	}
	var left []*member // of an earlier update that failed
	for _, s := range r.u.slots {
		left, s.former = append(left, s.former...), nil
	}
	return r.ended(ctx, left)
}

// works reports whether one of its tasks does its work.
func (s *slot) works() bool {
	return s.current != nil && s.current.usable() || slices.ContainsFunc(s.former, (*member).usable)
}

// next returns the slots to replace next.
func (r *roll) next() []*slot {
	var out []*slot
	for _, s := range r.u.slots {
		if s.current == nil || s.replaces() {
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b *slot) int {
		return map[bool]int{true: 1}[a.works()] - map[bool]int{true: 1}[b.works()]
	})
	return out[:min(len(out), r.u.opts.AtOnce)]
}

// replace replaces the tasks of a batch of slots, in the order of the update.
func (r *roll) replace(ctx context.Context, batch []*slot) error {
	var former []*member
	names := make(map[*slot]string)
	for _, s := range batch {
		if n := len(s.former); n > 0 {
			names[s] = s.former[n-1].id
		}
		former = append(former, s.former...)
	}
	end := func() error {
		if err := r.stop(ctx, batch); err != nil {
			return err
		}
		return r.ended(ctx, former)
	}
	if r.u.opts.Order == manifest.StopFirst {
		if err := end(); err != nil {
			return err
		}
	}
	if err := r.start(ctx, batch); err != nil {
		return err
	}
	if err := r.healthy(ctx); err != nil {
		return err
	}
	if r.u.opts.Order == manifest.StartFirst {
		if err := end(); err != nil {
			return err
		}
	}
	for _, s := range batch {
		s.former = nil
		r.done++
		r.of = max(r.of, r.done)
		r.tell(Step{r.x.Name, s.want.Task.Index, names[s], s.current.id, r.done, r.of})
	}
	return nil
}

// start launches the missing tasks of a batch.
func (r *roll) start(ctx context.Context, batch []*slot) error {
	missing := slices.DeleteFunc(slices.Clone(batch), func(s *slot) bool { return s.current != nil })
	for part := range slices.Chunk(missing, r.atMost()) {
		if err := r.write(ctx, nil, part, nil); err != nil {
			return err
		}
	}
	return nil
}

// stop stops the former tasks of a batch. With start-first their successors are healthy at the very
// revision of the stop: otherwise stop waits again.
func (r *roll) stop(ctx context.Context, batch []*slot) error {
	for part := range slices.Chunk(batch, max(1, r.atMost()/2)) {
		for {
			var stops []*member
			reads := make(controlplane.ReadSet)
			for _, s := range part {
				if s.current != nil && r.u.opts.Order == manifest.StartFirst {
					reads[controlplane.StatusKey(r.c.Namespace(), s.current.id)] = s.current.mod
				}
				for _, m := range s.former {
					if !m.ended() && !m.stopped {
						stops = append(stops, m)
					}
				}
			}
			if len(stops) == 0 {
				break
			}
			err := r.write(ctx, stops, nil, reads)
			if err == nil {
				break
			}
			if !types.Is(err, types.Conflict) || r.taken(err) {
				return err
			}
			if err := r.healthy(ctx); err != nil { // a successor's status has changed
				return err
			}
		}
	}
	return nil
}

// ended waits until tasks have ended, and deletes them. The collector deletes those left.
func (r *roll) ended(ctx context.Context, tasks []*member) error {
	var ids []string
	for _, m := range tasks {
		ids = append(ids, m.id)
	}
	err := r.follow(ctx, 0, func() (bool, error) {
		return !slices.ContainsFunc(tasks, func(m *member) bool { return !m.ended() }), nil
	}, func(after time.Duration) string {
		at := slices.IndexFunc(tasks, func(m *member) bool { return !m.ended() })
		return fmt.Sprintf("task %s was stopped, and has not ended after %s", tasks[at].id, after)
	}, tasks)
	if err == nil && len(ids) > 0 {
		err = r.c.Remove(ctx, ids...)
	}
	return err
}

// healthy waits until all new tasks have been healthy for the time of the update. Precondition: one
// has ended without success, or is not healthy in time.
func (r *roll) healthy(ctx context.Context) error {
	var current, all []*member
	for _, s := range r.u.slots {
		if s.current != nil {
			current = append(current, s.current)
		}
		all = append(all, s.former...)
	}
	if len(current) == 0 {
		return nil
	}
	unusable := func() *member {
		for _, m := range current {
			if !m.usable() {
				return m
			}
		}
		return nil
	}
	return r.follow(ctx, time.Duration(r.u.opts.Healthy), func() (bool, error) {
		for _, m := range current {
			if m.broken() {
				return false, types.Errorf(types.Precondition, "task %s %s: %s", m.id, m.text(), action.ShowOutput.Of(m.id))
			}
		}
		return unusable() == nil, nil
	}, func(after time.Duration) string {
		m := unusable()
		if m == nil { // it has been healthy, but not long enough
			return fmt.Sprintf("after %s its new tasks do not stay healthy", after)
		}
		return fmt.Sprintf("task %s is not healthy after %s: it %s", m.id, after, m.text())
	}, append(all, current...))
}

// text says how a task is.
func (m *member) text() string {
	s := m.status
	switch {
	case m.gone:
		return "was deleted"
	case s == nil:
		return "is pending"
	case s.Phase == types.Failed:
		return strings.TrimSuffix(fmt.Sprintf("has failed with exit code %d: %s", s.ExitCode, s.Reason), ": ")
	case s.Reason != "":
		return fmt.Sprintf("is %s: %s", s.Phase, s.Reason)
	case s.Phase == types.Running && s.Health != "":
		return fmt.Sprintf("runs, and is %s", s.Health)
	}
	return "is " + string(s.Phase)
}
