package workload

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/escher-sched/escher/types"
)

// Plan is a workload prepared for replay.
type Plan struct {
	Machines []Machine
	// Jobs are in order of submission.
	Jobs  []Job
	Tasks []Task
	// Left is the number of tasks left out by the limit of the plan. Modelled is the number of
	// tasks whose run time was not measured.
	Left, Modelled int

	constraints [][]string
}

// Job is a set of tasks submitted at once.
type Job struct {
	// At is the time of the submission, in seconds of the workload.
	At float64
	// First is the index of its first task, N the number of tasks.
	First, N int
	// Gang reports whether they start together or not at all.
	Gang bool

	name string
}

// Task is a task of the plan.
type Task struct {
	Requests types.Requests
	// Runs is its run time, in seconds of the workload; negative means that it never ends.
	Runs float64
}

// ReadPlan reads a workload from a directory with nodes.csv and tasks.csv, with at most the first
// most tasks. Invalid: a table has an error; the message says where.
func ReadPlan(dir string, most int) (*Plan, error) {
	machines, err := ReadMachines(dir)
	if err != nil {
		return nil, err
	}
	p := &Plan{Machines: machines}
	known := make(requestSet)
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

// add adds a row. Rows of one gang are one job, as are rows submitted together that may start
// separately.
func (p *Plan) add(w Work, known requestSet) {
	requests := known.of(w)
	p.constrain(w.Models)
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

// constrain adds the models that a task may have devices of; none means any.
func (p *Plan) constrain(models []string) {
	if models != nil && !slices.ContainsFunc(p.constraints, func(m []string) bool { return slices.Equal(m, models) }) {
		p.constraints = append(p.constraints, models)
	}
}

// requestSet has each vector of requests once.
type requestSet map[string]types.Requests

// of returns the requests of a task of a row.
func (s requestSet) of(w Work) types.Requests {
	key := fmt.Sprint(w.CPUMilli, w.MemMiB, w.GPUs, w.GPUMilli, w.Models)
	r, ok := s[key]
	if !ok {
		r = w.Requests()
		s[key] = r
	}
	return r
}

// Node is node i as its agent would register it.
func (p *Plan) Node(i int) *types.Node { return p.Machines[i].Node(1, p.constraints) }

// Devices are the devices of node i; nil if it has none.
func (p *Plan) Devices(i int) *types.Devices { return p.Machines[i].Devices(1) }

// Span is the time from the first submission to the last, in seconds.
func (p *Plan) Span() float64 { return p.Jobs[len(p.Jobs)-1].At - p.Jobs[0].At }
