package share_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/share"
)

// ExampleFairShare has two users on four cores: the one with the larger weight gets three of them,
// as long as the other one has work too.
func ExampleFairShare() {
	users := map[string]share.Team{"alice": {Weight: 3}, "bob": {}}
	err := until([]int{3, 1}, share.FairShare{Of: users, Over: []string{"cpu"}},
		esl.Use{Name: "all", As: "alice"}, esl.Use{Name: "all", As: "bob"})
	fmt.Println("alice runs 3 tasks, bob 1:", err)
	// Output: alice runs 3 tasks, bob 1: <nil>
}

// ExampleQueue has two jobs in a queue that lets two tasks run at once: the first job comes first.
func ExampleQueue() {
	err := until([]int{2, 0}, admission.Queue{Limit: 2}, esl.Use{Name: "all"}, esl.Use{Name: "all"})
	fmt.Println("the first job runs 2 tasks:", err)
	// Output: the first job runs 2 tasks: <nil>
}

// ExampleFairQueue has two flows that take turns.
func ExampleFairQueue() {
	err := until([]int{1, 1}, admission.FairQueue{Limit: 2, Anyone: 1}, esl.Use{Name: "all", As: "alice"}, esl.Use{Name: "all", As: "bob"})
	fmt.Println("alice runs 1 task, bob 1:", err)
	// Output: alice runs 1 task, bob 1: <nil>
}

// until declares a shared policy, submits a job of many short tasks for each of the policies, and
// waits until so many of each run.
func until(want []int, shared esl.Shared, policies ...esl.Policy) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := hollow.Start(ctx, hollow.Config{Nodes: hollow.Nodes(1, 4)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	jobs, err := c.Client("d")
	if err != nil {
		return err
	}
	if err := jobs.Declare(ctx, "all", shared, ""); err != nil {
		return err
	}
	job := make(map[string]int)
	for i, p := range policies {
		launched, err := jobs.Submit(ctx, controlplane.Job{Name: "job", Tasks: esl.Copies(40, hollow.Task(1000, "run", "200ms"))}, p)
		if err != nil {
			return err
		}
		for _, id := range launched.Tasks {
			job[id] = i
		}
	}
	running := make([]int, len(policies))
	_, err = c.Await(ctx, func(v *cluster.View) bool {
		clear(running)
		for id := range hollow.Running(v, "d") {
			running[job[id]]++
		}
		return slices.Equal(running, want)
	})
	return err
}
