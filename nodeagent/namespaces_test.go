package nodeagent_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// started keeps how many processes the containers that were started may have.
type started struct {
	*simruntime.Runtime
	pids []int64
}

func (s *started) Start(ctx context.Context, c nodeagent.Container) (nodeagent.Started, error) {
	s.pids = append(s.pids, c.Pids)
	return s.Runtime.Start(ctx, c)
}

// TestPidsOfANamespace: a task has as many processes as its namespace says, as that is seen ten
// seconds later at the latest, and as was known last while the store cannot say.
func TestPidsOfANamespace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, simruntime.Config{})
		rt := &started{Runtime: b.runtime}
		b.cfg.Runtime = rt
		b.start()
		defer b.crash()
		b.bind("first")
		b.pass(time.Second)
		b.put(controlplane.NamespaceKey("d"), &types.Namespace{Pids: 100})
		b.pass(11 * time.Second)
		b.bind("second")
		b.pass(time.Second)
		b.put(controlplane.NamespaceKey("d"), &types.Namespace{Pids: 1 << 22})
		b.pass(11 * time.Second)
		b.bind("third")
		b.pass(time.Second)
		want := []int64{nodeagent.DefaultPids, 100, nodeagent.DefaultMaxPids}
		if len(rt.pids) != len(want) {
			t.Fatalf("they may have %v, want %v", rt.pids, want)
		}
		for i, n := range rt.pids {
			if n != want[i] {
				t.Errorf("start %d: it may have %d processes, want %d", i, n, want[i])
			}
		}
	})
}
