// Command loadbalance spreads six tasks evenly over three nodes: static load balancing. Every node
// has two of load_bal, and every task requests one.
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
		fmt.Fprintln(os.Stderr, "loadbalance:", err)
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

	const each = 2
	if err := client.SetResource(ctx, "load_bal", escher.Whole(each)); err != nil {
		return err
	}
	worker := escher.Task{
		Name: "worker", Requests: escher.MustRequests(map[string]string{"load_bal": "1"}),
		Spec: escher.Spec{Image: "escher.local/examples:latest", Command: []string{"/bin/loadbalance", "work"}},
	}
	job, err := client.Submit(ctx, escher.Job{Name: "balanced", Tasks: escher.Copies(each*len(state.Nodes), worker)})
	if err != nil {
		return err
	}

	statuses, err := client.Wait(ctx, escher.UntilRunning, job.Tasks...)
	if err != nil {
		return err
	}
	on := make(map[string]int)
	for id, s := range statuses {
		if s.Phase != types.Running {
			return fmt.Errorf("task %s %s: %s", id, s.Phase, s.Reason)
		}
		on[s.Node]++
	}
	for _, n := range state.Nodes {
		if on[n.Name] != each {
			return fmt.Errorf("%d tasks are on %s, want %d: %v", on[n.Name], n.Name, each, on)
		}
		fmt.Printf("%d tasks on %s, which has %d of load_bal\n", on[n.Name], n.Name, each)
	}

	for _, id := range job.Tasks {
		if err := client.Stop(ctx, id, escher.Because("its example has seen enough")); err != nil {
			return err
		}
	}
	if _, err := client.Wait(ctx, escher.UntilEnded, job.Tasks...); err != nil {
		return err
	}
	return client.SetResource(ctx, "load_bal", "0")
}
