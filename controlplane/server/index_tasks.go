package server

import (
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// task is a task, its status, or both.
type task struct {
	space *space
	id    string
	// mod and statusMod are the ModRevisions, 0 of what is not there.
	mod, statusMod int64
	// size and statusSize are the bytes of both, 0 of what is not there.
	size, statusSize int32
	// end is when it ended, in Unix nanoseconds: what the status says or, of one
	// that never ran and does not say, when that was seen first.
	end     int64
	job     *job
	spec    *spec
	session *session
	// at is its place among the endings, its job's if that holds it; -1 for none.
	at    int32
	held  bool
	stage stage
	// asked tells that what is to be done about it has been asked for, and it has
	// not changed since.
	asked bool
}

// stage is how far a task is, as far as that matters here.
type stage uint8

const (
	// waits: no node has it.
	waits stage = iota
	// runs: a node has it.
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
	space *space
	id    string
	mod   int64
	bytes int32
	// created is the revision at which it came.
	created int64
	// size is how many tasks it was launched with, tasks how many name it, and open how
	// many of these have not ended.
	size, tasks, open int
	// since is when the last of these came, while the job is not there.
	since time.Time
	asked bool
	// held are those of its tasks that have ended, and are kept while others have not.
	held endings
}

// session is a session, or only tasks that name it.
type session struct {
	space *space
	id    string
	mod   int64
	bytes int32
	// tasks are those that are to be stopped when it ends.
	tasks map[*task]*types.Task
}

// spec is a spec that tasks refer to.
type spec struct {
	space  *space
	digest string
	tasks  int
	// bytes are those of its key and value, 0 until it was read.
	bytes int32
}

// ended reports whether all tasks of a job that is there have ended: an ended task stays
// so, and none joins a job that is there. The tasks are known up to a revision: those that
// are not among those known are gone, or came with the job, and later.
func (j *job) ended(known int64) bool { return j.open == 0 && !j.early(known) }

// early reports whether some of its tasks may have come that are not known yet.
func (j *job) early(known int64) bool { return j.tasks < j.size && known < j.mod }

// open reports whether a task is there, and has not ended.
func (t *task) open() bool { return t.mod != 0 && t.stage != ends }

// visible reports whether a task has no job, or that is complete.
func (t *task) visible() bool { return t.job == nil || t.job.mod != 0 }

func (t *task) key() string       { return controlplane.TaskKey(t.space.name, t.id) }
func (t *task) statusKey() string { return controlplane.StatusKey(t.space.name, t.id) }

// find returns a task, nil if nothing of it is there.
func (x *index) find(ns, id string) *task {
	if s := x.spaces[ns]; s != nil {
		return s.tasks[id]
	}
	return nil
}

func (x *index) taskOf(s *space, id string) *task {
	t := s.tasks[id]
	if t == nil {
		t = &task{space: s, id: strings.Clone(id), at: -1}
		s.tasks[t.id] = t
	}
	return t
}

func (x *index) applyTask(s *space, id string, e controlplane.Event, now time.Time) {
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

// intend notes what a task names.
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

// leave undoes what intend did before. What the task names still is counted by then.
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

// tidySession forgets a session of which nothing is left.
func (x *index) tidySession(s *session) {
	if len(s.tasks) == 0 {
		delete(x.over, s)
	}
	if len(s.tasks) == 0 && s.mod == 0 {
		delete(s.space.sessions, s.id)
	}
}

func (x *index) applyStatus(s *space, id string, e controlplane.Event, now time.Time) {
	t := x.taskOf(s, id)
	x.uncount(t)
	x.measure(s, &t.statusSize, e)
	t.statusMod, t.stage = 0, waits
	if !e.Delete {
		t.statusMod, t.asked = e.ModRevision, false
		var status types.Status
		// What cannot be read has not ended, as far as is known.
		if types.Decode(e.Value, &status) == nil {
			x.reach(t, &status, now)
		} else {
			t.stage = runs
		}
	}
	x.settle(t)
}

// reach notes how far a task is.
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

// uncount takes a task out of what settle puts it into.
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

// settle puts a task where it belongs, after a change.
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

// mayHaveEnded lists what a job held, as having ended at a time at the earliest, and has
// what ends with the job looked at, if none of its tasks that are known goes on.
func (x *index) mayHaveEnded(j *job, end int64) {
	if j.open > 0 {
		return
	}
	x.release(j, end)
	if len(x.owned) > 0 {
		x.touchOwned(owner{controlplane.Jobs, j.space.name, j.id})
	}
}

func (s *space) job(id string) *job {
	j := s.jobs[id]
	if j == nil {
		j = &job{space: s, id: strings.Clone(id)}
		s.jobs[j.id] = j
	}
	return j
}

func (s *space) spec(digest string) *spec {
	p := s.specs[digest]
	if p == nil {
		p = &spec{space: s, digest: strings.Clone(digest)}
		s.specs[p.digest] = p
	}
	return p
}

func (s *space) session(id string) *session {
	e := s.sessions[id]
	if e == nil {
		e = &session{space: s, id: strings.Clone(id), tasks: make(map[*task]*types.Task)}
		s.sessions[e.id] = e
	}
	return e
}

func (x *index) applyJob(s *space, id string, e controlplane.Event, now time.Time) {
	j := s.job(id)
	x.measure(s, &j.bytes, e)
	came := j.mod == 0 && !e.Delete
	j.asked, j.since = false, now
	j.mod, j.created, j.size = 0, 0, 0
	if !e.Delete {
		j.mod, j.created = e.ModRevision, e.CreateRevision
		var stored types.Job
		if types.Decode(e.Value, &stored) == nil {
			j.size = stored.Tasks
		}
	} else {
		x.release(j, 0)
	}
	x.reckonJob(j)
	x.touchOwned(owner{controlplane.Jobs, s.name, id})
	if came && j.tasks > 0 {
		// It makes its tasks visible, those of sessions that have ended too.
		for session := range x.over {
			x.leaveBehind(session)
		}
	}
}

// reckonJob puts a job where it belongs, after a change.
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

func (x *index) applySession(s *space, id string, e controlplane.Event) {
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

// leaveBehind lists the tasks of a session that has ended.
func (x *index) leaveBehind(s *session) {
	for t := range s.tasks {
		x.left = append(x.left, t)
	}
}

// keys yields the keys of a kind, of tasks and what they belong to.
func (s *space) keys(kind controlplane.Kind, yield func(string) bool) bool {
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
