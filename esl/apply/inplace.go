package apply

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
	"github.com/escher-sched/escher/types/words"
)

// InPlace is the change of a job that stays: some of its tasks are replaced, added or removed.
type InPlace struct {
	// Replaces are the ids of the tasks to replace, and Removes of those to stop for good.
	Replaces []string `json:"replaces,omitempty"`
	Removes  []string `json:"removes,omitempty"`
	// Adds are the indices of the tasks to add.
	Adds manifest.Indices `json:"adds,omitempty"`
	// AtOnce and Order say how tasks are replaced.
	AtOnce int                  `json:"atOnce"`
	Order  manifest.UpdateOrder `json:"order"`

	opts manifest.Update
	job  types.Job
	mod  int64
	// digest is the wanted RequestDigest of the job, and group its tasks with the additions of its
	// policies; nil if it has none.
	digest string
	group  *esl.Group
	// slots hold the wanted tasks by index. surplus are the tasks of other indices that have not
	// ended by themselves.
	slots   []*slot
	surplus []*member
	// rolling reports whether tasks are replaced, or an earlier update has not finished.
	rolling bool
}

// slot is a wanted task.
type slot struct {
	want controlplane.Submission
	// current is the task that is as wanted; nil if there is none.
	current *member
	// former are all others of its index.
	former []*member
	// added reports whether the job had no task of its index.
	added bool
}

// member is a task of the job.
type member struct {
	id      string
	index   int
	stopped bool
	grace   time.Duration
	// status is its last known status, of revision mod; nil if there is none.
	status *types.Status
	mod    int64
	// gone reports whether it was deleted.
	gone bool
}

func (m *member) ended() bool { return m.gone || m.status != nil && m.status.Phase.Ended() }

// usable reports whether it does its work, or has done it.
func (m *member) usable() bool {
	s := m.status
	return !m.gone && s != nil && (s.Phase == types.Running && s.Health.Usable() || s.Phase == types.Succeeded)
}

// broken reports whether it ended without success.
func (m *member) broken() bool { return m.ended() && !m.usable() }

// together reports whether the tasks of a job are replaced all at once: its policies do not allow
// anything else or change, its tasks know their peers, or it is of an older version.
func (d *decider) together(c *Change, t there, wanted []controlplane.Submission) bool {
	j := d.view.Jobs[cluster.ID{Namespace: d.ns, ID: t.id}]
	stored := d.view.Policies[cluster.ID{Namespace: d.ns, ID: t.id}]
	peers := func(s controlplane.Submission) bool { return s.Spec != nil && s.Spec.Peers != types.NoPeers }
	unnumbered := func(m *cluster.Task) bool { return m.Info.V.Count == 0 }
	switch {
	case stored != nil && stored.V != nil && slices.ContainsFunc(stored.V.Policies, esl.Elsewhere):
		return true
	case len(c.policies) == 0 && (stored != nil || j.V.RequestDigest != ""):
		return true
	case len(c.policies) > 0 && (stored == nil || !c.oneByOne() || len(d.otherPolicies(t, c.stored)) > 0):
		return true
	}
	return len(j.V.Members) > 0 || slices.ContainsFunc(wanted, peers) || slices.ContainsFunc(t.tasks, unnumbered)
}

// inPlace compares a job with the wanted tasks one by one. It returns nil if the job must be replaced
// as a whole.
func (d *decider) inPlace(c *Change, t there, wanted func(time.Time) ([]controlplane.Submission, error)) (*InPlace, error) {
	subs, err := wanted(d.now)
	if err != nil || d.together(c, t, subs) {
		return nil, err
	}
	cell := d.view.Jobs[cluster.ID{Namespace: d.ns, ID: t.id}]
	u := &InPlace{opts: c.doc.Job.Update.WithDefaults(), job: *cell.V, mod: cell.Mod, digest: RequestDigest(subs, c.stored)}
	if len(c.policies) > 0 {
		requested := wanted
		wanted = func(submitted time.Time) ([]controlplane.Submission, error) {
			subs, err := requested(submitted)
			if err != nil {
				return nil, err
			}
			u.group, err = d.group(c, t, subs)
			return u.group.Tasks, err
		}
		if subs, err = wanted(d.now); err != nil {
			return nil, err
		}
	}
	u.AtOnce, u.Order = u.opts.AtOnce, u.opts.Order
	at := make(map[int]*slot, len(subs))
	for i, s := range subs {
		if s.Task.Count == 0 {
			s.Task.Index, s.Task.Count = i, len(subs)
		}
		one := &slot{want: s}
		u.slots, at[s.Task.Index] = append(u.slots, one), one
	}
	slices.SortFunc(u.slots, func(a, b *slot) int { return cmp.Compare(a.want.Task.Index, b.want.Task.Index) })
	same := d.comparison(wanted, len(c.policies) > 0)
	equal := make(map[*member]bool)
	for _, x := range oldestFirst(t.tasks) {
		m, err := d.member(x)
		if err != nil {
			return nil, err
		}
		s := at[m.index]
		removed := m.stopped && m.index >= u.job.Tasks && c.doc.Job.Array == nil // by an earlier update
		switch {
		case s == nil && m.ended() && !m.stopped:
			continue
		case s == nil || removed:
			u.surplus = append(u.surplus, m)
			continue
		}
		if equal[m], err = same(x, s.want.Task.Index); err != nil {
			return nil, err
		}
		s.former = append(s.former, m) // the newest last
	}
	u.choose(equal)
	if c.doc.Job.Array != nil && !u.onlyAdds(t.tasks) || c.doc.Job.Update == nil && u.rolling && !cell.V.Updating {
		return nil, nil
	}
	u.count(c.doc.Job.Array != nil)
	return u, nil
}

// oldestFirst returns tasks in the order of their submission.
func oldestFirst(tasks []*cluster.Task) []*cluster.Task {
	return slices.SortedFunc(slices.Values(tasks), func(a, b *cluster.Task) int {
		return cmp.Or(cmp.Compare(a.Info.V.Submitted, b.Info.V.Submitted), cmp.Compare(a.Info.Create, b.Info.Create))
	})
}

func (d *decider) member(t *cluster.Task) (*member, error) {
	v := t.Info.V
	m := &member{id: t.ID.ID, index: v.Index, stopped: v.Stop != nil || t.Phase() == types.Cancelled, mod: t.Status.Mod}
	if t.Status.V != nil {
		m.status = t.Status.V.Full()
	}
	if m.ended() {
		return m, nil
	}
	spec, err := d.specs(v.Spec)
	m.grace = controlplane.GraceOf(spec)
	return m, err
}

// comparison returns a function that reports whether a stored task is the wanted one of an index.
// Times relative to the submission count from that of the task. policies reports whether tasks of the
// same spec may differ, by what policies add.
func (d *decider) comparison(wanted func(time.Time) ([]controlplane.Submission, error), policies bool) func(*cluster.Task, int) (bool, error) {
	type form struct {
		content  string
		deadline int64
	}
	byTime := make(map[int64]map[int]form)
	digests := make(map[*types.Spec]string)
	formsAt := func(submitted int64) (map[int]form, error) {
		subs, err := wanted(time.Unix(0, submitted))
		forms := make(map[int]form, len(subs))
		texts := make(map[*types.Spec]string) // the tasks of a template differ in nothing
		for i := range subs {
			s := &subs[i]
			if digests[s.Spec] == "" {
				digests[s.Spec] = controlplane.SpecDigest(s.Spec)
			}
			index := i
			if s.Task.Count > 0 {
				index = s.Task.Index
			}
			if policies || texts[s.Spec] == "" {
				texts[s.Spec] = content(s.Task, digests[s.Spec])
			}
			forms[index] = form{texts[s.Spec], s.Task.Deadline}
		}
		return forms, err
	}
	return func(t *cluster.Task, index int) (bool, error) {
		v := t.Info.V
		if byTime[v.Submitted] == nil {
			forms, err := formsAt(v.Submitted)
			if err != nil {
				return false, err
			}
			byTime[v.Submitted] = forms
		}
		f := byTime[v.Submitted][index]
		return f.content == content(*v.Full(), v.Spec) && sameDeadline(f.deadline, v.Deadline), nil
	}
}

// choose finds the current task of each slot. During an update, one that ended without success does
// not count: it is started again. Otherwise every task as wanted counts, even a stopped one.
func (u *InPlace) choose(equal map[*member]bool) {
	u.rolling = u.job.Updating
	for _, s := range u.slots {
		if n := len(s.former); n > 0 && !equal[s.former[n-1]] {
			u.rolling = true
		}
	}
	for _, s := range u.slots {
		s.added = len(s.former) == 0
		for i, m := range slices.Backward(s.former) {
			if equal[m] && !(u.rolling && (m.stopped || m.broken())) {
				s.current, s.former = m, slices.Delete(s.former, i, i+1)
				break
			}
		}
	}
}

// onlyAdds reports whether the indices of an array only grow, and it is known which of them are new:
// none of its tasks was deleted.
func (u *InPlace) onlyAdds(tasks []*cluster.Task) bool {
	there := make(map[int]bool)
	for _, t := range tasks {
		there[t.Info.V.Index] = true
	}
	return !u.rolling && len(u.surplus) == 0 && len(there) == u.job.Tasks && sameIndices(tasks, u.wanted())
}

func (u *InPlace) wanted() []controlplane.Submission {
	out := make([]controlplane.Submission, len(u.slots))
	for i, s := range u.slots {
		out[i] = s.want
	}
	return out
}

// count lists the changes. A task of the job that is not stored has ended and was deleted: only an
// update starts it again.
func (u *InPlace) count(array bool) {
	var adds []int
	for _, s := range u.slots {
		index := s.want.Task.Index
		s.added = s.added && (array || index >= u.job.Tasks)
		switch {
		case s.added || u.rolling && s.current == nil && len(s.former) == 0:
			adds = append(adds, index)
		case u.rolling && s.replaces():
			u.Replaces = append(u.Replaces, s.former[len(s.former)-1].id)
		}
	}
	u.Adds = manifest.IndicesOf(adds)
	for _, m := range u.surplus {
		if !m.stopped {
			u.Removes = append(u.Removes, m.id)
		}
	}
}

// replaces reports whether its former tasks are to be replaced, or still run.
func (s *slot) replaces() bool {
	alive := func(m *member) bool { return !m.ended() }
	return s.current == nil && len(s.former) > 0 || slices.ContainsFunc(s.former, alive)
}

// nothing reports whether the job is as wanted.
func (u *InPlace) nothing() bool {
	return !u.rolling && u.Adds == "" && len(u.Removes) == 0 && u.job.Tasks == len(u.slots) && u.job.RequestDigest == u.digest
}

// launches returns the tasks to launch.
func (u *InPlace) launches() []controlplane.Submission {
	var out []controlplane.Submission
	for _, s := range u.slots {
		if s.added || u.rolling && s.current == nil {
			out = append(out, s.want)
		}
	}
	return out
}

// update makes the change one in place.
func (d *decider) update(c *Change, t there, u *InPlace) error {
	c.Action, c.ID, c.InPlace, c.Note = Update, t.id, u, note(t)
	c.Submissions = u.launches()
	c.Tasks = len(c.Submissions)
	if u.job.Tasks != len(u.slots) {
		c.Differences = append(c.Differences, fmt.Sprintf("tasks: %d → %d", u.job.Tasks, len(u.slots)))
	}
	if len(u.Replaces) == 0 {
		return nil
	}
	at := slices.IndexFunc(t.tasks, func(x *cluster.Task) bool { return x.ID.ID == u.Replaces[0] })
	slot := slices.IndexFunc(u.slots, func(s *slot) bool { return s.want.Task.Index == t.tasks[at].Info.V.Index })
	fields, err := d.fields(t, t.tasks[at], u.slots[slot].want)
	c.Differences = append(c.Differences, fields...)
	return err
}

// blocked returns the reason against the change without Options.Replace: it would stop tasks.
func (u *InPlace) blocked(c *Change) types.Text {
	switch {
	case len(u.Replaces) > 0:
		return types.Textf("%d of the tasks of %s differ (%s): %s to replace them", len(u.Replaces), c.ID, summary(c.Differences), action.ReplaceLive.Of())
	case len(u.Removes) > 0:
		return types.Textf("%s has more tasks than described (%s): %s to stop %s", c.ID, summary(c.Differences), action.ReplaceLive.Of(), words.List(u.Removes, 3))
	}
	return types.Text{}
}

// noRoom returns the reason against start-first: the policies let the nodes hold no further task, so
// the update would wait until its timeout.
func (u *InPlace) noRoom() types.Text {
	if u.group == nil || u.Order != manifest.StartFirst {
		return types.Text{}
	}
	alive := func(m *member) bool { return !m.ended() && !m.stopped }
	held, replaced := 0, 0
	for _, s := range u.slots {
		switch {
		case slices.ContainsFunc(s.former, alive):
			held, replaced = held+1, replaced+1
		case s.current != nil || s.added:
			held++
		}
	}
	more := min(replaced, u.AtOnce)
	if most, by := u.group.MostTasks(); by != "" && more > 0 && held+more > most {
		return types.Textf("update.order: start-first starts %s while %d others run, and with %s the nodes that take tasks hold %d at most: choose stop-first, or add nodes",
			words.Count(more, "task"), held, by, most)
	}
	return types.Text{}
}

// Surplus returns the tasks that changes would stop because their jobs have more tasks than
// described. It returns none if another change is blocked for a different reason.
func (d *Decision) Surplus() []string {
	var ids []string
	for i := range d.Changes {
		c := &d.Changes[i]
		switch {
		case c.Blocked.IsZero():
		case c.InPlace == nil || len(c.InPlace.Replaces) > 0 || len(c.Stops) > 0:
			return nil
		default:
			ids = append(ids, c.InPlace.Removes...)
		}
	}
	return ids
}
