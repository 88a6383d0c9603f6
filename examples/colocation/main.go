// Command colocation places a task with another one that did not exist at its submission: locality,
// the first of the four primitives.
//
// task2 requests co_location, which exists nowhere: it waits. task1 creates it on its node, from
// inside its container: task2 runs there.
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
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	program := submit
	if len(os.Args) > 1 && os.Args[1] == "task1" {
		program = task1
	} else if len(os.Args) > 1 {
		program = task2
	}
	if err := program(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "colocation:", err)
		os.Exit(1)
	}
}

// task1 runs in a container, and creates the resource on its node.
func task1(ctx context.Context) error {
	escher := tasksocket.NewClient(os.Getenv(tasksocket.EnvSocket))
	if _, err := escher.Set(ctx, tasksocket.Set{Name: "co_location", Capacity: "1", Lifetime: types.OfTask}); err != nil {
		return err
	}
	<-ctx.Done() // task2 may need it until it is stopped
	return nil
}

// task2 runs in a container on the node of task1.
func task2(context.Context) error {
	fmt.Println("task2 has run")
	return nil
}

// submit runs outside: it submits both, and checks where they ran.
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

	wants := types.NewRequests(map[string]types.Quantity{"co_location": 1000})
	second, err := client.Launch(ctx, task("task2", wants))
	if err != nil {
		return err
	}
	first, err := client.Launch(ctx, task("task1", nil))
	if err != nil {
		return err
	}

	statuses, err := client.Wait(ctx, controlplane.UntilEnded, second.Tasks...)
	if err != nil {
		return err
	}
	two := statuses[second.Tasks[0]]
	one, err := client.Status(ctx, first.Tasks[0])
	if err != nil {
		return err
	}
	state, err := cluster.ClusterState(ctx, client)
	if err != nil {
		return err
	}
	if err := check(one, two, state); err != nil {
		return err
	}
	fmt.Printf("task1 on %s, where it created co_location from inside its container\n", one.Status.Node)
	fmt.Printf("task2 on %s, submitted first; it waited until co_location existed, and that is the only node with it\n", two.Node)
	if err := client.Stop(ctx, one.ID, controlplane.StopOptions{Reason: "its example has seen enough"}); err != nil {
		return err
	}
	_, err = client.Wait(ctx, controlplane.UntilEnded, one.ID)
	return err
}

// task returns a task of this program.
func task(role string, requests types.Requests) controlplane.Submission {
	return controlplane.Submission{
		Task: types.Task{Name: role, Requests: requests},
		Spec: &types.Spec{Image: "escher.local/examples:latest", Command: []string{"/bin/colocation", role}},
	}
}

// check returns the first error of the placement.
func check(one controlplane.TaskState, two types.Status, state *cluster.State) error {
	switch {
	case two.Phase != types.Succeeded:
		return fmt.Errorf("task2 %s: %s", two.Phase, two.Reason)
	case one.Status == nil || one.Status.Node != two.Node:
		return fmt.Errorf("task2 ran on %s, and task1 is %+v", two.Node, one.Status)
	case two.Bound < one.Status.Started:
		return fmt.Errorf("task2 was bound before task1 had started")
	}
	for _, n := range state.Nodes {
		if _, ok := n.Get("co_location"); ok != (n.Name == two.Node) {
			return fmt.Errorf("co_location on %s: %t", n.Name, ok)
		}
	}
	return nil
}
