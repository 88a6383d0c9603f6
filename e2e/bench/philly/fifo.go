package philly

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

// inOrder is this program's own shared policy: first in, first out, without overtaking. It admits a
// job once the earlier jobs have begun, or fit together, and the job fits with them.
type inOrder struct{}

// Kind is the kind under which it is declared.
func (inOrder) Kind() string { return "bench.escher.dev/in-order" }

// Apply refuses: jobs must name the shared policy instead.
func (inOrder) Apply(*esl.Group) error {
	return types.Errorf(types.Invalid, "in-order is shared: declare it, and have jobs use it")
}

// Declare needs nothing.
func (inOrder) Declare(string) ([]controlplane.Resource, error) { return nil, nil }

// ClusterScoped reports that it reads free capacity.
func (inOrder) ClusterScoped() {}

// inOrderAtOnce bounds the jobs that one plan admits.
const inOrderAtOnce = 500

// Next admits the first waiting jobs.
func (inOrder) Next(s *esl.State) esl.Plan { return letIn(s, slices.Collect(maps.Keys(s.Referring()))) }

// letIn admits the first of jobs.
func letIn(s *esl.State, jobs []string) esl.Plan {
	plan := esl.Plan{Reason: "they are next"}
	rooms := s.Rooms()
	for _, j := range inLine(s, jobs) {
		if len(plan.Set) == inOrderAtOnce || !j.takes(rooms) {
			break
		}
		if gate := s.Pool(j.gate); gate == nil || gate.Capacity() == 0 {
			plan.Set = append(plan.Set, controlplane.Resource{Name: j.gate, Capacity: types.Inf, Where: controlplane.InCluster(), Options: esl.OfJob(j.job)})
		}
	}
	return plan
}

// waitingJob is a job that has not begun.
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
				} else if strings.HasPrefix(name, job+".in-order") {
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

// takes takes capacity for a job, on the fullest nodes, and reports whether it fits.
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

// Pace is the least interval between its runs.
func (inOrder) Pace() time.Duration { return 20 * time.Millisecond }
