package room_test

import (
	"context"
	"fmt"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl/room"
)

// ExamplePreempt makes two of four tasks give way to one of a higher priority; they run again when
// it has ended.
func ExamplePreempt() {
	ctx := context.Background()
	c, err := hollow.Start(ctx, hollow.Config{Nodes: hollow.Nodes(1, 4)})
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
	batch, err := jobs.Submit(ctx, controlplane.Job{Name: "batch", Tasks: ofPriority(1, 4, hollow.Task(1000))})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := jobs.Wait(ctx, controlplane.UntilRunning, batch.Tasks...); err != nil {
		fmt.Println(err)
		return
	}
	urgent, err := jobs.Submit(ctx, controlplane.Job{Name: "urgent", Tasks: ofPriority(2, 1, hollow.Task(2000, "run", "10ms"))}, room.Preempt{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := jobs.Wait(ctx, controlplane.UntilEnded, urgent.Tasks...); err != nil {
		fmt.Println(err)
		return
	}
	all, err := jobs.Wait(ctx, controlplane.UntilRunning, batch.Tasks...)
	if err != nil {
		fmt.Println(err)
		return
	}
	evicted := 0
	for _, s := range all {
		evicted += s.Attempt - 1
	}
	fmt.Println(evicted, "were evicted, and run again")
	// Output: 2 were evicted, and run again
}
