package accounting

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/submitter"
	"github.com/escher-sched/escher/types"
)

// Amounts are what an attempt holds: cpu and gpu in thousandths, memory in bytes.
type Amounts struct{ CPU, Memory, GPU types.Quantity }

// Task is the record of an ended task. Times are in Unix nanoseconds; 0 means never.
type Task struct {
	Namespace, ID, Name string
	// Job is the id of its job, and JobName the name of that.
	Job, JobName string
	// User is the submitter, else its label user, else that for which its job uses a shared
	// policy.
	User   string
	Labels []types.Label
	Phase  types.Phase
	// ExitCode, Cause, Reason and Node are those of its last attempt.
	ExitCode     int
	Cause        types.Cause
	Reason, Node string
	Attempts     int
	// Bound and Started are those of the last attempt.
	Submitted, Bound, Started, Ended int64
	// Waited is the time from its submission to its end without an attempt, in nanoseconds.
	Waited int64
	// Amounts are those of its last attempt, or its requests if it had none.
	Amounts
	// Used is what its last attempt used.
	Used types.Used
	// Spent adds up all of its attempts.
	Spent Spent
	// Estimated reports whether the record was made from what was left of the task: amounts are its
	// requests, and attempts before the last one are missing.
	Estimated bool
	// Revision is that of the status that ended it.
	Revision int64
}

// attempt is the record of an ended attempt.
type attempt struct {
	number                int
	node                  string
	bound, started, ended int64
	Amounts
	used types.Used
}

// spent returns what the attempt held, from bind to end, and used, from start to end.
func (a *attempt) spent() Spent {
	held, ran := time.Duration(a.ended-a.bound).Seconds(), 0.0
	if a.started != 0 {
		ran = max(0, time.Duration(a.ended-a.started).Seconds())
	}
	return Spent{
		CPUSeconds: held * float64(a.CPU) / 1000, MemoryByteSeconds: held * float64(a.Memory),
		GPUSeconds: held * float64(a.GPU) / 1000, CPUUsedSeconds: ran * float64(a.used.CPU) / 1000,
	}
}

// ending is a status that ends an attempt or a task.
type ending struct {
	key    controlplane.Key
	mod    int64
	status types.Status
}

// endingOf returns the end that a change of a status tells; ok is false if it tells none.
func endingOf(e controlplane.Event) (x ending, ok bool) {
	if e.Delete {
		return x, false
	}
	x.key, ok = controlplane.Parse(e.Key)
	x.mod = e.ModRevision
	return x, ok && controlplane.Read(e.KV, &x.status) && (x.status.Phase.Ended() || x.endsAttempt())
}

// endsAttempt reports whether an attempt ended: a status names its end until the next attempt.
func (x *ending) endsAttempt() bool { return x.status.Attempt > 0 && x.status.Ended != 0 }

func (x *ending) taskKey() string { return controlplane.TaskKey(x.key.Namespace, x.key.ID) }

// keys are those of the end besides its task. All may be gone after it.
func (x *ending) keys() []string {
	keys := []string{x.taskKey(), x.key.String()}
	if x.endsAttempt() {
		keys = append(keys, x.bindingKey())
	}
	return keys
}

func (x *ending) bindingKey() string {
	return controlplane.BindingKey(x.status.Node, x.key.Namespace, x.key.ID, x.status.Attempt)
}

// record is what an end leaves in the history.
type record struct {
	task    Task
	attempt *attempt
	// exact reports whether all that it takes was there.
	exact bool
}

// known are keys at the revision before an end, or later if that is gone.
type known map[string]controlplane.KV

// read decodes a key, and reports whether it was there.
func (k known) read(key string, into types.Message) bool {
	kv, ok := k[key]
	return ok && controlplane.Read(kv, into)
}

// recordOf returns the record of an end. now is the time of ends that tell none.
func recordOf(x *ending, k known, now int64) record {
	var task types.Task
	s := &x.status
	r := record{exact: k.read(x.taskKey(), &task)}
	t := &r.task
	*t = Task{
		Namespace: x.key.Namespace, ID: x.key.ID, Name: task.Name, Job: task.Job, User: userOf(&task, x.key.Namespace, k), Labels: task.Labels,
		Phase: s.Phase, ExitCode: s.ExitCode, Cause: s.Cause, Reason: s.Reason, Node: s.Node, Attempts: s.Attempt,
		Submitted: task.Submitted, Bound: s.Bound, Started: s.Started, Ended: cmp.Or(s.Ended, now), Used: s.Used, Revision: x.mod,
		Amounts: requested(x.key.Namespace, &task),
	}
	var job types.Job
	if task.Job != "" && k.read(controlplane.JobKey(t.Namespace, task.Job), &job) {
		t.JobName = job.Name
	}
	if !x.endsAttempt() {
		return r
	}
	var b types.Binding
	if found := k.read(x.bindingKey(), &b); found {
		t.Amounts = Amounts{CPU: b.Amount(types.CPU), Memory: b.Amount(types.Memory), GPU: b.Amount(types.GPU)}
	} else {
		r.exact = false
	}
	var before types.Status
	if t.Started == 0 && k.read(x.key.String(), &before) && before.Attempt == s.Attempt {
		t.Started = before.Started // the loss of a node does not tell it
	}
	t.Ended = max(t.Ended, t.Bound) // the clock of its node may be behind
	r.attempt = &attempt{number: s.Attempt, node: s.Node, bound: t.Bound, started: t.Started, ended: t.Ended, Amounts: t.Amounts, used: s.Used}
	return r
}

// requested are the amounts of a task without an attempt: its requests, with its first alternative.
func requested(ns string, t *types.Task) Amounts {
	of := func(id types.ResourceID) (sum types.Quantity) {
		all := []types.Requests{t.Requests}
		if len(t.Alternatives) > 0 {
			all = append(all, t.Alternatives[0].Requests)
		}
		for _, requests := range all {
			for _, r := range requests {
				if types.Resolve(ns, r.Name).Unscoped() == id {
					sum = sum.Add(r.Amount)
				}
			}
		}
		return sum
	}
	return Amounts{CPU: of(types.CPU), Memory: of(types.Memory), GPU: of(types.GPU)}
}

// userOf returns the user of a task; empty if none is known.
func userOf(t *types.Task, ns string, k known) string {
	if user := cmp.Or(t.User, types.LabelMap(t.Labels)[submitter.Label]); user != "" {
		return user
	}
	var all types.Policies
	if t.Job == "" || !k.read(controlplane.PoliciesKey(ns, t.Job), &all) {
		return ""
	}
	for _, p := range all.Policies {
		var use struct {
			As string `json:"as"`
		}
		if json.Unmarshal([]byte(p.With), &use) == nil && use.As != "" {
			return use.As
		}
	}
	return ""
}
