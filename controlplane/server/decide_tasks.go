package server

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// tasks stops those whose session has ended, and collects the finished and those
// that never became visible.
func (d *decider) tasks() {
	var ended []*cluster.Task
	for id, t := range d.view.Tasks {
		switch {
		case t.Status.V != nil && t.Phase().Ended():
			ended = append(ended, t)
		case t.Info.V == nil:
			// The rest of a task is the scheduler's to end.
		case !d.view.Visible(t):
			d.orphan(id, t)
		case t.Info.V.Stop == nil && d.orphaned(id.Namespace, t.Info.V.Session):
			d.stop(id, t)
		}
	}
	d.finished(ended)
}

// stop asks for the end of a task whose session has ended.
func (d *decider) stop(id cluster.ID, t *cluster.Task) {
	session := t.Info.V.Session
	key := controlplane.TaskKey(id.Namespace, id.ID)
	s := d.add(sessionEnded, key, unchanged(key, t.Info.Mod), unchanged(controlplane.SessionKey(id.Namespace, session), 0))
	stopped := *t.Info.V
	stopped.Stop = &types.Stop{Reason: fmt.Sprintf("session %s ended", session)}
	s.put = &stopped
}

// orphan collects a task whose job has not come for long: its submission broke
// off, and nobody has seen the task.
func (d *decider) orphan(id cluster.ID, t *cluster.Task) {
	key := controlplane.TaskKey(id.Namespace, id.ID)
	if d.waited(key, d.policy.OrphanGrace) {
		d.remove(neverJoined, key, t.Info.Mod,
			unchanged(controlplane.JobKey(id.Namespace, t.Info.V.Job), 0),
			unchanged(controlplane.StatusKey(id.Namespace, id.ID), 0))
	}
}

// finished collects tasks that have ended: what is too old, and the oldest of what
// is too many, but nothing that somebody may not have had the time to see. When
// the database is all but full, everything.
func (d *decider) finished(ended []*cluster.Task) {
	slices.SortFunc(ended, func(a, b *cluster.Task) int { return cmp.Compare(a.Status.V.Ended, b.Status.V.Ended) })
	urgent := d.usage.Share() >= d.policy.PurgeAt
	for i, t := range ended {
		age := d.now.Sub(d.endOf(t))
		tooMany := len(ended)-i > d.policy.KeepNumber
		if urgent || age >= d.policy.KeepAge || tooMany && age >= d.policy.KeepMin {
			d.removeTask(t)
		}
	}
}

// endOf returns when a task ended. One that never ran may not say: for that it is
// when this collector saw it first.
func (d *decider) endOf(t *cluster.Task) time.Time {
	if t.Status.V.Ended != 0 {
		return time.Unix(0, t.Status.V.Ended)
	}
	key := controlplane.StatusKey(t.ID.Namespace, t.ID.ID)
	d.waited(key, 0)
	return d.next[key]
}

// removeTask deletes a task and its status together.
func (d *decider) removeTask(t *cluster.Task) {
	task := controlplane.TaskKey(t.ID.Namespace, t.ID.ID)
	status := controlplane.StatusKey(t.ID.Namespace, t.ID.ID)
	if t.Info.V == nil {
		d.remove(statusOnly, status, t.Status.Mod, unchanged(task, 0))
		return
	}
	s := d.add(finished, task, unchanged(task, t.Info.Mod), unchanged(status, t.Status.Mod))
	s.deletes = []string{task, status}
}

// admission closes the cluster to new tasks before the database is full, and opens
// it again.
func (d *decider) admission() {
	key := controlplane.AdmissionKey()
	share := d.usage.Share()
	switch is := &d.view.Admission; {
	case d.usage.Quota == 0:
	case is.V == nil && share >= d.policy.CloseAt:
		s := d.add(full, key, unchanged(key, 0))
		s.put = &types.Admission{Reason: fmt.Sprintf("etcd's database holds %s, %.0f %% of its quota of %s",
			size(d.usage.InUse), 100*share, size(d.usage.Quota))}
	case is.V != nil && share < d.policy.OpenBelow:
		d.remove(room, key, is.Mod)
	}
}
