package workload

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/escher-sched/escher/types"
)

// Plan is a workload made ready to be run again.
type Plan struct {
	Machines []Machine
	// Jobs are in the order of their submission.
	Jobs  []Job
	Tasks []Task
	// Left is how many tasks of the workload are not part of the plan, as it was to have
	// no more; Modelled of how many nobody measured how long they ran.
	Left, Modelled int

	constraints [][]string
}

// Job is some tasks that are submitted at once.
type Job struct {
	// At is when, in seconds of the workload.
	At float64
	// First is the index of its first task, N how many it has.
	First, N int
	// Gang tells that they start together or not at all.
	Gang bool

	name string
}

// Task is one of them.
type Task struct {
	Requests types.Requests
	// Runs is how long it runs, in seconds of the workload; negative: to the end.
	Runs float64
}

// ReadPlan reads a workload from a directory with nodes.csv and tasks.csv, with at most
// so many tasks: the first. Invalid: a table is not as it must be; the error says where.
func ReadPlan(dir string, most int) (*Plan, error) {
	machines, err := ReadMachines(dir)
	if err != nil {
		return nil, err
	}
	p := &Plan{Machines: machines}
	known := make(map[string]types.Requests)
	err = EachWork(dir, "tasks", func(w Work) error {
		if w.Instances > most-len(p.Tasks) {
			p.Left += w.Instances
			return nil
		}
		p.add(w, known)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(p.Jobs) == 0 {
		return nil, types.Errorf(types.Invalid, "trace: %s: no job has at most %d tasks: allow more", dir, most)
	}
	slices.SortStableFunc(p.Jobs, func(a, b Job) int { return cmp.Compare(a.At, b.At) })
	return p, nil
}

// add adds a row. Rows of one gang are one job; what is submitted together and may start
// apart is one, too.
func (p *Plan) add(w Work, known map[string]types.Requests) {
	key := fmt.Sprint(w.CPUMilli, w.MemMiB, w.GPUs, w.GPUMilli, w.Models)
	requests, ok := known[key]
	if !ok {
		requests = w.Requests()
		known[key] = requests
		if w.Models != nil && !slices.ContainsFunc(p.constraints, func(m []string) bool { return slices.Equal(m, w.Models) }) {
			p.constraints = append(p.constraints, w.Models)
		}
	}
	job := Job{At: w.Submit, First: len(p.Tasks), Gang: w.Gang > 1, name: w.Job}
	if last := len(p.Jobs) - 1; job.Gang && last >= 0 && p.Jobs[last].Gang && p.Jobs[last].name == job.name {
		p.Jobs[last].N += w.Instances
	} else {
		job.N = w.Instances
		p.Jobs = append(p.Jobs, job)
	}
	for range w.Instances {
		p.Tasks = append(p.Tasks, Task{requests, w.Duration})
	}
	if w.Modelled {
		p.Modelled += w.Instances
	}
}

// Node is node i as its agent would register it, and Devices what it has of them, nil if
// nothing.
func (p *Plan) Node(i int) *types.Node { return p.Machines[i].Node(1, p.constraints) }

// Devices are the devices of node i, nil if it has none.
func (p *Plan) Devices(i int) *types.Devices { return p.Machines[i].Devices(1) }

// Span is the time from the first submission to the last, in seconds.
func (p *Plan) Span() float64 { return p.Jobs[len(p.Jobs)-1].At - p.Jobs[0].At }
