package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane/ids"
	"github.com/escher-sched/escher/types"
)

// A Job is a set of tasks to launch together.
type Job struct {
	// ID is unique in its namespace, forever. Empty means an id made of Name.
	ID string
	// GeneratedID reports whether ids.New made ID for this launch. The ids of the tasks then share its
	// letters, as they do when Launch makes the id.
	GeneratedID bool
	// Name is a label.
	Name string
	// Labels are its labels. Each task has them too, unless it has its own value.
	Labels []types.Label
	// Tasks are the tasks of the job, at least one.
	Tasks []Submission
	// Session, unless empty, is the session that owns the tasks: LaunchJob sets it in each.
	Session string
	// NoneSince, unless 0, makes the launch depend on no job of the same name being created after
	// that revision: Conflict. So of two callers that look for a name at once, find nothing and
	// launch it, one succeeds.
	NoneSince int64
	// RequestDigest is a digest of the job as requested, if policies have changed its tasks since:
	// see the function of that name.
	RequestDigest string
}

// Launched is the result of a launch.
type Launched struct {
	// Tasks are the ids, in the order of the submissions.
	Tasks []string
	// Job is the id of the job; empty for a single task without a job.
	Job string
	// Revision is the revision from which schedulers see the tasks, all at once.
	Revision int64
	// Parts is the number of transactions it took.
	Parts int
}

// Launch submits tasks: all are accepted or none. Several become a job.
//
// Invalid: the error names all that is wrong. AlreadyExists: an id was used. Precondition:
// admission is closed, or a named session is not open.
//
// Launch waits while too many tasks of the cluster wait already, and reports so: see WithNotice.
// Unavailable: ctx was done before admission opened. A launch in several parts waits only before
// its first part.
func (c *Client) Launch(ctx context.Context, tasks ...Submission) (Launched, error) {
	if len(tasks) == 1 {
		return c.launch(ctx, nil, tasks)
	}
	return c.launch(ctx, &Job{}, tasks)
}

// LaunchJob submits a job: see Launch. Schedulers see all of them at once, however many
// there are. A call that failed half-way may be repeated with the same ids, and continues from
// there. If the call did not name the job, or a task, LaunchJob deletes what it had written.
func (c *Client) LaunchJob(ctx context.Context, job Job) (Launched, error) {
	return c.launch(ctx, &job, job.Tasks)
}

func (c *Client) launch(ctx context.Context, job *Job, tasks []Submission) (Launched, error) {
	e, err := c.newLaunch(job, tasks)
	if err != nil {
		return Launched{}, err
	}
	e.inParts = true
	res := e.launched()
	for e.end < len(e.tasks) || res.Parts == 0 {
		if res.Revision, err = perform(ctx, c.store, nil, e); err != nil {
			return Launched{}, e.brokeOff(ctx, err)
		}
		res.Parts++
	}
	return res, nil
}

// brokeOff deletes the written part of a launch that no caller can continue, because no caller
// knows its id.
func (e *launch) brokeOff(ctx context.Context, cause error) error {
	if e.first == 0 && !types.Is(cause, types.Unknown) {
		return cause // nothing was written
	}
	if e.job != nil && !e.resumable && len(e.tasks) > 1 && (e.start > 0 || e.end < len(e.tasks)) {
		if err := e.c.abandon(ctx, e.jobID, e.tasks[0].id, e.first); err != nil {
			return types.Errorf(types.ClassOf(cause), "%w; a server removes the part already written after a while, because removing it now failed: %w", cause, err)
		}
	}
	return cause
}

// launch is an edit that submits tasks.
type launch struct {
	c     *Client
	jobID string
	job   *types.Job
	// jobBytes is the size of job.
	jobBytes int
	tasks    []submission
	specs    *specs

	// alone is the condition of Job.NoneSince; nil means none.
	alone *first
	// resumable reports whether the caller named the job and its tasks, and can continue with them.
	resumable bool
	// first is the revision of the first part; 0 means not written yet.
	first int64
	// inParts allows several transactions. The latest draft has tasks[start:end].
	inParts    bool
	start, end int
	// withoutJob postpones the key of the job, which makes the tasks visible.
	withoutJob bool
	// admission is the ModRevision of an admission key that parts after the first ignore: it came
	// later and only says that many tasks wait.
	admission int64
	// guesses lets the next draft use what the client remembers.
	guesses bool
	// scratch is a buffer for the encoding of a task.
	scratch []byte
	// singly makes the draft compare each id by itself, and not the range of all siblings.
	singly bool
	// taken holds the ModRevisions of tasks that an earlier call for the same job wrote.
	taken map[string]int64
}

// newLaunch does every check that does not need the cluster.
func (c *Client) newLaunch(job *Job, tasks []Submission) (*launch, error) {
	stamp, action := time.Now().UnixNano(), "launch"
	job, tag := withID(job)
	var labels []types.Label
	if job != nil {
		labels = job.Labels
	}
	made, specs, err := prepare(tasks, tag, labels, c.store.Limits(), stamp)
	errs := []error{err}
	e := &launch{c: c, tasks: made, specs: specs, taken: make(map[string]int64)}
	if job != nil {
		errs = append(errs, e.setJob(*job, stamp))
		action += " job " + cmp.Or(job.Name, job.ID)
	}
	if err := invalid(errs); err != nil {
		return nil, types.Errorf(types.Invalid, "%s: %w", action, err)
	}
	for i := range made {
		made[i].task.Job = e.jobID
		if job != nil && job.Session != "" {
			made[i].task.Session = job.Session
		}
		// No later call can continue a launch whose ids were made here.
		e.resumable = e.resumable && tasks[i].ID != ""
	}
	if job != nil {
		if err := e.number(tasks); err != nil {
			return nil, types.Errorf(types.Invalid, "%s: %w", action, err)
		}
		e.jobBytes = len(types.Encode(0, e.job))
	}
	return e, nil
}

// withID gives a job an id if it has none. It returns the tag for the ids of the tasks: that of the
// job's id, unless the caller chose that id.
func withID(job *Job) (*Job, string) {
	if job == nil {
		return nil, ids.Tag()
	}
	own := *job
	if own.ID == "" {
		own.ID, own.GeneratedID = ids.New(cmp.Or(own.Name, "job")), true
	}
	tag, ok := ids.TagOf(own.ID)
	if !ok || !own.GeneratedID {
		return &own, ids.Tag()
	}
	return &own, tag
}

func (e *launch) setJob(job Job, stamp int64) error {
	e.jobID = job.ID
	var errs []error
	if !job.GeneratedID {
		errs = append(errs, types.ValidateName("job.id", job.ID))
	}
	if job.Name != "" {
		errs = append(errs, types.ValidateName("job.name", job.Name))
	}
	errs = append(errs, types.ValidateLabels("job.labels", job.Labels))
	if job.Session != "" {
		errs = append(errs, types.ValidateName("job.session", job.Session))
	}
	e.resumable = !job.GeneratedID
	switch {
	case job.NoneSince != 0 && job.Name == "":
		errs = append(errs, types.Errorf(types.Invalid, "job.name: is missing, and the launch depends on no other job of that name: give one"))
	case job.NoneSince != 0:
		e.alone = &first{Jobs, e.c.ns, job.Name, job.NoneSince}
	}
	e.job = &types.Job{Name: job.Name, Tasks: len(e.tasks), Submitted: stamp, RequestDigest: job.RequestDigest, Labels: types.MergeLabels(nil, job.Labels)}
	return invalid(errs)
}

func (e *launch) launched() Launched {
	res := Launched{Job: e.jobID, Tasks: make([]string, len(e.tasks))}
	for i, t := range e.tasks {
		res.Tasks[i] = t.id
	}
	return res
}

func (e *launch) verb() string {
	switch {
	case e.job != nil:
		return fmt.Sprintf("launch job %s", e.jobID)
	case len(e.tasks) == 1:
		return fmt.Sprintf("launch task %s", e.tasks[0].id)
	}
	return fmt.Sprintf("launch %d tasks", len(e.tasks))
}

// draw adds as many tasks as fit, or all unless it may take parts. The job comes with the last
// task, and makes all of them visible.
func (e *launch) draw(ctx context.Context, s Store, change *Change) error {
	change.IfUnchanged(AdmissionKey(), e.admission)
	e.c.ifInBudget(change)
	if err := e.allowed(ctx, s, change); err != nil {
		return err
	}
	if e.job != nil {
		change.IfUnchanged(JobKey(e.c.ns, e.jobID), 0)
	}
	if e.alone != nil {
		if err := e.alone.draw(ctx, s, change); err != nil {
			return err
		}
	}
	if e.first != 0 && !e.resumable {
		// abandon deletes the first task first, so a part that arrives later does nothing.
		change.IfUnchanged(TaskKey(e.c.ns, e.tasks[0].id), e.first)
	}
	defer func() { e.guesses = false }()
	limits := s.Limits()
	drawn := make(map[string]bool)
	for e.end = e.start; e.end < len(e.tasks); e.end++ {
		compares, ops := change.Size()
		if e.inParts && (max(compares+4, ops+3) > limits.Ops || e.bytesWith(change) > limits.Bytes*9/10) {
			return nil
		}
		if err := e.add(ctx, s, change, e.tasks[e.end], drawn); err != nil {
			return err
		}
	}
	if e.job != nil && !e.withoutJob {
		change.Put(JobKey(e.c.ns, e.jobID), e.job)
	}
	return nil
}

// bytesWith returns the size of the change with the next task added; 0 for the first task of a
// part, which always fits.
func (e *launch) bytesWith(change *Change) int {
	if e.end == e.start {
		return 0
	}
	t := e.tasks[e.end].task
	e.scratch = types.AppendEncode(e.scratch[:0], 0, t)
	return change.bytes + e.jobBytes + len(e.scratch) + e.specs.bytes[t.Spec] + 4*(maxKeyBytes+entryBytes)
}

// allowed checks the tasks against the budget of their namespace.
func (e *launch) allowed(ctx context.Context, s Store, change *Change) error {
	n, err := e.c.settings(ctx, s, change, e.guesses)
	if err != nil || n == nil || n.Budget == nil {
		return err
	}
	for i, t := range e.tasks {
		if err := Allows(n, e.c.ns, fmt.Sprintf("tasks[%d].", i), t.task.Priority, t.task.Accumulate); err != nil {
			return err
		}
	}
	return nil
}

// maxKeyBytes estimates the length of the longest key.
const maxKeyBytes = 256

// add adds one task with its session and spec, each spec once.
func (e *launch) add(ctx context.Context, s Store, change *Change, t submission, drawn map[string]bool) error {
	if key := SpecKey(e.c.ns, t.task.Spec); !drawn[key] {
		drawn[key] = true
		if err := e.addSpec(ctx, s, change, key, t.task.Spec); err != nil {
			return err
		}
	}
	if id := t.task.Session; id != "" && !drawn[id] {
		drawn[id] = true
		if err := e.c.ifThere(ctx, s, change, SessionKey(e.c.ns, id), e.guesses, "session", id, "session"); err != nil {
			return err
		}
	}
	key := TaskKey(e.c.ns, t.id)
	switch {
	case t.siblings == "" || e.singly || e.start > 0:
		// Ids are unique: no other writer compares these.
		change.If(Compare{Key: key, Revision: e.taken[key]})
		change.If(Compare{Key: StatusKey(e.c.ns, t.id)})
	case !drawn[t.siblings]:
		drawn[t.siblings] = true
		change.IfNoneSince(TaskKey(e.c.ns, t.siblings), 0)
		change.IfNoneSince(StatusKey(e.c.ns, t.siblings), 0)
	}
	if e.taken[key] == 0 {
		change.Put(key, t.task)
	}
	return nil
}

// addSpec puts a spec even if it is already there. Its key is its content, so nothing is lost. The
// collector deletes a spec only if it has not changed, so it cannot delete one that it found unused
// just before this launch. For the same reason addSpec does not compare the key: launches that
// share a spec do not block each other.
func (e *launch) addSpec(ctx context.Context, s Store, change *Change, key, digest string) error {
	spec := e.specs.byDigest[digest]
	if spec == nil {
		kv, err := Get(ctx, s, key)
		if err != nil {
			return err
		}
		if kv.ModRevision == 0 {
			return types.Errorf(types.NotFound, "spec: none is stored as %s: give the spec itself", digest)
		}
		spec = &types.Spec{}
		if !Read(kv, spec) {
			return Unreadable(key)
		}
		e.specs.byDigest[digest] = spec
	}
	// One of several launches in a transaction writes it.
	if !change.writes(key) {
		change.Put(key, spec)
	}
	return nil
}

// refused reads what is there. A launch reads nothing beforehand, because usually nothing is there.
func (e *launch) refused(ctx context.Context, s Store, keys []KV) error {
	if err := e.admit(ctx, s, keys); err != nil {
		return err
	}
	if err := e.c.inBudget(ctx, s, keys); err != nil {
		return err
	}
	if e.alone != nil {
		if err := e.alone.refused(ctx, s, keys); err != nil {
			return err
		}
	}
	e.singly = true // a sibling's key was there: compare each key to find which
	for _, kv := range keys {
		k, _ := Parse(kv.Key)
		switch {
		case k.Namespace != e.c.ns:
		case k.Kind == Sessions:
			e.c.known.forget(kv.Key)
		case k.Kind == Jobs && k.ID == e.jobID, k.Kind == Statuses && e.has(k.ID):
			return taken(k.ID)
		case k.Kind == Tasks && e.has(k.ID):
			if err := e.acceptTask(ctx, s, k); err != nil {
				return err
			}
		}
	}
	return nil
}

// admit waits for admission unless the launch has begun. Then it must finish, because its tasks
// wait for the job.
func (e *launch) admit(ctx context.Context, s Store, keys []KV) error {
	if e.start == 0 {
		return e.c.admit(ctx, s, keys)
	}
	for _, kv := range keys {
		if kv.Key != AdmissionKey() {
			continue
		}
		a, revision, err := admission(ctx, s)
		switch {
		case err != nil:
			return err
		case a != nil && !a.Busy:
			return refusal(a)
		}
		e.admission = revision
	}
	return nil
}

func (e *launch) has(id string) bool {
	for _, t := range e.tasks[e.start:min(e.end+1, len(e.tasks))] {
		if t.id == id {
			return true
		}
	}
	return false
}

// acceptTask accepts an existing task if an earlier, incomplete call for the same job wrote it.
func (e *launch) acceptTask(ctx context.Context, s Store, k Key) error {
	kv, err := Get(ctx, s, k.String())
	if err != nil {
		return err
	}
	if e.taken[kv.Key] = 0; kv.ModRevision == 0 {
		return nil
	}
	var t types.Task
	if !Read(kv, &t) {
		return taken(k.ID)
	}
	for _, mine := range e.tasks {
		if mine.id != k.ID || e.job == nil || t.Job != e.jobID {
			continue
		}
		same := *mine.task
		if same.Submitted, same.User = t.Submitted, t.User; t.Count == 0 { // an older client began the launch
			same.Index, same.Count = 0, 0
		}
		if types.Same(kv.Value, &same) {
			e.taken[kv.Key] = kv.ModRevision
			return nil
		}
	}
	return taken(k.ID)
}

func taken(id string) error {
	return types.Errorf(types.AlreadyExists, "id %s was used: ids are never reused, choose another", id)
}

// guess lets the next draft use what the client remembers of sessions.
func (e *launch) guess() { e.guesses = true }

// once reports true: ids are never reused.
func (e *launch) once() bool { return true }

// done moves on to the next part.
func (e *launch) done(revision int64) {
	if e.start == 0 {
		e.first = revision
	}
	e.start = e.end
}
