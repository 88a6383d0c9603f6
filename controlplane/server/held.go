package server

import "strings"

// Ended tasks of a job with policies are kept while the job continues, because policies that order
// or count tasks read their statuses. The job holds them. When its last task ends, they join the
// ended tasks as if they had ended then. A job never holds more than its tasks, and an almost full
// database collects them like the others.

// goesOn reports whether a job holds its ended tasks.
func (j *job) goesOn() bool {
	if j == nil || j.mod == 0 || j.open == 0 {
		return false
	}
	_, keeps := j.space.policies[j.id]
	return keeps
}

// addEnded lists an ended task, or lets its job hold it.
func (x *index) addEnded(t *task) {
	if t.held = t.job.goesOn(); t.held {
		t.job.held.add(t)
		x.holding[t.job] = struct{}{}
		return
	}
	x.ended.add(t)
}

// removeEnded is the inverse of addEnded.
func (x *index) removeEnded(t *task) {
	if !t.held {
		x.ended.remove(t)
		return
	}
	t.job.held.remove(t)
	if t.held = false; len(t.job.held) == 0 {
		delete(x.holding, t.job)
	}
}

// release lists the tasks that a job holds as ended, no earlier than end.
func (x *index) release(j *job, end int64) {
	for _, t := range j.held {
		t.held, t.end = false, max(t.end, end)
		x.ended.add(t)
	}
	j.held = nil
	delete(x.holding, j)
}

// applyPolicies records whether a job has policies.
func (x *index) applyPolicies(s *namespaceState, id string, there bool) {
	if there {
		s.policies[strings.Clone(id)] = struct{}{}
		return
	}
	delete(s.policies, id)
	if j := s.jobs[id]; j != nil {
		x.release(j, 0)
	}
}
