// Command composition keeps the two tasks of a pair together, and the pairs apart: co-location and
// load balancing, composed by requesting both.
//
// Every node has one of spread. A leader requests it, and provides pair-<i> on its node as soon as
// it is bound; its follower requests that. All followers are submitted first: the order does not
// matter.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/escher-sched/escher/api/escher"
	"github.com/escher-sched/escher/types"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 {
		<-ctx.Done() // a task: it works until it is stopped
		return
	}
	if err := submit(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "composition:", err)
		os.Exit(1)
	}
}

func submit(ctx context.Context) error {
	client, err := escher.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	state, err := client.State(ctx)
	if err != nil {
		return err
	}

	if err := client.SetResource(ctx, "spread", "1"); err != nil {
		return err
	}
	pairs := len(state.Nodes)
	var followers, leaders []escher.Task
	for i := range pairs {
		pair := fmt.Sprintf("pair-%d", i)
		follower := task("follower", pair)
		leader := task("leader", "spread")
		leader.Provides = []escher.Provide{{Name: pair, Amount: "1", When: types.WhenBound}}
		followers, leaders = append(followers, follower), append(leaders, leader)
	}
	job, err := client.Submit(ctx, escher.Job{Name: "pairs", Tasks: append(followers, leaders...)})
	if err != nil {
		return err
	}

	statuses, err := client.Wait(ctx, escher.UntilRunning, job.Tasks...)
	if err != nil {
		return err
	}
	if err := check(job.Tasks, statuses, pairs); err != nil {
		return err
	}

	for _, id := range job.Tasks {
		if err := client.Stop(ctx, id, escher.Because("its example has seen enough")); err != nil {
			return err
		}
	}
	if _, err := client.Wait(ctx, escher.UntilEnded, job.Tasks...); err != nil {
		return err
	}
	return client.SetResource(ctx, "spread", "0")
}

// task returns a task that requests one of a resource.
func task(name, resource string) escher.Task {
	return escher.Task{
		Name: name, Requests: escher.MustRequests(map[string]string{resource: "1"}),
		Spec: escher.Spec{Image: "escher.local/examples:latest", Command: []string{"/bin/composition", name}},
	}
}

// check finds a pair that is not together, or not alone on its node. The followers are the first
// half of the ids.
func check(ids []string, statuses map[string]escher.Status, pairs int) error {
	taken := make(map[string]int)
	for i := range pairs {
		follower, leader := statuses[ids[i]], statuses[ids[pairs+i]]
		if follower.Phase != types.Running || leader.Phase != types.Running {
			return fmt.Errorf("pair %d: the follower is %s (%s), the leader %s (%s)", i, follower.Phase, follower.Reason, leader.Phase, leader.Reason)
		}
		if follower.Node != leader.Node {
			return fmt.Errorf("pair %d: the follower is on %s, the leader on %s", i, follower.Node, leader.Node)
		}
		if other, ok := taken[leader.Node]; ok {
			return fmt.Errorf("pairs %d and %d are both on %s", other, i, leader.Node)
		}
		taken[leader.Node] = i
		fmt.Printf("pair %d on %s: the leader took its one of spread, and the follower the leader's pair-%d\n", i, leader.Node, i)
	}
	return nil
}
