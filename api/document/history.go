package document

import (
	"time"

	"github.com/escher-sched/escher/controlplane/accounting"
	"github.com/escher-sched/escher/types"
)

// Record is the record of an ended task in the history.
type Record struct {
	Namespace string `json:"namespace"`
	ID        string `json:"id"`
	Name      string `json:"name,omitempty"`
	Job       string `json:"job,omitempty"`
	JobName   string `json:"jobName,omitempty"`
	// User is the submitter of the task, else its label user, else the user for which its job draws
	// on a shared policy.
	User   string            `json:"user,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
	Phase  types.Phase       `json:"phase"`
	// ExitCode and the fields up to Node are of the last attempt.
	ExitCode int         `json:"exitCode"`
	Cause    types.Cause `json:"cause,omitempty"`
	Reason   string      `json:"reason,omitempty"`
	Node     string      `json:"node,omitempty"`
	Attempts int         `json:"attempts"`
	// Bound and Started are of the last attempt.
	Submitted *time.Time `json:"submitted,omitempty"`
	Bound     *time.Time `json:"bound,omitempty"`
	Started   *time.Time `json:"started,omitempty"`
	Ended     *time.Time `json:"ended"`
	// WaitedSeconds is the time between submission and end without an attempt.
	WaitedSeconds float64 `json:"waitedSeconds"`
	// Held is what the last attempt held of cpu, memory and gpu, and Used what it used of cpu, as a mean,
	// and of memory, as a peak.
	Held types.Requests `json:"held"`
	Used types.Requests `json:"used"`
	Spent
	// Estimated means that the record is of what was left of the task: attempts may be missing.
	Estimated bool  `json:"estimated,omitempty"`
	Revision  int64 `json:"revision"`
}

// Spent adds up attempts: what each held, from bind to end, and the processor time that was measured.
type Spent struct {
	GPUSeconds        float64 `json:"gpuSeconds"`
	CPUSeconds        float64 `json:"cpuSeconds"`
	CPUUsedSeconds    float64 `json:"cpuUsedSeconds"`
	MemoryByteSeconds float64 `json:"memoryByteSeconds"`
}

func spentOf(s accounting.Spent) Spent {
	return Spent{GPUSeconds: s.GPUSeconds, CPUSeconds: s.CPUSeconds, CPUUsedSeconds: s.CPUUsedSeconds, MemoryByteSeconds: s.MemoryByteSeconds}
}

// RecordOf returns the document of a record.
func RecordOf(t *accounting.Task) Record {
	return Record{
		Namespace: t.Namespace, ID: t.ID, Name: t.Name, Job: t.Job, JobName: t.JobName, User: t.User, Labels: types.LabelMap(t.Labels),
		Phase: t.Phase, ExitCode: t.ExitCode, Cause: t.Cause, Reason: t.Reason, Node: t.Node, Attempts: t.Attempts,
		Submitted: Moment(t.Submitted), Bound: Moment(t.Bound), Started: Moment(t.Started), Ended: Moment(t.Ended),
		WaitedSeconds: time.Duration(t.Waited).Seconds(), Held: amounts(t.CPU, t.Memory, t.GPU), Used: amounts(t.Used.CPU, t.Used.Memory, 0),
		Spent: spentOf(t.Spent), Estimated: t.Estimated, Revision: t.Revision,
	}
}

// amounts returns those that are not 0.
func amounts(cpu, memory, gpu types.Quantity) types.Requests {
	all := make(map[string]types.Quantity)
	for id, q := range map[types.ResourceID]types.Quantity{types.CPU: cpu, types.Memory: memory, types.GPU: gpu} {
		if q != 0 {
			all[string(id)] = q
		}
	}
	return types.NewRequests(all)
}

// Usage is what one group has spent: a user, for instance.
type Usage struct {
	// By has the values that the group has in common, such as user: alice; a missing one is empty.
	By map[string]string `json:"by"`
	// Tasks are those that ended, and Failed those of them that failed. Attempts are those that count.
	Tasks    int `json:"tasks"`
	Failed   int `json:"failed"`
	Attempts int `json:"attempts"`
	Spent
	// WaitedSeconds adds up how long these tasks waited.
	WaitedSeconds float64 `json:"waitedSeconds"`
}

// UsageOf returns the document of a group, which is summed up by the keys of by.
func UsageOf(u *accounting.Usage, by []accounting.By) Usage {
	out := Usage{By: make(map[string]string, len(by)), Tasks: u.Tasks, Failed: u.Failed, Attempts: u.Attempts, Spent: spentOf(u.Spent), WaitedSeconds: u.WaitedSeconds}
	for i, b := range by {
		out.By[string(b)] = u.Of[i]
	}
	return out
}
