package esltest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/types"
)

// manyOf makes a shared policy create more than one transaction of a stock etcd allows: pools,
// resources on single nodes, and a reservation.
func manyOf(_ string, s *esl.State) esl.Plan {
	var plan esl.Plan
	for i := range 140 {
		if name := s.Own(fmt.Sprintf("u%d", i)); s.Pool(name) == nil {
			plan.Set = append(plan.Set, controlplane.Resource{Name: name, Capacity: esl.One, Where: controlplane.InCluster()})
		}
	}
	name := s.Own("at")
	for _, n := range s.View.Nodes {
		if n.Own[types.Resolve(s.Namespace, name)] == nil {
			plan.Set = append(plan.Set, controlplane.Resource{Name: name, Capacity: esl.One, Where: controlplane.OnNode(n.Name)})
		}
	}
	if plan.Nothing() && s.Reservation(s.Own("room")) == nil {
		bundle := types.Bundle{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}
		plan.Reserve = []controlplane.Reservation{{ID: s.Own("room"), Reservation: types.Reservation{Bundles: []types.Bundle{bundle}}}}
	}
	return plan
}

// Left is a cluster on a store with the limits of a stock etcd, and a client that is killed at one
// of its transactions.
type Left struct {
	Gangs
	store  *Trouble
	mortal *esl.Client
}

func StartLeft(t *testing.T) Left {
	t.Helper()
	asked, mem := NewRecord(manyOf), memstore.New(memstore.WithLimits(etcdstore.StockLimits()))
	l := Left{Gangs: StartGangs(t, hollow.Config{Nodes: hollow.Nodes(4, 40), Store: mem, Kinds: asked.Kinds()}), store: NewTrouble(mem)}
	c, err := controlplane.New(l.store, "d")
	if err != nil {
		t.Fatal(err)
	}
	l.mortal = builtin.New(c)
	l.mortal.Kinds = asked.Kinds()
	return l
}

// Dies calls do, which takes several transactions, and kills its client right before the
// transaction after the given number, or after that committed and before its answer. It returns
// whether do completed first.
func (l Left) Dies(after int, answered bool, do func(context.Context, *esl.Client) error) (whole bool) {
	ctx, kill := context.WithCancel(l.T.Context())
	defer kill()
	n := 0
	l.store.Set(func(controlplane.Txn) (bool, bool) {
		n++
		switch last := n == after+1 && answered; {
		case n <= after || last:
			return true, last
		default:
			kill() // it does nothing else either
			return false, false
		}
	})
	err := do(ctx, l.mortal)
	if err == nil && n > after && !answered {
		l.T.Errorf("it was killed after %d transactions, and says nothing", after)
	}
	return err == nil
}

// ComesToRest stops everything, withdraws the declaration unless withdrawn, and checks that nothing
// is left.
func (l Left) ComesToRest(withdrawn bool) {
	l.T.Helper()
	ctx := l.T.Context()
	Pass(11 * time.Minute) // the collector waits for a job that long
	if _, _, err := l.Policies(ctx, "teams"); (err == nil) && withdrawn {
		l.T.Error("the policy is still there")
	} else if err == nil {
		if err := l.Withdraw(ctx, "teams", false); err != nil {
			l.T.Fatal(err)
		}
	}
	tasks, _, err := l.Tasks(ctx)
	if err != nil {
		l.T.Fatal(err)
	}
	for i := range tasks {
		if err := l.Stop(ctx, tasks[i].ID, controlplane.StopOptions{}); err != nil {
			l.T.Fatal(err)
		}
	}
	Pass(time.Minute)
	NothingLeft(l.T, l.Cluster)
	kvs, _, err := controlplane.ListAll(ctx, l.Cluster.Store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Tasks, "d"), KeysOnly: true})
	if err != nil || len(kvs) != len(tasks) {
		l.T.Errorf("%d tasks were seen, and there are %d: %v", len(tasks), len(kvs), err)
	}
}
