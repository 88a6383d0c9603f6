package bench

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/bench/workload"
	"github.com/escher-sched/escher/types"
)

// TestReplayAwaitsBindings: a replay of endless tasks lasts until they are bound.
func TestReplayAwaitsBindings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plan := &workload.Plan{Jobs: []workload.Job{{N: 2}}, Tasks: []workload.Task{{Runs: -1}, {Runs: -1}}}
		r := newReplay(Config{Speed: 1}, plan, &controlplane.Client{})
		go func() {
			for i := range plan.Tasks {
				time.Sleep(3 * time.Second)
				r.mu.Lock()
				r.note(i, &types.Status{Phase: types.Bound, Bound: time.Now().UnixNano()})
				r.mu.Unlock()
				r.news <- struct{}{}
			}
		}()
		began := time.Now()
		if err := r.await(t.Context()); err != nil || time.Since(began) != 6*time.Second {
			t.Errorf("after %s it has ended, %v", time.Since(began), err)
		}
		synctest.Wait()
	})
}

// TestSureToFit: with few tasks per node, the error says that they may not fit.
func TestSureToFit(t *testing.T) {
	stalled := errors.New("stalled")
	if err := sureToFit(stalled, 5000, 50_000); err != stalled {
		t.Errorf("got %v", err)
	}
	if err := sureToFit(nil, 5000, 10_000); err != nil {
		t.Errorf("got %v", err)
	}
	err := sureToFit(stalled, 5000, 10_000)
	if !errors.Is(err, stalled) || !strings.Contains(err.Error(), "10000 tasks on 5000 nodes are not sure to fit: give --tasks 50000 or more") {
		t.Errorf("got %v", err)
	}
}
