package server

import "strings"

// What has ended of a job with policies is kept while the job goes on: what comes after a
// task, or counts it, goes by its status. It is held by its job, and joins what has ended
// when the last of the job has, as if it had ended then. There is never more of it than
// jobs that go on have tasks; and when the database is all but full, it goes as all else.

// goesOn reports whether what has ended of a job is kept.
func (j *job) goesOn() bool {
	if j == nil || j.mod == 0 || j.open == 0 {
		return false
	}
	_, keeps := j.space.policies[j.id]
	return keeps
}

// addEnded lists a task that has ended, or has its job hold it.
func (x *index) addEnded(t *task) {
	if t.held = t.job.goesOn(); t.held {
		t.job.held.add(t)
		x.holding[t.job] = struct{}{}
		return
	}
	x.ended.add(t)
}

// removeEnded undoes addEnded.
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

// release lists what a job holds as having ended, at a time at the earliest.
func (x *index) release(j *job, end int64) {
	for _, t := range j.held {
		t.held, t.end = false, max(t.end, end)
		x.ended.add(t)
	}
	j.held = nil
	delete(x.holding, j)
}

// applyPolicies notes whether a job has policies.
func (x *index) applyPolicies(s *space, id string, there bool) {
	if there {
		s.policies[strings.Clone(id)] = struct{}{}
		return
	}
	delete(s.policies, id)
	if j := s.jobs[id]; j != nil {
		x.release(j, 0)
	}
}
