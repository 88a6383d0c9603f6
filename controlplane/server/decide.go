package server

import (
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// step is one action, with the conditions under which it is still due. Steps are independent of
// each other.
type step struct {
	why      why
	key      string // the subject
	compares []controlplane.Compare
	deletes  []string
	put      types.Message // stored under key, if not nil
	// of is requeued if the step was not done; nil means nothing.
	of subject
}

// subject is an object that a step concerns.
type subject interface {
	// requeue makes the next pass consider it again.
	requeue(x *index)
}

// why is the reason of a step, for logs.
type why string

const (
	finished     why = "finished"
	statusOnly   why = "status without a task"
	jobDone      why = "its tasks are gone"
	neverJoined  why = "its job never came"
	sessionEnded why = "its session ended"
	jobEnded     why = "its job has ended"
	ownerGone    why = "its owner is gone"
	withdrawn    why = "its policy was withdrawn"
	nodeSession  why = "the session of its node is over"
	unused       why = "no task refers to it"
	full         why = "the database is nearly full"
	crowded      why = "too many tasks wait"
	room         why = "there is room again"
	overBudget   why = "a namespace is over its budget"
	inBudget     why = "a namespace is within its budget again"
	counted      why = "runs have ended"
	oldRuns      why = "its runs are long ago, or the namespace has too many histories"
)

// pass is one pass over the index, which decides what is due.
type pass struct {
	*index
	policy Policy
	now    time.Time
	// revision is the revision up to which the index is complete; it may know more of some kinds.
	revision int64
	// tasks is the revision up to which the index knows every task.
	tasks int64
	// usage is that of the database; zero while it is unknown.
	usage controlplane.Usage
	// repeat writes the admission of a nearly full database again, with present figures. Without
	// any write etcd does not notice freed space.
	repeat bool
	// recorded is the revision up to which ends of tasks may be deleted.
	recorded int64
	// limit is the approximate largest number of steps.
	limit int
	// metrics receives the usage of namespaces; nil means none.
	metrics *Metrics
	// at is the key under decision. failed is called if deciding about it panics.
	at     string
	failed func(key string, err error)

	steps []step
}

// decide returns the due steps, in any order. more reports whether others may be due. It returns no
// step twice, unless its subject changes or is requeued.
func (l *pass) decide() (steps []step, more bool) {
	for _, collect := range []func(){l.admit, l.budgets, l.outlivedDependents, l.emptyJobs, l.orphaned, l.leftTasks, l.unusedSpecs, l.countRuns, l.endedTasks} {
		if l.contain(collect); l.enough() {
			return l.steps, true
		}
	}
	return l.steps, false
}

// mostPanics bounds the items of one kind that a pass skips after a panic.
const mostPanics = 32

// contain runs the decisions about one kind. It reports and skips an item that panics, until the
// item changes.
func (l *pass) contain(collect func()) {
	for range mostPanics {
		l.at = ""
		err := supervise.Contain(func() error { collect(); return nil })
		if err == nil {
			return
		}
		if l.failed != nil {
			l.failed(l.at, err)
		}
	}
}

func (l *pass) enough() bool { return len(l.steps) >= l.limit }

func (l *pass) add(why why, key string, of subject, compares ...controlplane.Compare) *step {
	l.steps = append(l.steps, step{why: why, key: key, of: of, compares: compares})
	return &l.steps[len(l.steps)-1]
}

// remove adds a step that deletes a key.
func (l *pass) remove(why why, key string, mod int64, of subject, more ...controlplane.Compare) {
	s := l.add(why, key, of, append(more, unchanged(key, mod))...)
	s.deletes = []string{key}
}

func unchanged(key string, mod int64) controlplane.Compare {
	return controlplane.Compare{Key: key, Target: controlplane.ModRevision, Revision: mod}
}

func created(key string, rev int64) controlplane.Compare {
	return controlplane.Compare{Key: key, Target: controlplane.CreateRevision, Revision: rev}
}

// admit closes admission before the database is full, or when too many tasks wait, and opens it
// again.
func (l *pass) admit() {
	key := controlplane.AdmissionKey()
	want, why := l.admitted()
	switch is := l.admission; {
	case want == nil && is != nil:
		l.remove(room, key, l.admissionMod, nil)
	case want != nil && l.usage.Alarm:
		// Etcd would refuse the write, and refuses every task by itself.
	case want != nil && (is == nil || is.Busy != want.Busy || l.repeat && !want.Busy):
		l.add(why, key, nil, unchanged(key, l.admissionMod)).put = want
	}
}

// admitted returns the admission to store, nil if new tasks are welcome.
func (l *pass) admitted() (*types.Admission, why) {
	share, is := l.usage.Share(), l.admission
	closed, slowed := is != nil && !is.Busy, is != nil && is.Busy
	switch {
	case share >= l.policy.CloseAt && l.usage.Quota > 0,
		closed && (l.usage.Quota == 0 || l.usage.Alarm || share >= l.policy.OpenBelow):
		return &types.Admission{Reason: fmt.Sprintf("etcd's database holds %s, %.0f %% of its quota of %s",
			size(l.usage.InUse), 100*share, size(l.usage.Quota))}, full
	case l.waiting >= l.policy.MaxPending, slowed && l.waiting >= l.policy.MaxPending-l.policy.MaxPending/20:
		return &types.Admission{Busy: true, Reason: fmt.Sprintf("%d tasks wait, and at most %d may", l.waiting, l.policy.MaxPending)}, crowded
	}
	return nil, ""
}

// outlivedDependents collects dependents that have outlived an owner. The compare of the owner
// catches changes not known here. A dependent of a job with possibly unknown tasks is requeued.
func (l *pass) outlivedDependents() {
	var later []*dependent
	defer func() {
		for _, th := range later {
			l.touch(th)
		}
	}()
	for len(l.touched) > 0 && !l.enough() {
		th := l.touched[0]
		l.touched, l.at = rest(l.touched), th.key
		if th.queued = false; th.mod == 0 {
			continue
		}
		cond, why, ok := l.outlived(th)
		switch {
		case ok:
			l.remove(why, th.key, th.mod, th, cond)
		case l.awaitsTasks(th):
			later = append(later, th)
		}
	}
}

func (th *dependent) requeue(x *index) { x.touch(th) }

// rest returns a queue without its first element.
func rest[T any](queue []*T) []*T {
	queue[0] = nil
	if len(queue) == 1 {
		return nil
	}
	return queue[1:]
}

// emptyJobs collects jobs without tasks. A job is written after its tasks, and again with those that
// an update adds: so it has not changed since.
func (l *pass) emptyJobs() {
	for j := range l.empty {
		if j.asked || j.mod > l.revision {
			continue
		}
		if l.enough() {
			return
		}
		j.asked, l.at = true, controlplane.JobKey(j.space.name, j.id)
		l.remove(jobDone, l.at, j.mod, j)
	}
}

func (j *job) requeue(*index) { j.asked = false }

// unusedSpecs collects specs that no task has referred to for some time. A launch always writes its
// specs, which makes the compare fail. A spec that was not deleted is found unused again.
func (l *pass) unusedSpecs() {
	grace := l.policy.SpecGrace
	if l.urgent() || l.admission != nil && !l.admission.Busy {
		// No new task comes that could refer to it.
		grace = 0
	}
	for u := l.unused.first(); u != nil && !l.enough(); u = l.unused.first() {
		l.at = controlplane.SpecKey(u.name.ns, u.name.digest)
		used := l.used(u.name)
		if !used && (l.now.Sub(u.since) < grace || u.mod > l.revision) {
			return
		}
		if !used {
			l.remove(unused, controlplane.SpecKey(u.name.ns, u.name.digest), u.mod, nil)
		}
		l.unused.drop()
	}
}
