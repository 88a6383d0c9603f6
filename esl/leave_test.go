package esl_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// manyOf has a shared policy make more than a stock etcd takes in one transaction: of pools,
// of what is on nodes of their own, and a reservation.
func manyOf(_ string, s *esl.State) esl.Plan {
	var plan esl.Plan
	for i := range 140 {
		if name := s.Own(fmt.Sprintf("u%d", i)); s.Pool(name) == nil {
			plan.Set = append(plan.Set, esl.Set{Name: name, Capacity: esl.One, Where: controlplane.InCluster()})
		}
	}
	name := s.Own("at")
	for _, n := range s.View.Nodes {
		if n.Own[types.Resolve(s.Namespace, name)] == nil {
			plan.Set = append(plan.Set, esl.Set{Name: name, Capacity: esl.One, Where: controlplane.OnNode(n.Name)})
		}
	}
	if plan.Nothing() && s.Reservation(s.Own("room")) == nil {
		bundle := types.Bundle{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}
		plan.Reserve = []esl.Reservation{{ID: s.Own("room"), Reservation: types.Reservation{Bundles: []types.Bundle{bundle}}}}
	}
	return plan
}

// left is a cluster on a store of the limits of a stock etcd, and somebody who dies at one
// of his transactions.
type left struct {
	gangs
	store  *trouble
	mortal *esl.Client
}

func startLeft(t *testing.T) left {
	t.Helper()
	asked, mem := newRecord(manyOf), memstore.New(memstore.WithLimits(etcdstore.StockLimits()))
	l := left{gangs: startGangs(t, hollow.Config{Nodes: hollow.Nodes(4, 40), Store: mem, Kinds: asked.kinds()}), store: newTrouble(mem)}
	c, err := controlplane.New(l.store, "d")
	if err != nil {
		t.Fatal(err)
	}
	l.mortal = esl.New(c)
	l.mortal.Kinds = asked.kinds()
	return l
}

// dies does something that takes several transactions, and is killed right before the
// one after so many, or after that was done and before it was answered. It returns whether
// it came to its end before.
func (l left) dies(after int, answered bool, do func(context.Context, *esl.Client) error) (whole bool) {
	ctx, kill := context.WithCancel(l.t.Context())
	defer kill()
	n := 0
	l.store.set(func(controlplane.Txn) (bool, bool) {
		n++
		switch last := n == after+1 && answered; {
		case n <= after || last:
			return true, last
		default:
			kill() // nor does it anything else
			return false, false
		}
	})
	err := do(ctx, l.mortal)
	if err == nil && n > after && !answered {
		l.t.Errorf("it was killed after %d transactions, and says nothing", after)
	}
	return err == nil
}

// someone are the tasks of a job with a gang of more than goes into one transaction.
func someone(ctx context.Context, jobs *esl.Client) error {
	_, err := jobs.Submit(ctx, esl.Job{Name: "train", Tasks: esl.Copies(130, hollow.Task(1000))}, esl.Gang{PerNode: 40})
	return err
}

// each does something to all tasks, one after the other, as a command that stops all does.
func each(do func(context.Context, *esl.Client, string) error) func(context.Context, *esl.Client) error {
	return func(ctx context.Context, jobs *esl.Client) error {
		tasks, _, err := jobs.Tasks(ctx)
		if err != nil {
			return err
		}
		for i := range tasks[:min(len(tasks), 3)] {
			if err := do(ctx, jobs, tasks[i].ID); err != nil {
				return err
			}
		}
		return nil
	}
}

// TestNothingIsLeftOfWhoDies kills whoever submits, declares, withdraws, moves, stops or
// removes, between any two of his transactions. When the tasks that there are have been
// stopped, and the collector has looked, nothing is left, and nobody ever saw a part.
func TestNothingIsLeftOfWhoDies(t *testing.T) {
	moving := func(ctx context.Context, jobs *esl.Client) error {
		_, err := jobs.Submit(ctx, esl.Job{ID: "m", Tasks: esl.Copies(3, hollow.Task(1000))}, esl.Migrate{})
		return err
	}
	declare := func(ctx context.Context, jobs *esl.Client) error {
		return jobs.Declare(ctx, "teams", &shared{counter{Name: "one"}}, "")
	}
	for name, c := range map[string]struct {
		before, do func(context.Context, *esl.Client) error
	}{
		"submit":   {nil, someone},
		"declare":  {nil, declare},
		"withdraw": {declare, func(ctx context.Context, jobs *esl.Client) error { return jobs.Withdraw(ctx, "teams", false) }},
		"move": {moving, func(ctx context.Context, jobs *esl.Client) error {
			return jobs.Move(ctx, "m", "n03")
		}},
		"stop all": {someone, each(func(ctx context.Context, jobs *esl.Client, id string) error {
			return jobs.Stop(ctx, id, controlplane.StopOptions{})
		})},
	} {
		t.Run(name, func(t *testing.T) {
			for at := 0; ; at++ {
				whole := false
				synctest.Test(t, func(t *testing.T) {
					l := startLeft(t)
					if c.before != nil {
						if err := c.before(t.Context(), l.Client); err != nil {
							t.Fatal(err)
						}
						pass(20 * time.Second)
					}
					whole = l.dies(at/2, at%2 == 1, c.do)
					l.comesToRest(name == "withdraw" && at > 0)
				})
				if whole || t.Failed() {
					break
				}
			}
		})
	}
}

// comesToRest stops what there is, withdraws what is declared, unless that was done, and
// checks that nothing is left.
func (l left) comesToRest(withdrawn bool) {
	l.t.Helper()
	ctx := l.t.Context()
	pass(11 * time.Minute) // the collector waits for a job that long
	if _, _, err := l.Policies(ctx, "teams"); (err == nil) && withdrawn {
		l.t.Error("the policy is still there")
	} else if err == nil {
		if err := l.Withdraw(ctx, "teams", false); err != nil {
			l.t.Fatal(err)
		}
	}
	tasks, _, err := l.Tasks(ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	for i := range tasks {
		if err := l.Stop(ctx, tasks[i].ID, controlplane.StopOptions{}); err != nil {
			l.t.Fatal(err)
		}
	}
	pass(time.Minute)
	nothingLeft(l.t, l.Cluster)
	kvs, _, err := controlplane.ListAll(ctx, l.Cluster.Store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Tasks, "d"), KeysOnly: true})
	if err != nil || len(kvs) != len(tasks) {
		l.t.Errorf("%d tasks were seen, and there are %d: %v", len(tasks), len(kvs), err)
	}
}

// TestWithdrawLarge: more than goes into one transaction of a stock etcd ends with the
// policy all the same; of one that is declared again at once nothing is lost that it wants.
func TestWithdrawLarge(t *testing.T) {
	for name, again := range map[string]bool{"alone": false, "declared again": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := startLeft(t)
				made := func() int {
					v := l.view()
					n := len(v.Pools)
					for _, node := range v.Nodes {
						n += len(node.Own)
					}
					return n + len(v.Reservations)
				}
				for i := range 2 {
					if err := l.Declare(t.Context(), "teams", &shared{counter{Name: "one"}}, ""); err != nil {
						t.Fatal(err)
					}
					pass(20 * time.Second)
					if n := made(); n != 1+140+4+1 {
						t.Fatalf("it has made %d", n)
					}
					if i == 1 || !again {
						break
					}
					if err := l.Withdraw(t.Context(), "teams", false); err != nil {
						t.Fatal(err)
					}
				}
				if err := l.Withdraw(t.Context(), "teams", false); err != nil {
					t.Fatal(err)
				}
				if _, _, err := l.Policies(t.Context(), "teams"); !types.Is(err, types.NotFound) {
					t.Errorf("the policy: %v", err)
				}
				nothingLeft(t, l.Cluster)
			})
		})
	}
}
