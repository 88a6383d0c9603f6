package parts

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/cmd/escher/internal/ops"
	"github.com/escher-sched/escher/cmd/escher/internal/policylog"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/types"
)

// TestPoliciesOutliveTheirKeeper ends the server that runs policies at some moment of each job: the
// other one goes on. So a gang with a failed member ends whole, and one server at a time has the
// role.
func TestPoliciesOutliveTheirKeeper(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	store := etcdstore.New(etcdtest.Start(t).Client, etcdstore.ServerLimits())
	c, err := hollow.Start(ctx, hollow.Config{Nodes: hollow.Nodes(2, 4), Store: store, NoKeep: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	jobs, err := c.Client("d")
	if err != nil {
		t.Fatal(err)
	}
	var health ops.Health
	servers := make(map[string]*Stack)
	serve := func(name string) {
		servers[name] = NewStack(ctx, zap.NewNop(), new(ops.Health))
		Server{Name: name, Log: zap.NewNop(), Health: &health}.keep(servers[name], store, nil)
	}
	serve("a")
	serve("b")
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 3 {
		led := leader(t, ctx, c, "")
		done, err := jobs.Submit(ctx, controlplane.Job{ID: fmt.Sprintf("gang-%d", round), Tasks: []controlplane.Submission{
			hollow.Task(1000, "run", "30ms", "exit", "1"), hollow.Task(1000),
		}}, gang.Gang{})
		if err != nil {
			t.Fatal(err)
		}
		select {
		case <-time.After(time.Duration(r.IntN(80)) * time.Millisecond):
		case <-ctx.Done():
		}
		if err := servers[led].Unwind(); err != nil {
			t.Error(err)
		}
		leader(t, ctx, c, led)
		ended, err := jobs.Wait(ctx, controlplane.UntilEnded, done.Tasks...)
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if s := ended[done.Tasks[1]]; s.Phase == types.Succeeded {
			t.Errorf("round %d: the rest of a gang that failed has %s", round, s.Phase)
		}
		serve(led)
	}
	for _, s := range servers {
		if err := s.Unwind(); err != nil {
			t.Error(err)
		}
	}
	if err := c.Audit(ctx); err != nil {
		t.Error(err)
	}
	if err := health.Live(); err != nil {
		t.Error(err)
	}
}

// leader waits until a server other than not runs policies, and returns its name.
func leader(t *testing.T, ctx context.Context, c *hollow.Cluster, not string) (name string) {
	t.Helper()
	_, err := c.Await(ctx, func(v *cluster.View) bool {
		l := v.Leaders[policylog.Role]
		if l == nil || l.V == nil {
			return false
		}
		name = l.V.Holder
		return name != not
	})
	if err != nil {
		t.Fatal(err)
	}
	return name
}
