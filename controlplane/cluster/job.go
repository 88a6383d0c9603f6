package cluster

import (
	"slices"
	"strings"
)

// joinJob adds a task to its job.
func (v *View) joinJob(t *Task) {
	if t.Info.V == nil || t.Info.V.Job == "" {
		return
	}
	job := ID{t.ID.Namespace, t.Info.V.Job}
	m := v.members[job]
	if m == nil {
		m = &members{all: make(map[*Task]struct{})}
		v.members[job] = m
		v.jobs[job.ID] = job.ID
	}
	m.all[t], m.sorted = struct{}{}, nil
	v.countImage(t, 1)
}

func (v *View) leaveJob(t *Task) {
	if t.Info.V == nil || t.Info.V.Job == "" {
		return
	}
	v.countImage(t, -1)
	job := ID{t.ID.Namespace, t.Info.V.Job}
	m := v.members[job]
	if m == nil {
		return
	}
	m.sorted = nil
	if delete(m.all, t); len(m.all) == 0 {
		delete(v.members, job)
		delete(v.jobs, job.ID)
	}
}

// members are the expanded tasks of a job.
type members struct {
	all map[*Task]struct{}
	// sorted holds the same tasks by id. It is nil until a caller asks while none is compacted.
	sorted []*Task
}

// Members returns the tasks of a job, sorted by id; compacted ones as in Tasks.
func (v *View) Members(job ID) []*Task {
	m := v.members[job]
	if m != nil && m.sorted != nil {
		return slices.Clone(m.sorted)
	}
	var out []*Task
	v.EachMember(job, func(t *Task) { out = append(out, t) })
	slices.SortFunc(out, func(a, b *Task) int { return strings.Compare(a.ID.ID, b.ID.ID) })
	if m != nil && v.compacted.jobs[job] == 0 {
		m.sorted = slices.Clone(out)
	}
	return out
}

// EachMember calls f for every task of a job, in no order; compacted ones as in Tasks. f may
// compact or expand this task, but no other one of the job.
func (v *View) EachMember(job ID, f func(*Task)) {
	for p := v.compacted.jobs[job]; p != 0; {
		t := v.expanded(p)
		p = v.compacted.link(p, recNext)
		f(t)
	}
	m := v.members[job]
	if m == nil {
		return
	}
	for t := range m.all {
		f(t)
	}
}

// siblings identifies the tasks of a job with the same spec.
type siblings struct {
	job  ID
	spec string
}

// countImage adds sign to the count of the image by digest in the status of a member of a job.
func (v *View) countImage(t *Task, sign int) {
	if t.Info.V == nil || t.Info.V.Job == "" || t.Status.V == nil || t.Status.V.Image == "" {
		return
	}
	of := siblings{ID{t.ID.Namespace, t.Info.V.Job}, t.Info.V.Spec}
	counts := v.images[of]
	if counts == nil {
		counts = make(map[string]int)
		v.images[of] = counts
	}
	if counts[t.Status.V.Image] += sign; counts[t.Status.V.Image] == 0 {
		delete(counts, t.Status.V.Image)
	}
	if len(counts) == 0 {
		delete(v.images, of)
	}
}

// Image returns the image by digest for the next attempt of a task: that of its earlier attempts,
// or of a sibling with the same spec; "" while it is unknown. Siblings bound before it was known
// may have resolved different images: then the first one by name counts.
func (v *View) Image(t *Task) string {
	if t.Status.V != nil && t.Status.V.Image != "" {
		return t.Status.V.Image
	}
	if t.Info.V == nil || t.Info.V.Job == "" {
		return ""
	}
	first := ""
	for image := range v.images[siblings{ID{t.ID.Namespace, t.Info.V.Job}, t.Info.V.Spec}] {
		if first == "" || image < first {
			first = image
		}
	}
	return first
}
