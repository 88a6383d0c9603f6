package server

import (
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// orphaned collects tasks whose job has not come for a long time: their submission broke off, and
// no scheduler has seen them.
func (l *pass) orphaned() {
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

// orphan reports whether a task waits for its job, unseen by schedulers.
func (t *task) orphan() bool { return t.mod != 0 && t.statusMod == 0 && !t.visible() }

// findOrphans lists the tasks of jobs whose waiting time is over.
func (l *pass) findOrphans() {
	in := make(map[*namespaceState]bool)
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

// leftTasks stops tasks whose session has ended. An invisible one is considered again when its job
// comes.
func (l *pass) leftTasks() {
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

// endedTasks collects ended tasks that are too old, and the oldest of too many. It spares recent
// ones, so that watchers see the end, and those that a job holds. When the database is almost full
// it collects all. It leaves those that the history does not have yet.
func (l *pass) endedTasks() {
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
		if !urgent && t.statusMod > l.recorded {
			return // the others ended later
		}
		l.ended.remove(t)
		if !urgent && t.job.goesOn() {
			l.addEnded(t) // it became known before the job's policies
			continue
		}
		t.asked = true
		l.removeTask(t)
	}
}

// urgent reports whether the database is almost full.
func (l *pass) urgent() bool { return l.usage.Share() >= l.policy.PurgeAt || l.usage.Alarm }

// removeTask deletes a task and its status together. An ended task stays ended until its status is
// deleted, and while the status exists no launch can use the id.
func (l *pass) removeTask(t *task) {
	if t.mod == 0 {
		l.remove(statusOnly, t.statusKey(), t.statusMod, t, unchanged(t.key(), 0))
		return
	}
	key, status := t.key(), t.statusKey()
	s := l.add(finished, key, t, unchanged(status, t.statusMod))
	s.deletes = []string{key, status}
}

// requeue makes the next pass consider the task again.
func (t *task) requeue(x *index) {
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
