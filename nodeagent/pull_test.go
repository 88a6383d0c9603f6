package nodeagent_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// slow is a runtime that pulls one image for a long time.
type slow struct {
	*simruntime.Runtime
	mu    sync.Mutex
	pulls []nodeagent.Pulling
}

func (r *slow) Start(ctx context.Context, c nodeagent.Container) (nodeagent.Started, error) {
	if c.Image == "img" {
		return r.Runtime.Start(ctx, c)
	}
	r.set(nodeagent.Pulling{Name: "docker.io/library/huge:latest", Since: time.Now(), Total: 5 << 30})
	select {
	case <-time.After(time.Minute):
	case <-ctx.Done():
		return nodeagent.Started{}, types.Errorf(types.Unavailable, "given up")
	}
	r.set()
	time.Sleep(time.Second) // It becomes ready to run.
	return r.Runtime.Start(ctx, c)
}

func (r *slow) set(pulls ...nodeagent.Pulling) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.pulls = pulls
}

func (r *slow) Pulling() []nodeagent.Pulling {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pulls
}

// TestSlowPull tests that a long pull is reported, and delays no other start.
func TestSlowPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, simruntime.Config{})
		b.cfg.Runtime, b.cfg.Starts = &slow{Runtime: b.runtime}, 2
		b.start()
		defer b.crash()
		huge := b.runs(func(s *types.Spec) { s.Image = "huge" })
		for i := range 5 {
			b.bind(fmt.Sprintf("huge%d", i), huge)
		}
		b.pass(2 * time.Second)
		b.bind("a")
		synctest.Wait()
		b.alive(1)
		b.stop("huge1", types.Stop{Reason: "enough"})
		b.pass(time.Second)
		if r := b.expect("huge1", types.ReportExited); !r.Stopped {
			t.Errorf("%+v", r)
		}
		if want := "bound starting pulling failed"; b.steps("huge1") != want {
			t.Errorf("%s, want %s: to be given up is no trouble", b.steps("huge1"), want)
		}
		b.pass(2 * time.Minute)
		b.alive(5)
		if want := "bound starting pulling pulled started"; b.steps("huge0") != want {
			t.Errorf("%s, want %s", b.steps("huge0"), want)
		}
	})
}
