package parts

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/cmd/escher/internal/ops"
	"github.com/escher-sched/escher/cmd/escher/internal/policylog"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/types"
)

// mortal is the store of a server that is killed, or paused, right before one of its transactions.
type mortal struct {
	controlplane.Store
	// left is how many transactions of policies go before that; it never reaches 0 for a server
	// that lives on.
	left atomic.Int64
	dead atomic.Bool
	// still is how long the server is paused, instead of being killed. Then it sends what it was
	// about to send.
	still time.Duration
	// loose is how many transactions of policies did not depend on the role.
	loose atomic.Int64
}

func (m *mortal) away() error {
	if m.dead.Load() {
		return types.Errorf(types.Unavailable, "the server is gone")
	}
	return nil
}

func (m *mortal) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	if !ofPolicies(txn) {
		return m.commit(ctx, txn)
	}
	if !slices.ContainsFunc(txn.Compares, func(x controlplane.Compare) bool { return x.Key == controlplane.LeaderKey(policylog.Role) }) {
		m.loose.Add(1)
	}
	if m.left.Add(-1) == 0 {
		m.dead.Store(true)
		if m.still > 0 {
			time.Sleep(m.still)
			m.dead.Store(false)
		}
	}
	return m.commit(ctx, txn)
}

func (m *mortal) commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	if err := m.away(); err != nil {
		return controlplane.Result{}, err
	}
	return m.Store.Commit(ctx, txn)
}

// ofPolicies reports whether a transaction is not about the role itself.
func ofPolicies(txn controlplane.Txn) bool {
	for _, op := range txn.Ops {
		if k, ok := controlplane.Parse(op.Key); ok && k.Kind == controlplane.Leaders {
			return false
		}
	}
	return true
}

func (m *mortal) GrantLease(ctx context.Context, ttl time.Duration) (controlplane.LeaseID, error) {
	if err := m.away(); err != nil {
		return 0, err
	}
	return m.Store.GrantLease(ctx, ttl)
}

func (m *mortal) RenewLease(ctx context.Context, id controlplane.LeaseID) (time.Duration, error) {
	if err := m.away(); err != nil {
		return 0, err
	}
	return m.Store.RenewLease(ctx, id)
}

func (m *mortal) RevokeLease(ctx context.Context, id controlplane.LeaseID) error {
	if err := m.away(); err != nil {
		return err
	}
	return m.Store.RevokeLease(ctx, id)
}

// TestPoliciesOutliveAKill kills the leading server at each of its transactions, as by kill -9: it
// releases nothing. The other one gets the role when the lease has expired, and goes on. If the
// server was only paused for longer than that, its next write changes nothing.
func TestPoliciesOutliveAKill(t *testing.T) {
	for _, still := range []time.Duration{0, time.Minute} {
		for at := range 5 {
			t.Run(fmt.Sprintf("at %d for %s", at+1, still), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { outlives(t, at+1, still) })
			})
		}
	}
}

func outlives(t *testing.T, at int, still time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	store := memstore.New()
	c, err := hollow.Start(ctx, hollow.Config{Nodes: hollow.Nodes(2, 4), Store: store, NoKeep: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	jobs, err := c.Client("d")
	if err != nil {
		t.Fatal(err)
	}
	first, second, health := &mortal{Store: store, still: still}, &mortal{Store: store}, new(ops.Health)
	first.left.Store(int64(at))
	for i, m := range []*mortal{first, second} {
		stack := NewStack(ctx, zap.NewNop(), new(ops.Health))
		Server{Name: fmt.Sprint("server-", i), Log: zap.NewNop(), Health: health}.keep(stack, m, nil)
		defer func() { _ = stack.Unwind() }()
		time.Sleep(time.Second)
	}
	called := func(name string, command ...string) controlplane.Submission {
		s := hollow.Task(500, command...)
		s.Task.Name = name
		return s
	}
	graph, err := jobs.Submit(ctx, controlplane.Job{Name: "graph", Tasks: []controlplane.Submission{
		called("a", "run", "1s"), called("b", "run", "1s"), called("c", "run", "1s"), called("d", "run", "1s"), called("e", "run", "1s"),
	}}, admission.After{Tasks: map[string][]string{"b": {"a"}, "c": {"b"}, "d": {"c"}, "e": {"d"}}})
	if err != nil {
		t.Fatal(err)
	}
	gang, err := jobs.Submit(ctx, controlplane.Job{Name: "gang", Tasks: []controlplane.Submission{called("x", "run", "2500ms", "exit", "1"), called("y")}}, gang.Gang{})
	if err != nil {
		t.Fatal(err)
	}
	for want, ids := range map[types.Phase][]string{types.Succeeded: graph.Tasks, types.Cancelled: gang.Tasks[1:]} {
		ended, err := jobs.Wait(ctx, controlplane.UntilEnded, ids...)
		if err != nil {
			t.Fatal(err)
		}
		for id, s := range ended {
			if s.Phase != want {
				t.Errorf("%s has %s: %s", id, s.Phase, s.Reason)
			}
		}
	}
	if first.left.Load() > 0 {
		t.Error("the first server was not killed")
	}
	if n := first.loose.Load() + second.loose.Load(); n > 0 {
		t.Errorf("%d transactions did not depend on the role", n)
	}
	time.Sleep(2 * time.Minute)
	if err := c.Audit(ctx); err != nil {
		t.Error(err)
	}
	if left, err := c.Left(ctx, "d"); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}
