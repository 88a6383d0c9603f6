package audit

import (
	"fmt"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// updateSpec applies a change of a spec, and records the problem of a stored one.
func (s *state) updateSpec(k controlplane.Key, e controlplane.Event) error {
	at := id{k.Namespace, k.ID}
	delete(s.specs, at)
	if e.Delete {
		s.touched.specs = append(s.touched.specs, at)
		return nil
	}
	spec := new(types.Spec)
	if err := types.Decode(e.Value, spec); err != nil {
		return err
	}
	s.specs[at] = ""
	if digest := controlplane.SpecDigest(spec); digest != k.ID {
		s.specs[at] = fmt.Sprintf("its spec %s has the digest %s", k.ID, digest)
	}
	return nil
}

// updateAdmission applies a change of admission. Too many waiting tasks do not close the cluster: a
// launch that has begun continues.
func (s *state) updateAdmission(e controlplane.Event) {
	var a types.Admission
	switch {
	case e.Delete, types.Parse(e.Value, &a) != nil, a.Busy:
		s.closed = 0
	case s.closed == 0:
		s.closed = e.ModRevision
	}
}

// specKept validates SpecKept for a task: until it has ended, its spec exists and has its digest.
func (s *state) specKept(t *task, found finder) {
	if t.info.V == nil || t.info.V.Spec == "" || t.ended() {
		return
	}
	at := id{t.id.ns, t.info.V.Spec}
	wrong, there := s.specs[at]
	switch _, unread := s.unread[controlplane.SpecKey(at.ns, at.id)]; {
	case unread:
	case !there:
		found(t.object(), "its spec %s is gone", at.id)
	case wrong != "":
		found(t.object(), "%s", wrong)
	}
}

// checkSpecs checks the tasks whose specs were deleted, and tasks found without a spec earlier.
func (c *Checker) checkSpecs() {
	for at := range c.standing {
		if at.guarantee == SpecKept {
			c.checkSpec(at.of.(*task))
		}
	}
	for _, gone := range c.s.touched.specs {
		for _, t := range c.s.tasks {
			if t.info.V != nil && t.id.ns == gone.ns && t.info.V.Spec == gone.id {
				c.checkSpec(t)
			}
		}
	}
}

func (c *Checker) checkSpec(t *task) {
	c.state(SpecKept, t, func(found finder) { c.s.specKept(t, found) })
}

// jobWhole validates JobWhole for a new job: all of its tasks exist.
func (s *state) jobWhole(job id, found finder) {
	cell := s.jobs[job]
	if cell == nil || !cell.created(s.revision) {
		return
	}
	if tasks := s.members[job]; tasks != cell.V.Tasks {
		found("job "+job.String(), "has %d tasks, but %d of them are stored", cell.V.Tasks, tasks)
	}
}

// updateBudget applies a change of a namespace's admission.
func (s *state) updateBudget(ns string, e controlplane.Event) {
	switch _, is := s.over[ns]; {
	case e.Delete, types.Parse(e.Value, new(types.Admission)) != nil:
		delete(s.over, ns)
	case !is:
		s.over[ns] = e.ModRevision
	}
}

// admitted validates Admitted: nothing new is submitted while the cluster is closed, or added to a
// namespace that is over a budget. Tasks of a job count when the job is written, because they
// become visible then.
func (s *state) admitted(object, ns string, found finder) {
	if s.closed != 0 && s.closed < s.revision {
		found(object, "is new, but the cluster is closed to new tasks since revision %d", s.closed)
	}
	s.inBudget(object, ns, found)
}

// inBudget is the part of Admitted for the budget of a namespace.
func (s *state) inBudget(object, ns string, found finder) {
	if over, is := s.over[ns]; is && over < s.revision {
		found(object, "is new, but namespace %s is over its budget since revision %d", ns, over)
	}
}
