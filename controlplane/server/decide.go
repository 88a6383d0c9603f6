package server

import (
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// step is one thing to do, on conditions that hold if it still is to be done.
// Steps are independent of one another.
type step struct {
	why      why
	key      string // what it is about
	compares []controlplane.Compare
	deletes  []string
	put      types.Message // under key, if not nil
	// of is what is looked at again if it was not done; nil is nothing.
	of subject
}

// subject is what a step is about.
type subject interface {
	// again has it looked at again.
	again(x *index)
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
)

// look is one look at the index: what is to be done then.
type look struct {
	*index
	policy Policy
	now    time.Time
	// revision is the one up to which the index lacks nothing; of some kinds of keys
	// it may know more.
	revision int64
	// tasks is the one up to which it lacks no task.
	tasks int64
	// usage is that of the database; zero while it is not known.
	usage controlplane.Usage
	// repeat has it said again, with the figures of now, that the database is nearly
	// full. It is also a write: without any etcd does not find out what has become
	// free.
	repeat bool
	// limit bounds the steps, at about that many.
	limit int
	// metrics are told what namespaces use; nil means none.
	metrics *Metrics
	// at is the key that is decided about, and failed is told when that panicked.
	at     string
	failed func(key string, err error)

	steps []step
}

// decide says what is to be collected; the order of steps is any. More tells that
// there may be more to do. What it said it does not say again, unless something of
// that changes or its subject is to be looked at again.
func (l *look) decide() (steps []step, more bool) {
	for _, collect := range []func(){l.admit, l.budgets, l.outlivedThings, l.emptyJobs, l.orphaned, l.leftTasks, l.unusedSpecs, l.endedTasks} {
		if l.contain(collect); l.enough() {
			return l.steps, true
		}
	}
	return l.steps, false
}

// mostPanics bounds the items of one kind that are passed over in one look.
const mostPanics = 32

// contain collects one kind of things. An item about which deciding panics is passed over until
// it changes, and is told.
func (l *look) contain(collect func()) {
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

func (l *look) enough() bool { return len(l.steps) >= l.limit }

func (l *look) add(why why, key string, of subject, compares ...controlplane.Compare) *step {
	l.steps = append(l.steps, step{why: why, key: key, of: of, compares: compares})
	return &l.steps[len(l.steps)-1]
}

// remove adds a step that deletes a key.
func (l *look) remove(why why, key string, mod int64, of subject, more ...controlplane.Compare) {
	s := l.add(why, key, of, append(more, unchanged(key, mod))...)
	s.deletes = []string{key}
}

func unchanged(key string, mod int64) controlplane.Compare {
	return controlplane.Compare{Key: key, Target: controlplane.ModRevision, Revision: mod}
}

func created(key string, rev int64) controlplane.Compare {
	return controlplane.Compare{Key: key, Target: controlplane.CreateRevision, Revision: rev}
}

// admit closes the cluster to new tasks before the database is full, or when too many
// wait already, and opens it again.
func (l *look) admit() {
	key := controlplane.AdmissionKey()
	want, why := l.admitted()
	switch is := l.admission; {
	case want == nil && is != nil:
		l.remove(room, key, l.admissionMod, nil)
	case want != nil && l.usage.Alarm:
		// Etcd would refuse it, as it refuses every task by itself.
	case want != nil && (is == nil || is.Busy != want.Busy || l.repeat && !want.Busy):
		l.add(why, key, nil, unchanged(key, l.admissionMod)).put = want
	}
}

// admitted returns what is to be said about new tasks, nil if nothing is in their way.
func (l *look) admitted() (*types.Admission, why) {
	share, is := l.usage.Share(), l.admission
	closed, slowed := is != nil && !is.Busy, is != nil && is.Busy
	switch {
	case share >= l.policy.CloseAt && l.usage.Quota > 0,
		closed && (l.usage.Quota == 0 || l.usage.Alarm || share >= l.policy.OpenBelow):
		return &types.Admission{Reason: fmt.Sprintf("etcd's database holds %s, %.0f %% of its quota of %s",
			size(l.usage.InUse), 100*share, size(l.usage.Quota))}, full
	case l.waiting >= l.policy.MaxPending, slowed && l.waiting >= l.policy.MaxPending-l.policy.MaxPending/20:
		return &types.Admission{Busy: true, Reason: fmt.Sprintf("%d tasks wait, and %d are to at most", l.waiting, l.policy.MaxPending)}, crowded
	}
	return nil, ""
}

// outlivedThings collects what has outlived what it ends with. The compare of that is
// for what is newer than what is known here. What is of a job of which a task may be
// unknown is looked at again.
func (l *look) outlivedThings() {
	var later []*thing
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
		case l.early(th):
			later = append(later, th)
		}
	}
}

func (th *thing) again(x *index) { x.touch(th) }

// rest returns a queue without its first.
func rest[T any](queue []*T) []*T {
	queue[0] = nil
	if len(queue) == 1 {
		return nil
	}
	return queue[1:]
}

// emptyJobs collects jobs whose tasks are all gone. A job is written after its tasks,
// and none joins it later.
func (l *look) emptyJobs() {
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

func (j *job) again(*index) { j.asked = false }

// unusedSpecs collects specs that no task has referred to for some time. Who launches
// a task writes its spec anew, even if it is there: that is what the compare is for.
// One that could not be deleted is found unused again.
func (l *look) unusedSpecs() {
	grace := l.policy.SpecGrace
	if l.urgent() || l.admission != nil && !l.admission.Busy {
		// Nothing new comes that could refer to it.
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
