// Command gang runs four tasks at once or not at all, without a policy: one change submits them and
// a reservation of all that they request.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"

	"github.com/escher-sched/escher/api/escher"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) > 1 {
		fmt.Println("member", os.Args[1], "runs") // a task
		return
	}
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "gang:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	client, err := escher.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	members := make([]escher.Task, 4)
	for i := range members {
		members[i] = escher.Task{
			Requests: escher.MustRequests(map[string]string{"cpu": "100m"}),
			Spec:     escher.Spec{Image: "escher.local/examples:latest", Command: []string{"/bin/gang", fmt.Sprint(i)}},
		}
	}
	ids, err := gang(ctx, client, escher.NewID("train"), members)
	if err != nil {
		return err
	}
	statuses, err := client.Wait(ctx, escher.UntilEnded, ids...)
	for i, id := range ids {
		fmt.Printf("member %d on %s: %s\n", i, statuses[id].Node, statuses[id].Phase)
	}
	return err
}

// gang submits tasks that are bound at one revision, or wait: a reservation has a bundle for each,
// and they draw on it. The reservation ends with the job.
func gang(ctx context.Context, client *escher.Client, id string, tasks []escher.Task) ([]string, error) {
	r := escher.Reservation{ID: id, Job: id, Accumulate: true}
	for i := range tasks {
		r.Bundles = append(r.Bundles, escher.Bundle{Requests: tasks[i].Requests})
		tasks[i].Requests = escher.DrawOn(id, tasks[i].Requests)
	}
	done, err := client.Change().Submit(escher.Job{ID: id, Tasks: tasks}).Reserve(r).Commit(ctx)
	if err != nil {
		return nil, err
	}
	return done[0].Tasks, nil
}
