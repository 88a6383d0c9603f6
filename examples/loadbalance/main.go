// Command loadbalance spreads six tasks evenly over three nodes: static load balancing. Every node
// has two of load_bal, and every task requests one.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/etcdstore"
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
	store, err := etcdstore.AddressFromEnv(os.Getenv).Dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = store.Close() }()
	client, err := controlplane.New(store, "default")
	if err != nil {
		return err
	}
	state, err := cluster.ClusterState(ctx, client)
	if err != nil {
		return err
	}

	const each = 2
	_, err = client.SetResource(ctx, "load_bal", each*1000, controlplane.OnEvery(), controlplane.SetOptions{})
	if err != nil {
		return err
	}
	tasks := make([]controlplane.Submission, each*len(state.Nodes))
	for i := range tasks {
		tasks[i] = controlplane.Submission{
			Task: types.Task{Name: "worker", Requests: types.NewRequests(map[string]types.Quantity{"load_bal": 1000})},
			Spec: &types.Spec{Image: "escher.local/examples:latest", Command: []string{"/bin/loadbalance", "work"}},
		}
	}
	job, err := client.LaunchJob(ctx, controlplane.Job{Name: "balanced", Tasks: tasks})
	if err != nil {
		return err
	}

	statuses, err := client.Wait(ctx, controlplane.UntilRunning, job.Tasks...)
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
		if err := client.Stop(ctx, id, controlplane.StopOptions{Reason: "its example has seen enough"}); err != nil {
			return err
		}
	}
	if _, err := client.Wait(ctx, controlplane.UntilEnded, job.Tasks...); err != nil {
		return err
	}
	_, err = client.SetResource(ctx, "load_bal", 0, controlplane.OnEvery(), controlplane.SetOptions{})
	return err
}
