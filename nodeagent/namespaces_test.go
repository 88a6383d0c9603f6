package nodeagent_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/permits"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// started records the process limits of started containers.
type started struct {
	*simruntime.Runtime
	pids []int64
}

func (s *started) Start(ctx context.Context, c nodeagent.Container) (nodeagent.Started, error) {
	s.pids = append(s.pids, c.Pids)
	return s.Runtime.Start(ctx, c)
}

// TestPidsOfANamespace tests that a task has the process limit of its namespace. A change takes
// effect within ten seconds, and the last known limit holds while the store is out of reach.
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
		want := []int64{permits.DefaultPids, 100, permits.DefaultMaxPids}
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
