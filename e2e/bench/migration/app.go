package migration

import (
	"context"
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane"
	sim "github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// onGPUs is a task with a number of devices, on a node if one is named.
func onGPUs(gpus int, node string, command ...string) controlplane.Submission {
	s := sim.Task(100, command...)
	amounts := map[string]types.Quantity{string(types.CPU): 100, string(types.GPU): types.Quantity(gpus) * esl.One}
	if node != "" {
		amounts["node/"+node] = esl.One
	}
	s.Task.Requests = types.NewRequests(amounts)
	return s
}

// submitJobs submits five short jobs, which leave four devices on three nodes, and the long
// job. It returns the ids of the workers of the long job. takes converts times of the experiment
// to actual durations.
func submitJobs(ctx context.Context, jobs *esl.Client, takes func(time.Duration) time.Duration, policies ...esl.Policy) ([]string, error) {
	for i, short := range []struct {
		node string
		gpus int
		runs time.Duration
	}{{"n02", 2, 60 * time.Second}, {"n00", 2, 90 * time.Second}, {"n01", 2, 120 * time.Second}, {"n00", 1, 150 * time.Second}, {"n01", 1, 180 * time.Second}} {
		task := onGPUs(short.gpus, short.node, "run", takes(short.runs).String())
		done, err := jobs.Submit(ctx, controlplane.Job{Name: fmt.Sprintf("short%d", i), Tasks: []controlplane.Submission{task}})
		if err != nil {
			return nil, err
		}
		if _, err := jobs.Wait(ctx, controlplane.UntilRunning, done.Tasks...); err != nil {
			return nil, err
		}
	}
	workers := esl.Copies(longWorkers, onGPUs(1, "", "stop", takes(saveTakes).String()))
	long, err := jobs.Submit(ctx, controlplane.Job{Name: "long", Tasks: workers}, policies...)
	return long.Tasks, err
}
