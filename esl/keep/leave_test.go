package keep_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/types"
)

// someone submits a job with a gang too large for one transaction.
func someone(ctx context.Context, jobs *esl.Client) error {
	_, err := jobs.Submit(ctx, controlplane.Job{Name: "train", Tasks: esl.Copies(130, hollow.Task(1000))}, gang.Gang{PerNode: 40})
	return err
}

// each does something to all tasks, one after the other, like a command that stops all.
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

// TestNothingIsLeftOfWhoDies kills a program that submits, declares, withdraws, moves, stops or
// removes, between any two of its transactions. After the existing tasks have been stopped, and the
// garbage collector has run, nothing is left, and no part was ever visible.
func TestNothingIsLeftOfWhoDies(t *testing.T) {
	moving := func(ctx context.Context, jobs *esl.Client) error {
		_, err := jobs.Submit(ctx, controlplane.Job{ID: "m", Tasks: esl.Copies(3, hollow.Task(1000))}, room.Migrate{})
		return err
	}
	declare := func(ctx context.Context, jobs *esl.Client) error {
		return jobs.Declare(ctx, "teams", &esltest.Shared{Counter: esltest.Counter{Name: "one"}}, "")
	}
	for name, c := range map[string]struct {
		before, do func(context.Context, *esl.Client) error
	}{
		"submit":   {nil, someone},
		"declare":  {nil, declare},
		"withdraw": {declare, func(ctx context.Context, jobs *esl.Client) error { return jobs.Withdraw(ctx, "teams", false) }},
		"move": {moving, func(ctx context.Context, jobs *esl.Client) error {
			return room.Move(ctx, jobs, "m", "n03")
		}},
		"stop all": {someone, each(func(ctx context.Context, jobs *esl.Client, id string) error {
			return jobs.Stop(ctx, id, controlplane.StopOptions{})
		})},
	} {
		t.Run(name, func(t *testing.T) {
			for at := 0; ; at++ {
				whole := false
				synctest.Test(t, func(t *testing.T) {
					l := esltest.StartLeft(t)
					if c.before != nil {
						if err := c.before(t.Context(), l.Client); err != nil {
							t.Fatal(err)
						}
						esltest.Pass(20 * time.Second)
					}
					whole = l.Dies(at/2, at%2 == 1, c.do)
					l.ComesToRest(name == "withdraw" && at > 0)
				})
				if whole || t.Failed() {
					break
				}
			}
		})
	}
}

// TestWithdrawLarge ends a policy with more objects than a transaction of a stock etcd takes. A
// policy that is declared again at once loses none of the objects that it wants.
func TestWithdrawLarge(t *testing.T) {
	for name, again := range map[string]bool{"alone": false, "declared again": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := esltest.StartLeft(t)
				made := func() int {
					v := l.Snapshot()
					n := len(v.Pools)
					for _, node := range v.Nodes {
						n += len(node.Own)
					}
					return n + len(v.Reservations)
				}
				for i := range 2 {
					if err := l.Declare(t.Context(), "teams", &esltest.Shared{Counter: esltest.Counter{Name: "one"}}, ""); err != nil {
						t.Fatal(err)
					}
					esltest.Pass(20 * time.Second)
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
				esltest.NothingLeft(t, l.Cluster)
			})
		})
	}
}
