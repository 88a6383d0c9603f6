package server

import (
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// orphaned collects tasks whose job has not come for long: their submission broke off,
// and nobody has seen them.
func (l *look) orphaned() {
	l.findOrphans()
	for len(l.orphans) > 0 && !l.enough() {
		t := l.orphans[0]
		l.at = t.key()
		if l.orphans = rest(l.orphans); !t.orphan() || t.asked {
			continue
		}
		t.asked = true
		l.remove(neverJoined, t.key(), t.mod, t,
			unchanged(controlplane.JobKey(t.space.name, t.job.id), 0), unchanged(t.statusKey(), 0))
	}
}

// orphan reports whether a task waits for its job, and nobody has seen it.
func (t *task) orphan() bool { return t.mod != 0 && t.statusMod == 0 && !t.visible() }

// findOrphans lists the tasks of jobs that are waited for no longer.
func (l *look) findOrphans() {
	in := make(map[*space]bool)
	for j := range l.incomplete {
		if !j.asked && l.now.Sub(j.since) >= l.policy.OrphanGrace {
			j.asked, in[j.space] = true, true
		}
	}
	for s := range in {
		for _, t := range s.tasks {
			if t.orphan() && t.job.asked {
				l.orphans = append(l.orphans, t)
			}
		}
	}
}

// leftTasks stops tasks whose session has ended. One that is not visible is looked at
// again when its job comes.
func (l *look) leftTasks() {
	for len(l.left) > 0 && !l.enough() {
		t := l.left[0]
		l.at = t.key()
		if l.left = rest(l.left); t.session == nil || t.session.mod != 0 || t.asked || !t.visible() {
			continue
		}
		t.asked = true
		s := l.add(sessionEnded, t.key(), t, unchanged(t.key(), t.mod), unchanged(controlplane.SessionKey(t.space.name, t.session.id), 0))
		stopped := *t.session.tasks[t]
		stopped.Stop = &types.Stop{Reason: fmt.Sprintf("session %s ended", t.session.id)}
		s.put = &stopped
	}
}

// endedTasks collects tasks that have ended: what is too old, and the oldest of what
// is too many, but nothing that somebody may not have had the time to see, nor what a job
// holds. When the database is all but full, everything.
func (l *look) endedTasks() {
	urgent := l.urgent()
	if urgent {
		for j := range l.holding {
			l.release(j, 0)
		}
	}
	for t := l.ended.first(); t != nil && !l.enough(); t = l.ended.first() {
		l.at = t.key()
		age := l.now.Sub(time.Unix(0, t.end))
		tooMany := len(l.ended) > l.policy.KeepNumber
		if !urgent && age < l.policy.KeepAge && (!tooMany || age < l.policy.KeepMin) {
			return
		}
		l.ended.remove(t)
		if !urgent && t.job.goesOn() {
			l.addEnded(t) // which was known before its policies were
			continue
		}
		t.asked = true
		l.removeTask(t)
	}
}

// urgent reports whether the database is all but full.
func (l *look) urgent() bool { return l.usage.Share() >= l.policy.PurgeAt || l.usage.Alarm }

// removeTask deletes a task and its status together. That a task has ended does not
// change any more: its status goes with it alone, and as long as it is there nobody
// launches another task of that id.
func (l *look) removeTask(t *task) {
	if t.mod == 0 {
		l.remove(statusOnly, t.statusKey(), t.statusMod, t, unchanged(t.key(), 0))
		return
	}
	key, status := t.key(), t.statusKey()
	s := l.add(finished, key, t, unchanged(status, t.statusMod))
	s.deletes = []string{key, status}
}

// again has a task looked at again that something was to be done about.
func (t *task) again(x *index) {
	t.asked = false
	switch {
	case t.mod == 0 && t.statusMod == 0:
	case t.statusMod != 0 && t.stage == ends:
		if t.at < 0 {
			x.addEnded(t)
		}
	case t.orphan():
		x.orphans = append(x.orphans, t)
	case t.session != nil && t.session.mod == 0:
		x.left = append(x.left, t)
	}
}
