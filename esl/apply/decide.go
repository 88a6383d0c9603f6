package apply

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// Specs returns the spec with a digest.
type Specs func(digest string) (*types.Spec, error)

// decider compares documents with the present state.
type decider struct {
	view  *cluster.View
	ns    string
	specs Specs
	now   time.Time
	opts  Options
	reads controlplane.ReadSet
	// seen lists the existing named objects, with their revisions.
	seen []string
	// tasks holds the single tasks, and jobs the jobs, of each name.
	tasks map[string][]*cluster.Task
	jobs  map[string][]cluster.ID
}

// Decide returns the changes that make the namespace match the documents. The view has its tasks,
// statuses, jobs, resources and reservations. It finds a task or job by name: it exists while it
// waits or runs, and after it ended by itself until it is deleted. A stopped one does not count.
//
// Invalid: a document has no name. Conflict: a named object has changed since Options.If.
func Decide(view *cluster.View, ns string, specs Specs, docs []manifest.Document, now time.Time, opts Options) (*Decision, error) {
	d := &decider{
		view: view, ns: ns, specs: specs, now: now, opts: opts, reads: make(controlplane.ReadSet),
		tasks: make(map[string][]*cluster.Task), jobs: make(map[string][]cluster.ID),
	}
	d.index()
	out := &Decision{Revision: view.Revision, reads: d.reads, rights: opts.Rights}
	for i := range docs {
		doc := &docs[i]
		if doc.Name() == "" {
			return nil, types.Errorf(types.Invalid, "the %s in line %d: name: is missing: apply finds objects by name: give one, or %s", doc, doc.Line, action.SubmitFile.Of())
		}
		c, err := d.change(doc)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", doc, err)
		}
		out.Changes = append(out.Changes, c)
	}
	out.Condition = Condition{Revision: view.Revision, Digest: digest(d.seen)}
	if is := opts.If.Digest; is != "" && is != out.Condition.Digest {
		return nil, types.Errorf(types.Conflict, "an object that the file names was deleted since revision %d: %s", opts.If.Revision, action.PlanAgain.Of())
	}
	return out, nil
}

// index lists tasks and jobs by name.
func (d *decider) index() {
	for t := range d.view.Tasks() {
		if t.ID.Namespace == d.ns && t.Info.V != nil && t.Info.V.Job == "" && t.Info.V.Name != "" {
			d.tasks[t.Info.V.Name] = append(d.tasks[t.Info.V.Name], t)
		}
	}
	for id, j := range d.view.Jobs {
		if id.Namespace == d.ns && j.V != nil && j.V.Name != "" {
			d.jobs[j.V.Name] = append(d.jobs[j.V.Name], id)
		}
	}
}

func (d *decider) change(doc *manifest.Document) (Change, error) {
	c, err := newChange(doc)
	if err != nil {
		return c, err
	}
	switch doc.Kind {
	case manifest.KindTask:
		return c, d.task(&c)
	case manifest.KindJob:
		return c, d.job(&c)
	case manifest.KindReservation:
		return c, d.reservation(&c)
	case manifest.KindPolicy:
		return c, d.policy(&c)
	case manifest.KindNamespace, manifest.KindRight:
		c.Action = Set // CheckSettings finds those already set
		return c, nil
	}
	return c, d.resource(&c)
}

func newChange(doc *manifest.Document) (Change, error) {
	c := Change{Kind: doc.Kind, Name: doc.Name(), doc: doc}
	if doc.Job != nil {
		for _, p := range doc.Job.Policies {
			c.policies = append(c.policies, PolicyOf(p))
		}
	}
	if doc.Policy != nil {
		c.policies = []esl.Policy{PolicyOf(doc.Policy.Policy)}
	}
	var err error
	c.stored, err = esl.StoredForms(c.policies)
	return c, err
}

// there is an existing task or job of a name.
type there struct {
	id    string
	tasks []*cluster.Task
	// submitted is the time of its submission, created the revision of its creation.
	submitted, created int64
	// live reports whether it waits or runs.
	live bool
}

// stage returns the state of tasks: live while one waits or runs, gone if they were stopped.
func stage(tasks []*cluster.Task) (live, gone bool) {
	gone = true
	for _, t := range tasks {
		ended := t.Phase().Ended()
		live = live || !ended && t.Info.V.Stop == nil
		gone = gone && (t.Phase() == types.Cancelled || !ended && t.Info.V.Stop != nil)
	}
	return live, gone && !live
}

// task decides about a single task.
func (d *decider) task(c *Change) error {
	var all []there
	for _, t := range d.tasks[c.Name] {
		if live, gone := stage([]*cluster.Task{t}); !gone {
			all = append(all, there{t.ID.ID, []*cluster.Task{t}, t.Info.V.Submitted, t.Info.Create, live})
		}
	}
	wanted := func(submitted time.Time) ([]controlplane.Submission, error) {
		s, err := c.doc.Task.Submission(submitted)
		return []controlplane.Submission{s}, err
	}
	if c.doc.Task.ID != "" {
		return types.Errorf(types.Invalid, "id: apply finds objects by name: leave it out, or %s", action.SubmitFile.Of())
	}
	return d.compare(c, all, wanted)
}

// job decides about a job.
func (d *decider) job(c *Change) error {
	subs, err := c.doc.Job.Submissions(d.now)
	if err != nil {
		return err
	}
	if err := wholeUpdate(c, subs); err != nil {
		return err
	}
	var all []there
	var unfinished *there
	for _, id := range d.jobs[c.Name] {
		members := slices.DeleteFunc(d.view.Members(id), func(t *cluster.Task) bool { return t.Info.V == nil })
		j := d.view.Jobs[id]
		live, gone := stage(members)
		one := there{id.ID, members, j.V.Submitted, j.Create, live}
		if !gone {
			all = append(all, one)
		}
		if j.V.Updating && len(members) > 0 && (unfinished == nil || unfinished.submitted < j.V.Submitted) {
			unfinished = &one
		}
	}
	live := func(t there) bool { return t.live }
	if unfinished != nil && !slices.ContainsFunc(all, live) {
		unfinished.live, all = true, []there{*unfinished} // the update goes on, though it has stopped all tasks
	}
	return d.compare(c, all, c.doc.Job.Submissions)
}

// compare decides about a launch. It keeps an equal existing one, preferably the newest live one;
// all other live ones are in the way.
func (d *decider) compare(c *Change, all []there, wanted func(time.Time) ([]controlplane.Submission, error)) error {
	slices.SortFunc(all, func(a, b there) int {
		if a.live != b.live {
			return map[bool]int{true: -1, false: 1}[a.live]
		}
		return cmp.Compare(b.submitted, a.submitted)
	})
	kept := -1
	for i, t := range all {
		if err := d.watch(c, t); err != nil {
			return err
		}
		// Times relative to the submission count from the existing one's.
		subs, err := wanted(time.Unix(0, t.submitted))
		if err != nil {
			return err
		}
		if kept < 0 && (t.live || i == 0) && d.equal(t, subs, c.stored) {
			kept = i
		}
	}
	inPlace, err := d.stays(c, all, kept == 0, wanted)
	if err != nil {
		return err
	}
	if inPlace != nil {
		kept = 0
	}
	subs, err := wanted(d.now)
	if err != nil {
		return err
	}
	switch {
	case inPlace != nil && !inPlace.nothing():
		if err := d.update(c, all[0], inPlace); err != nil {
			return err
		}
	case kept >= 0:
		c.Action, c.ID, c.Note = Unchanged, all[kept].id, note(all[kept])
	default:
		c.Action, c.Submissions, c.Tasks = Launch, subs, len(subs)
	}
	if kept >= 0 {
		d.relabel(c, all[kept], subs)
	}
	for i, t := range all {
		if i == kept || !t.live {
			continue
		}
		if err := d.stop(c, t); err != nil {
			return err
		}
	}
	if kept < 0 && len(all) > 0 && all[0].live {
		c.Action = Replace
		if c.Differences, err = d.differences(all[0], subs, c.stored); err != nil {
			return err
		}
	}
	c.block(d.opts)
	return nil
}

// stays returns the change in place of the newest existing job, if it is one that stays. A job that
// has ended stays only if it gets further tasks. equal reports whether its tasks are as wanted.
func (d *decider) stays(c *Change, all []there, equal bool, wanted func(time.Time) ([]controlplane.Submission, error)) (*InPlace, error) {
	if c.Kind != manifest.KindJob || len(all) == 0 {
		return nil, nil
	}
	if equal && !d.view.Jobs[cluster.ID{Namespace: d.ns, ID: all[0].id}].V.Updating {
		return nil, nil
	}
	u, err := d.inPlace(c, all[0], wanted)
	if err != nil || u == nil || !all[0].live && u.rolling {
		return nil, err
	}
	return u, nil
}

// block records the reason against the change.
func (c *Change) block(opts Options) {
	if c.InPlace != nil {
		if c.Blocked = c.InPlace.noRoom(); c.Blocked.IsZero() && !opts.Replace {
			c.Blocked = c.InPlace.blocked(c)
		}
	}
	if len(c.Stops) == 0 || opts.Replace {
		return
	}
	there := strings.Join(c.Stops, ", ")
	if c.Action == Replace && len(c.Stops) == 1 {
		c.Blocked = types.Textf("%s differs and has not ended (%s): %s to stop it and launch the new one", there, summary(c.Differences), action.ReplaceLive.Of())
		return
	}
	c.Blocked = types.Textf("%s of the same name have not ended: %s to stop them, or stop all but one", there, action.ReplaceLive.Of())
	if c.Action == Unchanged {
		c.Blocked = types.Textf("%s is as described, but %s of the same name has not ended either: %s to stop it", c.ID, there, action.ReplaceLive.Of())
	}
}

func summary(differences []string) string {
	if len(differences) > 3 {
		return strings.Join(differences[:3], "; ") + "; …"
	}
	return strings.Join(differences, "; ")
}

// watch makes the change depend on an existing object, and checks that it is not newer than
// Options.If.
func (d *decider) watch(c *Change, t there) error {
	newest := t.created
	for _, m := range t.tasks {
		newest = max(newest, m.Info.Mod)
	}
	if c.Kind == manifest.KindTask {
		d.reads[controlplane.TaskKey(d.ns, t.id)] = t.tasks[0].Info.Mod
	} else {
		d.reads[controlplane.JobKey(d.ns, t.id)] = d.view.Jobs[cluster.ID{Namespace: d.ns, ID: t.id}].Mod
	}
	return d.fresh(t.id, newest)
}

// fresh records the revisions of a named object. Conflict: one of them is newer than Options.If.
func (d *decider) fresh(object string, revisions ...int64) error {
	slices.Sort(revisions)
	d.seen = append(d.seen, fmt.Sprint(object, revisions))
	if newest := revisions[len(revisions)-1]; d.opts.If.Revision != 0 && newest > d.opts.If.Revision {
		return types.Errorf(types.Conflict, "%s has changed at revision %d, after %d: %s", object, newest, d.opts.If.Revision, action.PlanAgain.Of())
	}
	return nil
}

// stop records tasks to stop.
func (d *decider) stop(c *Change, t there) error {
	c.Stops = append(c.Stops, t.id)
	for _, m := range t.tasks {
		if m.Phase().Ended() || m.Info.V.Stop != nil {
			continue
		}
		spec, err := d.specs(m.Info.V.Spec)
		if err != nil {
			return err
		}
		c.stop = append(c.stop, stopped{m.ID.ID, controlplane.GraceOf(spec)})
	}
	return nil
}

// sameDeadline reports whether two deadlines mean the same: one relative to the submission is
// computed slightly before it.
func sameDeadline(a, b int64) bool {
	const little = int64(time.Minute)
	return a == b || a != 0 && b != 0 && max(a-b, b-a) < little
}

// sameDeadlines reports whether the deadlines of tasks are the wanted ones.
func sameDeadlines(tasks []*cluster.Task, wanted []controlplane.Submission) bool {
	var is, want []int64
	for _, t := range tasks {
		is = append(is, t.Info.V.Deadline)
	}
	for i := range wanted {
		want = append(want, wanted[i].Task.Deadline)
	}
	slices.Sort(is)
	slices.Sort(want)
	// Some ended tasks may be deleted: the deadlines of the others must be among the wanted ones.
	for _, deadline := range is {
		at := slices.IndexFunc(want, func(w int64) bool { return sameDeadline(w, deadline) })
		if at < 0 {
			return false
		}
		want = want[at+1:]
	}
	return true
}

// kindOf returns the kind of a shared policy; "" if there is none.
func (d *decider) kindOf(name string) string {
	if c := d.view.Policies[cluster.ID{Namespace: d.ns, ID: name}]; c != nil && c.V != nil && c.V.Job == "" && len(c.V.Policies) > 0 {
		return c.V.Policies[0].Kind
	}
	return ""
}

// equal reports whether an existing object equals the wanted one, as far as it is stored.
func (d *decider) equal(t there, wanted []controlplane.Submission, policies []types.Policy) bool {
	if t.tasks[0].Info.V.Job != "" {
		j := d.view.Jobs[cluster.ID{Namespace: d.ns, ID: t.id}]
		if j == nil || j.V.Tasks != len(wanted) || !sameIndices(t.tasks, wanted) {
			return false
		}
		policies = withAdded(policies, d.policiesOf(t))
		former := esl.Former(policies, d.kindOf)
		switch j.V.RequestDigest {
		case RequestDigest(wanted, policies), digestOf(wanted, former, content),
			digestOf(wanted, esl.Canonical(policies), labeledContent), digestOf(wanted, former, labeledContent):
		default:
			return false
		}
		if j.V.RequestDigest != "" {
			return sameDeadlines(t.tasks, wanted) // the digest covers the rest
		}
	}
	left := make(map[string]int)
	deadlines := make(map[string]int64)
	digests := make(map[*types.Spec]string)
	for i := range wanted {
		w := &wanted[i]
		if digests[w.Spec] == "" {
			digests[w.Spec] = controlplane.SpecDigest(w.Spec)
		}
		key := content(w.Task, digests[w.Spec])
		left[key]++
		deadlines[key] = w.Task.Deadline
	}
	for _, m := range t.tasks {
		key := content(*m.Info.V.Full(), m.Info.V.Spec)
		if left[key]--; left[key] < 0 || !sameDeadline(deadlines[key], m.Info.V.Deadline) {
			return false
		}
	}
	return true
}

// note describes the phases of existing tasks.
func note(t there) string {
	counts := make(map[types.Phase]int)
	for _, m := range t.tasks {
		counts[m.Phase()]++
	}
	if len(t.tasks) == 1 {
		return string(t.tasks[0].Phase())
	}
	var parts []string
	for _, p := range types.Phases() {
		if counts[p] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", counts[p], p))
		}
	}
	return strings.Join(parts, ", ")
}

// resource decides about a resource, whose setting is idempotent.
func (d *decider) resource(c *Change) error {
	c.Action = Set
	id := types.ResourceID(d.ns + ":" + c.Name)
	revisions := []int64{0}
	if r := d.view.Everywhere[id]; r != nil {
		revisions = append(revisions, r.Mod)
	}
	if p := d.view.Pools[id]; p != nil && p.Info.V != nil {
		revisions = append(revisions, p.Info.Mod)
	}
	for _, n := range d.view.Nodes {
		if r := n.Own[id]; r != nil {
			revisions = append(revisions, r.Mod)
		}
	}
	return d.fresh(c.Name, revisions...)
}

// reservation decides about a reservation. A different one is not replaced: its bundles may be in
// use, and the new one would wait for their capacity.
func (d *decider) reservation(c *Change) error {
	r := d.view.Reservations[cluster.ID{Namespace: d.ns, ID: c.Name}]
	if r == nil || r.Info.V == nil {
		c.Action = Reserve
		return nil
	}
	d.reads[controlplane.ReservationKey(d.ns, c.Name)] = r.Info.Mod
	is, want := *r.Info.V, c.doc.Reservation.Reservation()
	is.Extra, is.Submitted, is.Raised, is.Collect = types.Extra{}, 0, 0, nil
	c.ID, c.Action, c.Note = c.Name, Unchanged, string(types.Pending)
	if r.Current() {
		c.Note = string(r.Grant.V.Phase)
	}
	if !bytes.Equal(types.Encode(0, &is), types.Encode(0, &want)) {
		c.Action = Replace
		c.Blocked = types.Textf("it exists and differs, and cannot be changed: %s, then apply again", action.Unreserve.Of(c.Name))
	}
	return d.fresh(c.Name, r.Info.Mod)
}
