package nodeagent_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// TestTokenIsOfTheSession crashes an agent within its session, and lets it outlive one.
func TestTokenIsOfTheSession(t *testing.T) {
	bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
		stored := func() string {
			var alive types.Alive
			var token types.Token
			err := errors.Join(types.Decode(b.get(controlplane.AliveKey("n1")).Value, &alive), types.Decode(b.get(controlplane.TokenKey("n1")).Value, &token))
			if err != nil || alive.Token != "" {
				t.Fatalf("%q, %v", alive.Token, err)
			}
			return token.Token
		}
		first := stored()
		if len(first) < 20 || b.agent.Token() != first {
			t.Errorf("the store has %q, the agent %q", first, b.agent.Token())
		}
		b.crash()
		b.start()
		if stored() != first || b.agent.Token() != first {
			t.Errorf("within its session, the store has %q, the agent %q", stored(), b.agent.Token())
		}
		// A session of an older version has no token key, and an unreadable token counts as none.
		b.crash()
		b.delete(controlplane.TokenKey("n1"))
		b.start()
		second := stored()
		if second == first || len(second) < 20 || b.agent.Token() != second {
			t.Errorf("after it was gone, the store has %q, the agent %q", second, b.agent.Token())
		}
		b.crash()
		b.pass(2 * ttl)
		b.start()
		if stored() == second || b.agent.Token() != stored() {
			t.Errorf("in a new session, the store has %q, the agent %q", stored(), b.agent.Token())
		}
	})
}

func TestSaysWhatIsBound(t *testing.T) {
	bubble(t, does(simruntime.Behaviour{Run: time.Minute}), func(t *testing.T, b *bench) {
		if err := b.agent.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
		if is, err := b.agent.Bound("d", "a", 1); is || err != nil {
			t.Errorf("before: %v, %v", is, err)
		}
		if _, err := b.agent.ContainerOf("d", "a", 1); !types.Is(err, types.Precondition) {
			t.Errorf("before: %v", err)
		}
		id := b.bind("a")
		synctest.Wait()
		got, err := b.agent.ContainerOf("d", "a", 1)
		if is, err2 := b.agent.Bound("d", "a", 1); !is || err2 != nil || got != id || err != nil || b.agent.Workloads()[id].Attempt.Task != "a" {
			t.Errorf("running: %v, %q, %v, %v", is, got, err, err2)
		}
		for _, other := range []struct {
			ns, task string
			attempt  int
		}{{"e", "a", 1}, {"d", "b", 1}, {"d", "a", 2}} {
			if _, err := b.agent.ContainerOf(other.ns, other.task, other.attempt); !types.Is(err, types.Precondition) {
				t.Errorf("%+v: %v", other, err)
			}
		}
		b.pass(time.Minute)
		if _, err := b.agent.ContainerOf("d", "a", 1); !types.Is(err, types.Precondition) {
			t.Errorf("ended: %v", err)
		}
		if is, err := b.agent.Bound("d", "a", 1); !is || err != nil {
			t.Errorf("ended, and not released: %v, %v", is, err)
		}
		b.release("a")
		synctest.Wait()
		if is, err := b.agent.Bound("d", "a", 1); is || err != nil {
			t.Errorf("released: %v, %v", is, err)
		}
	})
}
