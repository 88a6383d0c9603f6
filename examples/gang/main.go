// Command gang runs four tasks at once or not at all, on the bare client: one transaction submits
// them and a reservation of all that they request.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/types"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) > 1 {
		fmt.Println("member", os.Args[1], "runs") // a task
		return
	}
	store, err := etcdstore.AddressFromEnv(os.Getenv).Dial(ctx)
	if err == nil {
		defer func() { _ = store.Close() }()
		err = run(ctx, store)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gang:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, store controlplane.Store) error {
	client, err := controlplane.New(store, "default")
	if err != nil {
		return err
	}
	members := make([]controlplane.Submission, 4)
	for i := range members {
		members[i] = controlplane.Submission{
			Task: types.Task{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 100})},
			Spec: &types.Spec{Image: "escher.local/examples:latest", Command: []string{"/bin/gang", fmt.Sprint(i)}},
		}
	}
	ids, err := gang(ctx, client, controlplane.NewID("train"), members)
	if err != nil {
		return err
	}
	statuses, err := client.Wait(ctx, controlplane.UntilEnded, ids...)
	for i, id := range ids {
		fmt.Printf("member %d on %s: %s\n", i, statuses[id].Node, statuses[id].Phase)
	}
	return err
}

// gang submits tasks that are bound at one revision, or wait: a reservation has a bundle for each,
// and they draw on it. The reservation ends with the job.
func gang(ctx context.Context, client *controlplane.Client, id string, tasks []controlplane.Submission) ([]string, error) {
	r := types.Reservation{Job: id, Accumulate: true}
	for i := range tasks {
		wants := tasks[i].Task.Requests
		drawn := make(map[string]types.Quantity)
		for _, x := range wants {
			drawn[x.Name+"@"+id] = x.Amount
		}
		r.Bundles = append(r.Bundles, types.Bundle{Requests: wants})
		tasks[i].Task.Requests = types.NewRequests(drawn)
	}
	submission := client.Begin()
	launched := submission.LaunchJob(controlplane.Job{ID: id, Tasks: tasks})
	_, err := submission.Reserve(id, r).Commit(ctx)
	return launched.Tasks, err
}
