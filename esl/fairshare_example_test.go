package esl_test

import (
	"context"
	"fmt"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
)

// Two users of a cluster of four cores: the one who has paid for more of it gets three of
// them, as long as the other one has work too.
func ExampleFairShare() {
	running, err := together(4, esl.FairShare{Of: map[string]esl.Team{"alice": {Weight: 3}, "bob": {}}, Over: []string{"cpu"}},
		esl.Share{In: "all", As: "alice"}, esl.Share{In: "all", As: "bob"})
	fmt.Println(running, err)
	// Output: [3 1] <nil>
}

// Two jobs in a queue that lets two tasks run at once: those of the first come first.
func ExampleQueue() {
	running, err := together(2, esl.Queue{Limit: 2}, esl.Queued{In: "all"}, esl.Queued{In: "all"})
	fmt.Println(running, err)
	// Output: [2 0] <nil>
}

// Two flows that take turns at what a queue lets in.
func ExampleFairQueue() {
	running, err := together(2, esl.FairQueue{Limit: 2, Anyone: 1}, esl.Flow{In: "all", As: "alice"}, esl.Flow{In: "all", As: "bob"})
	fmt.Println(running, err)
	// Output: [1 1] <nil>
}

// together declares a shared policy, submits a job of many short tasks for each of the
// policies, and returns how many of each run together, most in all.
func together(most int, shared esl.Shared, policies ...esl.Policy) ([]int, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := hollow.Start(ctx, hollow.Config{Nodes: hollow.Nodes(1, 4)})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	jobs, err := c.Client("d")
	if err != nil {
		return nil, err
	}
	if err := jobs.Declare(ctx, "all", shared, ""); err != nil {
		return nil, err
	}
	of := make(map[string]int)
	for i, p := range policies {
		job, err := jobs.Submit(ctx, esl.Job{Name: "job", Tasks: esl.Copies(40, hollow.Task(1000, "run", "200ms"))}, p)
		if err != nil {
			return nil, err
		}
		for _, id := range job.Tasks {
			of[id] = i
		}
	}
	// When those have ended that began before everybody was there.
	running := make([]int, len(policies))
	last := time.Now().Add(time.Second)
	_, err = c.Await(ctx, func(v *cluster.View) bool {
		clear(running)
		for id := range hollow.Running(v, "d") {
			running[of[id]]++
		}
		return time.Now().After(last) && sum(running) == most
	})
	return running, err
}

func sum(counts []int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}
