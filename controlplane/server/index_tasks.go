package server

import (
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// task is a task, its status, or both.
type task struct {
	space *namespaceState
	id    string
	// mod and statusMod are the ModRevisions; 0 means absent.
	mod, statusMod int64
	// size and statusSize are the sizes of both in bytes; 0 means absent.
	size, statusSize int32
	// end is when it ended, in Unix nanoseconds: by its status, or, for a task that never ran, when
	// its end was first seen.
	end int64
	job *job
	// name is that of its history; empty means that of its job. ran is the revision of the status that
	// last told of a run.
	name    string
	ran     int64
	spec    *spec
	session *session
	// at is its index in the endings, or in those of the job that holds it; -1 if it is in neither.
	at    int32
	held  bool
	stage stage
	// asked reports whether a step for it was returned, and it has not changed since.
	asked bool
}

// stage is the phase of a task, as far as the collector needs it.
type stage uint8

const (
	// waits: it has no node.
	waits stage = iota
	// runs: it has a node.
	runs
	// ends: it has ended.
	ends
)

func stageOf(p types.Phase) stage {
	switch {
	case p.Ended():
		return ends
	case p.Held():
		return runs
	default:
		return waits
	}
}

// job is a job, or only tasks that name it.
type job struct {
	space *namespaceState
	id    string
	mod   int64
	bytes int32
	// created is the revision of its creation.
	created int64
	// size is its number of tasks, tasks the number of known ones, and open the number of these
	// that have not ended.
	size, tasks, open int
	// updating reports whether an update may add tasks to it.
	updating bool
	// name is that of the present job.
	name string
	// since is when the last of these came, while the job is missing.
	since time.Time
	asked bool
	// held are its ended tasks, kept while others continue.
	held endings
}

// session is a session, or only tasks that name it.
type session struct {
	space *namespaceState
	id    string
	mod   int64
	bytes int32
	// tasks are those to stop when it ends.
	tasks map[*task]*types.Task
}

// spec is a spec that tasks refer to.
type spec struct {
	space  *namespaceState
	digest string
	tasks  int
	// bytes is the size of its key and value, 0 until it is read.
	bytes int32
}

// ended reports whether all tasks of a present job have ended. An ended task stays so, and only an
// update adds tasks to a present job. Tasks are known up to a revision: missing ones are deleted, or
// came with the job, later.
func (j *job) ended(known int64) bool {
	return j.open == 0 && !j.updating && !j.mayLackTasks(known)
}

// mayLackTasks reports whether some of its tasks may exist that are not known yet: of its launch, or of
// an update, which changes the job.
func (j *job) mayLackTasks(known int64) bool {
	return known < j.mod && (j.tasks < j.size || j.mod != j.created)
}

// open reports whether a task exists and has not ended.
func (t *task) open() bool { return t.mod != 0 && t.stage != ends }

// visible reports whether a task has no job, or a complete one.
func (t *task) visible() bool { return t.job == nil || t.job.mod != 0 }

func (t *task) key() string       { return controlplane.TaskKey(t.space.name, t.id) }
func (t *task) statusKey() string { return controlplane.StatusKey(t.space.name, t.id) }

// find returns a task, nil if neither task nor status exists.
func (x *index) find(ns, id string) *task {
	if s := x.spaces[ns]; s != nil {
		return s.tasks[id]
	}
	return nil
}

func (x *index) taskOf(s *namespaceState, id string) *task {
	t := s.tasks[id]
	if t == nil {
		t = &task{space: s, id: strings.Clone(id), at: -1}
		s.tasks[t.id] = t
	}
	return t
}

func (x *index) applyTask(s *namespaceState, id string, e controlplane.Event, now time.Time) {
	t := x.taskOf(s, id)
	x.uncount(t)
	x.measure(s, &t.size, e)
	job, session, spec := t.job, t.session, t.spec
	t.job, t.session, t.spec = nil, nil, nil
	if t.mod = 0; !e.Delete {
		t.mod, t.asked = e.ModRevision, false
		x.intend(t, e.Value, now)
	}
	x.leave(t, job, session, spec)
	x.settle(t)
	if job != nil && job != t.job {
		x.mayHaveEnded(job, 0)
	}
}

// intend records the objects that a task names.
func (x *index) intend(t *task, value []byte, now time.Time) {
	intent := new(types.Task)
	if types.Decode(value, intent) != nil {
		return
	}
	if intent.Job != "" {
		t.job = t.space.job(intent.Job)
		t.job.tasks++
		t.job.since, t.job.asked = now, false
	}
	t.name = x.histories.nameOf(intent)
	if intent.Spec != "" {
		t.spec = t.space.spec(intent.Spec)
		if t.spec.tasks++; t.spec.tasks == 1 {
			x.unsized = append(x.unsized, t.spec)
		}
	}
	if intent.Session != "" && intent.Stop == nil && t.stage != ends {
		t.session = t.space.session(intent.Session)
		t.session.tasks[t] = intent
		if t.session.mod == 0 {
			x.over[t.session] = struct{}{}
			x.left = append(x.left, t)
		}
	}
}

// leave undoes an earlier intend, after the present names were counted.
func (x *index) leave(t *task, job *job, session *session, spec *spec) {
	if job != nil {
		job.tasks--
		x.reckonJob(job)
	}
	if t.job != nil && t.job != job {
		x.reckonJob(t.job)
	}
	if spec != nil {
		if spec.tasks--; spec.tasks == 0 {
			t.space.used.Bytes -= int64(spec.bytes)
			delete(t.space.specs, spec.digest)
		}
	}
	if session != nil && session != t.session {
		x.leaveSession(t, session)
	}
}

func (x *index) leaveSession(t *task, s *session) {
	delete(s.tasks, t)
	x.tidySession(s)
}

// tidySession drops a missing session without tasks.
func (x *index) tidySession(s *session) {
	if len(s.tasks) == 0 {
		delete(x.over, s)
	}
	if len(s.tasks) == 0 && s.mod == 0 {
		delete(s.space.sessions, s.id)
	}
}

func (x *index) applyStatus(s *namespaceState, id string, e controlplane.Event, now time.Time) {
	t := x.taskOf(s, id)
	x.uncount(t)
	x.measure(s, &t.statusSize, e)
	t.statusMod, t.stage = 0, waits
	if !e.Delete {
		t.statusMod, t.asked = e.ModRevision, false
		var status types.Status
		// An unreadable status counts as not ended.
		if types.Decode(e.Value, &status) == nil {
			x.reach(t, &status, now)
			x.ran(t, &status, now)
		} else {
			t.stage = runs
		}
	}
	x.settle(t)
}

// reach records the phase of a task.
func (x *index) reach(t *task, status *types.Status, now time.Time) {
	if t.stage = stageOf(status.Phase); t.stage != ends {
		return
	}
	switch {
	case status.Ended != 0:
		t.end = status.Ended
	case t.end == 0:
		t.end = now.UnixNano()
	}
	if t.session != nil {
		x.leaveSession(t, t.session)
		t.session = nil
	}
}

// uncount is the inverse of settle.
func (x *index) uncount(t *task) {
	if t.mod != 0 && t.stage == waits {
		x.waiting--
		t.space.used.Pending--
	}
	if t.job != nil && t.open() {
		t.job.open--
	}
	if t.at >= 0 {
		x.removeEnded(t)
	}
}

// settle counts and lists a task by its new state.
func (x *index) settle(t *task) {
	if t.mod != 0 && t.stage == waits {
		x.waiting++
		t.space.used.Pending++
	}
	if t.statusMod != 0 && t.stage == ends && !t.asked {
		x.addEnded(t)
	}
	if len(x.owned) > 0 && (t.mod == 0 || t.stage == ends) {
		x.touchOwned(owner{controlplane.Tasks, t.space.name, t.id})
	}
	if t.job != nil {
		if t.open() {
			t.job.open++
		}
		x.mayHaveEnded(t.job, t.end)
	}
	if t.orphan() && t.job.asked && !t.asked {
		x.orphans = append(x.orphans, t)
	}
	if t.mod == 0 && t.statusMod == 0 {
		delete(t.space.tasks, t.id)
	}
}

// mayHaveEnded handles the end of a job without open tasks. It releases the tasks that the job
// held, as ended no earlier than end, and touches its dependents.
func (x *index) mayHaveEnded(j *job, end int64) {
	if j.open > 0 {
		return
	}
	x.release(j, end)
	if len(x.owned) > 0 {
		x.touchOwned(owner{controlplane.Jobs, j.space.name, j.id})
	}
}

func (s *namespaceState) job(id string) *job {
	j := s.jobs[id]
	if j == nil {
		j = &job{space: s, id: strings.Clone(id)}
		s.jobs[j.id] = j
	}
	return j
}

func (s *namespaceState) spec(digest string) *spec {
	p := s.specs[digest]
	if p == nil {
		p = &spec{space: s, digest: strings.Clone(digest)}
		s.specs[p.digest] = p
	}
	return p
}

func (s *namespaceState) session(id string) *session {
	e := s.sessions[id]
	if e == nil {
		e = &session{space: s, id: strings.Clone(id), tasks: make(map[*task]*types.Task)}
		s.sessions[e.id] = e
	}
	return e
}

func (x *index) applyJob(s *namespaceState, id string, e controlplane.Event, now time.Time) {
	j := s.job(id)
	x.measure(s, &j.bytes, e)
	came := j.mod == 0 && !e.Delete
	j.asked, j.since = false, now
	j.mod, j.created, j.size, j.updating, j.name = 0, 0, 0, false, ""
	if !e.Delete {
		j.mod, j.created = e.ModRevision, e.CreateRevision
		var stored types.Job
		if types.Decode(e.Value, &stored) == nil {
			j.size, j.updating, j.name = stored.Tasks, stored.Updating, stored.Name
		}
	} else {
		x.release(j, 0)
	}
	x.reckonJob(j)
	x.touchOwned(owner{controlplane.Jobs, s.name, id})
	if came && j.tasks > 0 {
		// It makes its tasks visible, including those of ended sessions.
		for session := range x.over {
			x.leaveBehind(session)
		}
	}
}

// reckonJob lists a job by its new state.
func (x *index) reckonJob(j *job) {
	delete(x.empty, j)
	delete(x.incomplete, j)
	switch {
	case j.mod != 0 && j.tasks == 0:
		x.empty[j] = struct{}{}
	case j.mod == 0 && j.tasks > 0:
		x.incomplete[j] = struct{}{}
	case j.mod == 0:
		delete(j.space.jobs, j.id)
	}
}

func (x *index) applySession(s *namespaceState, id string, e controlplane.Event) {
	session := s.session(id)
	x.measure(s, &session.bytes, e)
	session.mod = e.ModRevision
	delete(x.over, session)
	if e.Delete {
		session.mod = 0
		x.over[session] = struct{}{}
		x.leaveBehind(session)
		x.tidySession(session)
	}
	x.touchOwned(owner{controlplane.Sessions, s.name, id})
}

// leaveBehind lists the tasks of an ended session.
func (x *index) leaveBehind(s *session) {
	for t := range s.tasks {
		x.left = append(x.left, t)
	}
}

// keys yields the keys of one kind: tasks, and objects that tasks belong to.
func (s *namespaceState) keys(kind controlplane.Kind, yield func(string) bool) bool {
	switch kind {
	case controlplane.Namespaces:
		return s.settingsMod == 0 || yield(controlplane.NamespaceKey(s.name))
	case controlplane.Admissions:
		return s.admissionMod == 0 || yield(controlplane.NamespaceAdmissionKey(s.name))
	case controlplane.Jobs:
		for _, j := range s.jobs {
			if j.mod != 0 && !yield(controlplane.JobKey(s.name, j.id)) {
				return false
			}
		}
	case controlplane.Sessions:
		for _, e := range s.sessions {
			if e.mod != 0 && !yield(controlplane.SessionKey(s.name, e.id)) {
				return false
			}
		}
	case controlplane.Tasks, controlplane.Statuses:
		for _, t := range s.tasks {
			if kind == controlplane.Tasks && t.mod != 0 && !yield(t.key()) || kind == controlplane.Statuses && t.statusMod != 0 && !yield(t.statusKey()) {
				return false
			}
		}
	}
	return true
}
