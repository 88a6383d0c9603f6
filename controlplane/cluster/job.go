package cluster

import (
	"slices"
	"strings"
)

// joinJob lists a task with its job.
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

// members are the tasks of a job that are not folded.
type members struct {
	all map[*Task]struct{}
	// sorted are the same by id, nil until somebody asks while none is folded.
	sorted []*Task
}

// Members returns the tasks of a job, sorted by id; folded ones as Tasks has them.
func (v *View) Members(job ID) []*Task {
	m := v.members[job]
	if m != nil && m.sorted != nil {
		return slices.Clone(m.sorted)
	}
	var out []*Task
	v.EachMember(job, func(t *Task) { out = append(out, t) })
	slices.SortFunc(out, func(a, b *Task) int { return strings.Compare(a.ID.ID, b.ID.ID) })
	if m != nil && v.folded.jobs[job] == 0 {
		m.sorted = slices.Clone(out)
	}
	return out
}

// EachMember calls f for every task of a job, in no order; folded ones as Tasks has them.
// f may fold the task, or unfold it, and no other one of the job.
func (v *View) EachMember(job ID, f func(*Task)) {
	for p := v.folded.jobs[job]; p != 0; {
		t := v.unfolded(p)
		p = v.folded.link(p, foldNext)
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

// kin are the tasks of a job that run the same.
type kin struct {
	job  ID
	spec string
}

// countImage counts the image by digest that the status of a member of a job names,
// sign times.
func (v *View) countImage(t *Task, sign int) {
	if t.Info.V == nil || t.Info.V.Job == "" || t.Status.V == nil || t.Status.V.Image == "" {
		return
	}
	of := kin{ID{t.ID.Namespace, t.Info.V.Job}, t.Info.V.Spec}
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

// Image returns the image by digest that the next attempt of a task is to run: that
// of its earlier ones, or of another task of its job that runs the same; "" while
// nobody knows it. Tasks that were bound before anybody knew may have found
// different ones: then the first by name is that of the job.
func (v *View) Image(t *Task) string {
	if t.Status.V != nil && t.Status.V.Image != "" {
		return t.Status.V.Image
	}
	if t.Info.V == nil || t.Info.V.Job == "" {
		return ""
	}
	first := ""
	for image := range v.images[kin{ID{t.ID.Namespace, t.Info.V.Job}, t.Info.V.Spec}] {
		if first == "" || image < first {
			first = image
		}
	}
	return first
}
