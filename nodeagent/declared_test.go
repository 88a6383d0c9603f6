package nodeagent_test

import (
	"context"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// TestDeclaredDead tests a machine that comes back after it was declared dead. It also ends kept
// attempts, and is alive only after their bindings are gone, so that none of them resumes.
func TestDeclaredDead(t *testing.T) {
	bubble(t, does(simruntime.Behaviour{Forever: true}), func(t *testing.T, b *bench) {
		kept := b.bind("k", keep)
		b.pass(time.Second)
		b.store.set(true)
		b.pass(time.Minute)
		if b.session() != 0 || len(b.runtime.Running()) != 1 {
			t.Fatalf("session %d, running %v", b.session(), b.runtime.Running())
		}
		b.put(controlplane.CordonKey("n1"), &types.Cordon{Dead: true})
		b.store.set(false)
		b.pass(20 * time.Second)
		if got := b.runtime.Running(); len(got) != 0 {
			t.Errorf("%v run on a machine that was declared dead", got)
		}
		if b.session() != 0 {
			t.Error("it is alive before what was kept is given up")
		}
		b.release("k")
		b.pass(20 * time.Second)
		if b.session() == 0 {
			t.Error("it is not alive again")
		}
		if n := b.runtime.Runs()[kept]; n != 1 {
			t.Errorf("what was kept ran %d times", n)
		}
	})
}

// TestNotDeclaredDead tests a machine that comes back cordoned, like any node: kept attempts stay.
func TestNotDeclaredDead(t *testing.T) {
	bubble(t, does(simruntime.Behaviour{Forever: true}), func(t *testing.T, b *bench) {
		b.bind("k", keep)
		b.pass(time.Second)
		b.store.set(true)
		b.pass(time.Minute)
		b.put(controlplane.CordonKey("n1"), &types.Cordon{})
		b.store.set(false)
		b.pass(5 * time.Second)
		if b.session() == 0 || len(b.runtime.Running()) != 1 {
			t.Errorf("session %d, running %v", b.session(), b.runtime.Running())
		}
	})
}

// granting is a store that calls do just before it grants a lease.
type granting struct {
	controlplane.Store
	do func()
}

func (g *granting) GrantLease(ctx context.Context, ttl time.Duration) (controlplane.LeaseID, error) {
	if do := g.do; do != nil {
		g.do = nil
		do()
	}
	return g.Store.GrantLease(ctx, ttl)
}

// TestDeclaredDeadMeanwhile declares the machine dead after its check, and before it is alive.
func TestDeclaredDeadMeanwhile(t *testing.T) {
	bubble(t, does(simruntime.Behaviour{Forever: true}), func(t *testing.T, b *bench) {
		b.bind("k", keep)
		b.pass(time.Second)
		b.store.set(true)
		b.pass(time.Minute)
		b.crash()
		b.store.set(false)
		declared := false
		b.cfg.Store = &granting{b.store, func() {
			declared = true
			b.put(controlplane.CordonKey("n1"), &types.Cordon{Dead: true})
		}}
		b.start()
		b.pass(20 * time.Second)
		if !declared || b.session() != 0 || len(b.runtime.Running()) != 0 {
			t.Errorf("declared %t, session %d, running %v", declared, b.session(), b.runtime.Running())
		}
		b.release("k")
		b.pass(20 * time.Second)
	})
}
