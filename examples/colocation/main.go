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

	"github.com/escher-sched/escher/api/escher"
	"github.com/escher-sched/escher/types"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "colocation:", err)
		os.Exit(1)
	}
}

// run does the part of one task or, without one, submits both. The client is the same for all.
func run(ctx context.Context, args []string) error {
	client, err := escher.Connect(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }()
	switch {
	case len(args) == 0:
		return submit(ctx, client)
	case args[0] == "task1":
		return task1(ctx, client)
	default:
		fmt.Println("task2 has run") // in a container on the node of task1
		return nil
	}
}

// task1 runs in a container, and creates the resource on its node.
func task1(ctx context.Context, client *escher.Client) error {
	if err := client.SetResource(ctx, "co_location", "1", escher.OnThisNode(), escher.EndsWithTask()); err != nil {
		return err
	}
	<-ctx.Done() // task2 may need it until it is stopped
	return nil
}

// submit runs outside: it submits both, and checks where they ran.
func submit(ctx context.Context, client *escher.Client) error {
	second, err := client.Run(ctx, task("task2", escher.MustRequests(map[string]string{"co_location": "1"})))
	if err != nil {
		return err
	}
	first, err := client.Run(ctx, task("task1", nil))
	if err != nil {
		return err
	}

	statuses, err := client.Wait(ctx, escher.UntilEnded, second)
	if err != nil {
		return err
	}
	two := statuses[second]
	one, err := client.Status(ctx, first)
	if err != nil {
		return err
	}
	state, err := client.State(ctx)
	if err != nil {
		return err
	}
	if err := check(one, two, state); err != nil {
		return err
	}
	fmt.Printf("task1 on %s, where it created co_location from inside its container\n", one.Node)
	fmt.Printf("task2 on %s, submitted first; it waited until co_location existed, and that is the only node with it\n", two.Node)
	if err := client.Stop(ctx, one.ID, escher.Because("its example has seen enough")); err != nil {
		return err
	}
	_, err = client.Wait(ctx, escher.UntilEnded, one.ID)
	return err
}

// task returns a task of this program.
func task(role string, requests escher.Requests) escher.Task {
	return escher.Task{
		Name: role, Requests: requests,
		Spec: escher.Spec{Image: "escher.local/examples:latest", Command: []string{"/bin/colocation", role}},
	}
}

// check returns the first error of the placement.
func check(one, two escher.Status, state *escher.State) error {
	switch {
	case two.Phase != types.Succeeded:
		return fmt.Errorf("task2 %s: %s", two.Phase, two.Reason)
	case one.Started == nil || one.Node != two.Node:
		return fmt.Errorf("task2 ran on %s, and task1 is %+v", two.Node, one)
	case two.Bound.Before(*one.Started):
		return fmt.Errorf("task2 was bound before task1 had started")
	}
	for _, n := range state.Nodes {
		if _, ok := n.Get("co_location"); ok != (n.Name == two.Node) {
			return fmt.Errorf("co_location on %s: %t", n.Name, ok)
		}
	}
	return nil
}
