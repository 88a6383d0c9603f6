package bench

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	view "github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// inOrder is a policy of this program's own, which jobs share: first in, first out, and
// nobody overtakes. A job is let in when those before it have begun, or have room beside
// one another, and it has besides.
type inOrder struct{}

// Kind is what it is declared as.
func (inOrder) Kind() string { return "bench.escher.dev/in-order" }

// Apply refuses: it is for jobs to name it.
func (inOrder) Apply(*esl.Group) error {
	return types.Errorf(types.Invalid, "in-order is shared: declare it, and have jobs name it by ordered")
}

// Declare needs nothing.
func (inOrder) Declare(string) ([]esl.Set, error) { return nil, nil }

// Wide tells that it goes by what is free.
func (inOrder) ClusterScoped() {}

// inOrderAtOnce is how many jobs are let in by one plan at most.
const inOrderAtOnce = 500

// Next lets in the first of those that wait.
func (inOrder) Next(s *esl.State) esl.Plan { return letIn(s, slices.Collect(maps.Keys(s.Referring()))) }

// letIn lets in the first of jobs.
func letIn(s *esl.State, jobs []string) esl.Plan {
	plan := esl.Plan{Reason: "they are next"}
	rooms := s.Rooms()
	for _, j := range inLine(s, jobs) {
		if len(plan.Set) == inOrderAtOnce || !j.takes(rooms) {
			break
		}
		if gate := s.Pool(j.gate); gate == nil || gate.Capacity() == 0 {
			plan.Set = append(plan.Set, esl.Set{Name: j.gate, Capacity: types.Inf, Where: controlplane.InCluster(), Options: esl.OfJob(j.job)})
		}
	}
	return plan
}

// ordered has a job wait in an inOrder.
type ordered struct {
	In string `json:"in"`
}

func (ordered) Kind() string { return "bench.escher.dev/ordered" }

// Shared is where it waits.
func (o ordered) Shared() string { return o.In }

// Apply has all tasks ask for a gate of the job's.
func (ordered) Apply(g *esl.Group) error {
	g.AskAll(g.Own(""), 1)
	return nil
}

// waitingJob is one that has not begun.
type waitingJob struct {
	job, gate string
	submitted int64
	devices   []types.Quantity // of each task
}

// inLine returns those of jobs that have not begun, by age.
func inLine(s *esl.State, jobs []string) []waitingJob {
	var line []waitingJob
	for _, job := range jobs {
		w := waitingJob{job: job}
		for _, t := range s.JobTasks(job) {
			if t.Info.V == nil || t.Phase() != types.Pending {
				continue
			}
			w.submitted = t.Info.V.Submitted
			for _, x := range t.Info.V.Requests {
				name, _, _ := strings.Cut(x.Name, "@")
				if types.ResourceID(name) == types.GPU {
					w.devices = append(w.devices, x.Amount)
				} else if strings.HasPrefix(name, job+".ordered") {
					w.gate = name
				}
			}
		}
		if w.gate != "" {
			line = append(line, w)
		}
	}
	slices.SortFunc(line, func(a, b waitingJob) int {
		return cmp.Or(cmp.Compare(a.submitted, b.submitted), strings.Compare(a.job, b.job))
	})
	return line
}

// takes takes room for a job, on the fullest nodes, and reports whether there is enough.
func (w *waitingJob) takes(rooms []*esl.Room) bool {
	for _, amount := range w.devices {
		needs := []view.Need{{ID: types.GPU, Amount: amount}}
		var best *esl.Room
		least := types.Inf
		for _, r := range rooms {
			if free, _ := r.Free(types.GPU); free >= amount && free < least {
				best, least = r, free
			}
		}
		if best == nil {
			return false
		}
		best.Take(needs)
	}
	return true
}

// Pace is how often it looks at most.
func (inOrder) Pace() time.Duration { return 20 * time.Millisecond }
