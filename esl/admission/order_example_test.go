package admission_test

import (
	"context"
	"fmt"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
)

// ExampleBarrier starts a client when both servers run, though it was submitted first.
func ExampleBarrier() {
	ctx := context.Background()
	c, err := hollow.Start(ctx, hollow.Config{Nodes: hollow.Nodes(2, 4)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()
	jobs, err := c.Client("default")
	if err != nil {
		fmt.Println(err)
		return
	}
	job, err := jobs.Submit(ctx, controlplane.Job{Name: "serving", Tasks: []controlplane.Submission{esltest.Called("client", "run", "10ms"), esltest.Called("server"), esltest.Called("server")}},
		admission.Barrier{Tasks: []string{"server"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	client, err := jobs.Wait(ctx, controlplane.UntilEnded, job.Tasks[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	servers, err := jobs.Wait(ctx, controlplane.UntilRunning, job.Tasks[1:]...)
	if err != nil {
		fmt.Println(err)
		return
	}
	began := client[job.Tasks[0]].Bound
	fmt.Println(servers[job.Tasks[1]].Started <= began && servers[job.Tasks[2]].Started <= began)
	// Output: true
}

// ExampleSemaphore lets tasks of two jobs hold the only connection in turn.
func ExampleSemaphore() {
	ctx := context.Background()
	c, err := hollow.Start(ctx, hollow.Config{Nodes: hollow.Nodes(2, 4)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()
	jobs, err := c.Client("default")
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := jobs.Declare(ctx, "database", admission.Semaphore{Limit: 1}, ""); err != nil {
		fmt.Println(err)
		return
	}
	var tasks []string
	for range 2 {
		job, err := jobs.Submit(ctx, controlplane.Job{Tasks: []controlplane.Submission{hollow.Task(500, "run", "20ms")}}, esl.Use{Name: "database"})
		if err != nil {
			fmt.Println(err)
			return
		}
		tasks = append(tasks, job.Tasks...)
	}
	all, err := jobs.Wait(ctx, controlplane.UntilEnded, tasks...)
	if err != nil {
		fmt.Println(err)
		return
	}
	one, other := all[tasks[0]], all[tasks[1]]
	fmt.Println(one.Ended <= other.Bound || other.Ended <= one.Bound)
	// Output: true
}
