package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/escher-sched/escher/types"
)

// Job says how tasks that belong together are known.
type Job struct {
	// ID is unique in its namespace, for ever; empty: made from Name.
	ID string
	// Drawn tells that ID was made by NewID for this launch: as when it is made here, the
	// ids of tasks share its letters.
	Drawn bool
	// Name is a label.
	Name string
	// NoneSince, unless 0, makes the launch depend on no job having come after
	// that revision that has its id from that name: Conflict. So two that look for
	// a name at once, find nothing, and launch it, do so once.
	NoneSince int64
	// Wish is a digest of what was wished for, if policies have changed the tasks since:
	// see Wish.
	Wish string
}

// Launched tells what Launch did.
type Launched struct {
	// Tasks are the ids, in the order in which they were given.
	Tasks []string
	// Job is the id of the job; empty for a task of its own.
	Job string
	// Revision is the one from which schedulers see the tasks, all at once.
	Revision int64
	// Parts is how many transactions it took.
	Parts int
}

// Launch submits tasks: all are accepted or none. Several become a job.
//
// Invalid: the error names all that is wrong. AlreadyExists: an id was used.
// Precondition: nothing new is admitted at present, or a session named is not open.
//
// While too many tasks of the cluster wait already it waits, and tells so: see
// WithNotice. Unavailable: ctx was done before there was room. A launch of several
// parts, one after the other, waits before the first of them.
func (c *Client) Launch(ctx context.Context, tasks ...Submission) (Launched, error) {
	if len(tasks) == 1 {
		return c.launch(ctx, nil, tasks)
	}
	return c.launch(ctx, &Job{}, tasks)
}

// LaunchJob submits tasks as a job: see Launch. Schedulers see all of them at once,
// however many there are. A call that failed half-way may be made again with the
// same ids, and goes on from there; if it did not name the job, or a task, what it had
// written is deleted.
func (c *Client) LaunchJob(ctx context.Context, job Job, tasks ...Submission) (Launched, error) {
	return c.launch(ctx, &job, tasks)
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

// brokeOff deletes what a launch in parts has written, if nobody can go on with it:
// its id is known to nobody.
func (e *launch) brokeOff(ctx context.Context, cause error) error {
	if e.first == 0 && !types.Is(cause, types.Unknown) {
		return cause // nothing was written
	}
	if e.job != nil && !e.resumable && len(e.tasks) > 1 && (e.start > 0 || e.end < len(e.tasks)) {
		if err := e.c.abandon(ctx, e.jobID, e.tasks[0].id, e.first); err != nil {
			return types.Errorf(types.ClassOf(cause), "%w; what was written of it is removed after a while, as it could not be now: %w", cause, err)
		}
	}
	return cause
}

// launch is tasks being submitted.
type launch struct {
	c     *Client
	jobID string
	job   *types.Job
	tasks []submission
	specs *specs

	// alone is the condition of Job.NoneSince, nil for none.
	alone *first
	// resumable tells that the caller named the job and its tasks, and may go on with them.
	resumable bool
	// first is the revision at which the first part was written, 0 before that.
	first int64
	// inParts lets it take several transactions: tasks[start:end] are drawn up.
	inParts    bool
	start, end int
	// withoutJob leaves the key of the job, which makes the tasks visible, for later.
	withoutJob bool
	// admission is the ModRevision of the key of which the parts after the first take
	// no notice, as it came later and is only about how many tasks wait.
	admission int64
	// guesses lets it go by what the client remembers, the next time that it is drawn
	// up.
	guesses bool
	// scratch has room for the encoding of a task.
	scratch []byte
	// singly has it compared of each id that it is free, and not of all kin at once.
	singly bool
	// taken are the tasks that an earlier call of the same job wrote.
	taken map[string]int64
}

// newLaunch checks everything that can be checked without the cluster.
func (c *Client) newLaunch(job *Job, tasks []Submission) (*launch, error) {
	stamp := time.Now().UnixNano()
	job, tag := withID(job)
	made, specs, err := prepare(tasks, tag, c.store.Limits(), stamp)
	errs := []error{err}
	e := &launch{c: c, tasks: made, specs: specs, taken: make(map[string]int64)}
	if job != nil {
		errs = append(errs, e.setJob(*job, stamp))
	}
	if err := invalid(errs); err != nil {
		return nil, types.Errorf(types.Invalid, "launch: %w", err)
	}
	for i := range made {
		made[i].task.Job = e.jobID
		// With ids that were made here nobody goes on.
		e.resumable = e.resumable && tasks[i].ID != ""
	}
	return e, nil
}

// withID gives a job an id if it has none, and returns the letters that the ids of the
// tasks are made of: those of its own, if nobody chose it.
func withID(job *Job) (*Job, string) {
	switch {
	case job == nil:
		return nil, idTag()
	case job.ID != "" && !(job.Drawn && isTag(job.ID[max(0, len(job.ID)-idSuffix):])):
		return job, idTag()
	}
	own := *job
	if own.ID == "" {
		own.ID, own.Drawn = NewID(cmp.Or(own.Name, "job")), true
	}
	return &own, own.ID[len(own.ID)-idSuffix:]
}

func (e *launch) setJob(job Job, stamp int64) error {
	e.jobID = job.ID
	var errs []error
	if !job.Drawn {
		errs = append(errs, types.ValidateName("job.id", job.ID))
	}
	if job.Name != "" {
		errs = append(errs, types.ValidateName("job.name", job.Name))
	}
	e.resumable = !job.Drawn
	switch {
	case job.NoneSince != 0 && job.Name == "":
		errs = append(errs, types.Errorf(types.Invalid, "job.name: is missing, and there is to be no other job of that name: give one"))
	case job.NoneSince != 0:
		e.alone = &first{Jobs, e.c.ns, job.Name, job.NoneSince}
	}
	e.job = &types.Job{Name: job.Name, Tasks: len(e.tasks), Submitted: stamp, Wish: job.Wish}
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

// draw adds tasks, as many as fit if it may take parts; the job comes with the last
// of them, and makes them visible.
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
		// What is abandoned begins with the first task: a part that comes late, after
		// that, does nothing.
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

// bytesWith returns how large the change is with the next task. The first of a
// part always fits: so large is none.
func (e *launch) bytesWith(change *Change) int {
	if e.end == e.start {
		return 0
	}
	t := e.tasks[e.end].task
	e.scratch = types.AppendEncode(e.scratch[:0], 0, t)
	return change.bytes + len(e.scratch) + e.specs.bytes[t.Spec] + 4*(maxKeyBytes+entryBytes)
}

// allowed checks the tasks against what is set for their namespace.
func (e *launch) allowed(ctx context.Context, s Store, change *Change) error {
	n, err := e.c.settings(ctx, s, change, e.guesses)
	if err != nil || n == nil || n.Budget == nil {
		return err
	}
	for i, t := range e.tasks {
		if err := allows(n, e.c.ns, fmt.Sprintf("tasks[%d].", i), t.task.Priority, t.task.Accumulate); err != nil {
			return err
		}
	}
	return nil
}

// maxKeyBytes is about the length of the longest key.
const maxKeyBytes = 256

// add adds one task with what it names, each spec once.
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
	case t.kin == "" || e.singly || e.start > 0:
		// Ids are unique: nobody else compares these.
		change.If(Compare{Key: key, Revision: e.taken[key]})
		change.If(Compare{Key: StatusKey(e.c.ns, t.id)})
	case !drawn[t.kin]:
		drawn[t.kin] = true
		change.IfNoneSince(TaskKey(e.c.ns, t.kin), 0)
		change.IfNoneSince(StatusKey(e.c.ns, t.kin), 0)
	}
	if e.taken[key] == 0 {
		change.Put(key, t.task)
	}
	return nil
}

// addSpec puts a spec, also when it is there: it is named by its content, so that
// nothing is lost by it, and the collector, which deletes a spec only if that has
// not changed, cannot take away one that was found unused just before this launch.
// For the same reason it is not compared: launches that share a spec do not hold
// each other up.
func (e *launch) addSpec(ctx context.Context, s Store, change *Change, key, digest string) error {
	spec := e.specs.byDigest[digest]
	if spec == nil {
		kv, err := get(ctx, s, key)
		if err != nil {
			return err
		}
		if kv.ModRevision == 0 {
			return types.Errorf(types.NotFound, "spec: there is none stored as %s: give the spec itself", digest)
		}
		spec = &types.Spec{}
		if !Read(kv, spec) {
			return unreadable(key)
		}
		e.specs.byDigest[digest] = spec
	}
	// Of several launches in one transaction, one writes it.
	if !change.writes(key) {
		change.Put(key, spec)
	}
	return nil
}

// refused learns what is there: nothing is read beforehand, because as a rule
// nothing is.
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
	e.singly = true // if one of its kin was there, it is asked which
	for _, kv := range keys {
		k, _ := Parse(kv.Key)
		switch {
		case k.Namespace != e.c.ns:
		case k.Kind == Sessions:
			e.c.known.forget(kv.Key)
		case k.Kind == Jobs && k.ID == e.jobID, k.Kind == Statuses && e.has(k.ID):
			return taken(k.ID)
		case k.Kind == Tasks && e.has(k.ID):
			if err := e.take(ctx, s, k); err != nil {
				return err
			}
		}
	}
	return nil
}

// admit waits until something new is admitted, unless it has begun: then it must come
// to its end, as its tasks wait for it.
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

// take accepts a task that is there if an earlier call for the same job, which is
// not complete, wrote it.
func (e *launch) take(ctx context.Context, s Store, k Key) error {
	kv, err := get(ctx, s, k.String())
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
		same.Submitted = t.Submitted
		if types.Same(kv.Value, &same) {
			e.taken[kv.Key] = kv.ModRevision
			return nil
		}
	}
	return taken(k.ID)
}

func taken(id string) error {
	return types.Errorf(types.AlreadyExists, "id %s was used: ids are never used again, choose another", id)
}

// guess lets it go by what its client remembers of sessions.
func (e *launch) guess() { e.guesses = true }

// once is true: ids are never used again.
func (e *launch) once() bool { return true }

// done goes on to the next part.
func (e *launch) done(revision int64) {
	if e.start == 0 {
		e.first = revision
	}
	e.start = e.end
}
