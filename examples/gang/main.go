// Command gang starts three tasks at once or not at all: gang scheduling, by locking.
//
// A reservation asks for most of the cpu of three nodes while something else holds
// the room on one of them. Nothing is held for it until all fits; then all is
// granted in one transaction, and its tasks, which ask for cpu@train, run.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/types"
)

// members is how many tasks the gang has, each of which fills most of a node.
const members = 3

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) > 1 && os.Args[1] == "probe" {
		return // a task that only has to find room
	} else if len(os.Args) > 1 {
		<-ctx.Done() // a task: it works until it is stopped
		return
	}
	if err := submit(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "gang:", err)
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
	cpu, _ := state.Nodes[0].Get("cpu")
	share := func(percent types.Quantity) types.Quantity { return cpu.Capacity * percent / 100 }

	// Somebody holds half of a node.
	holder, err := client.Launch(ctx, task("holder", "cpu", share(50)))
	if err != nil {
		return err
	}
	if _, err := client.Wait(ctx, controlplane.UntilRunning, holder.Tasks...); err != nil {
		return err
	}

	// The gang needs 80 % of each node: reservation and tasks in one transaction.
	grants := watchGrants(ctx, store)
	defer grants.stop()
	r := types.Reservation{Bundles: make([]types.Bundle, members)}
	gang := make([]controlplane.Submission, members)
	for i := range gang {
		r.Bundles[i].Requests = types.NewRequests(map[string]types.Quantity{"cpu": share(80)})
		gang[i] = task("member", "cpu@train", share(80))
	}
	submission := client.Begin().Reserve("train", r)
	ids := submission.Launch(gang...)
	if _, err := submission.Commit(ctx); err != nil {
		return err
	}

	// Two nodes have room for it, and none of that is held back: a task that needs
	// nearly all of one still runs.
	probe, err := client.Launch(ctx, task("probe", "cpu", share(95)))
	if err != nil {
		return err
	}
	statuses, err := client.Wait(ctx, controlplane.UntilEnded, probe.Tasks...)
	if err != nil {
		return err
	}
	if p := statuses[probe.Tasks[0]]; p.Phase != types.Succeeded {
		return fmt.Errorf("the probe %s: %s", p.Phase, p.Reason)
	}
	if seen := grants.seen(); len(seen) > 0 {
		return fmt.Errorf("the gang was granted %+v while there was no room for all of it", seen[0])
	}
	fmt.Printf("the gang waits: %d nodes of %d have room, and nothing is held there\n", members-1, members)

	// The holder goes, and with it the last obstacle.
	if err := client.Stop(ctx, holder.Tasks[0], controlplane.StopOptions{}); err != nil {
		return err
	}
	statuses, err = client.Wait(ctx, controlplane.UntilRunning, ids...)
	if err != nil {
		return err
	}
	if err := check(ids, statuses, grants.seen()); err != nil {
		return err
	}
	return cleanUp(ctx, client, ids)
}

// task makes a task that asks for an amount of a resource.
func task(name, resource string, amount types.Quantity) controlplane.Submission {
	return controlplane.Submission{
		Task: types.Task{Name: name, Requests: types.NewRequests(map[string]types.Quantity{resource: amount})},
		Spec: &types.Spec{Image: "escher.local/examples:latest", Command: []string{"/bin/gang", name}},
	}
}

// check says what is wrong with the gang.
func check(ids []string, statuses map[string]types.Status, grants []types.Grant) error {
	if len(grants) == 0 || grants[0].Phase != types.Granted || len(grants[0].Nodes) != members {
		return fmt.Errorf("it was not granted as a whole: %+v", grants)
	}
	fmt.Printf("the holder has gone: all %d bundles were granted at one revision\n", members)
	taken := make(map[string]bool)
	for _, id := range ids {
		s := statuses[id]
		if s.Phase != types.Running || taken[s.Node] {
			return fmt.Errorf("member %s is %s on %s (%s); nodes taken: %v", id, s.Phase, s.Node, s.Reason, taken)
		}
		taken[s.Node] = true
		fmt.Printf("member %s on %s, drawing on the reservation\n", id, s.Node)
	}
	return nil
}

func cleanUp(ctx context.Context, client *controlplane.Client, ids []string) error {
	for _, id := range ids {
		if err := client.Stop(ctx, id, controlplane.StopOptions{}); err != nil {
			return err
		}
	}
	if _, err := client.Wait(ctx, controlplane.UntilEnded, ids...); err != nil {
		return err
	}
	return client.Unreserve(ctx, "train")
}

// grantWatch notes every state of every grant, revision by revision.
type grantWatch struct {
	cancel context.CancelFunc
	ended  chan error
	mu     sync.Mutex
	grants []types.Grant
}

// watchGrants watches from now on.
func watchGrants(ctx context.Context, store controlplane.Store) *grantWatch {
	ctx, cancel := context.WithCancel(ctx)
	w := &grantWatch{cancel: cancel, ended: make(chan error, 1)}
	go func() {
		prefix := controlplane.Prefix(controlplane.Grants, "default")
		w.ended <- controlplane.ListWatch(ctx, store, controlplane.ListWatchOptions{Prefix: prefix}, w.note)
	}()
	return w
}

func (w *grantWatch) note(u controlplane.Update) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range u.Events {
		var g types.Grant
		if e.Delete {
			continue
		}
		if err := types.Decode(e.Value, &g); err != nil {
			return err
		}
		w.grants = append(w.grants, g)
	}
	return nil
}

func (w *grantWatch) seen() []types.Grant {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]types.Grant(nil), w.grants...)
}

func (w *grantWatch) stop() {
	w.cancel()
	if err := <-w.ended; !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "gang: watch:", err)
	}
}
