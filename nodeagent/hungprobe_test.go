package nodeagent_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// hangs is a command that ends when it is killed.
func hangs(ctx context.Context, w io.Writer) (int, error) {
	if _, err := io.WriteString(w, "at it"); err != nil {
		return 0, err
	}
	<-ctx.Done()
	return 0, types.Errorf(types.Unavailable, "run it: %w", ctx.Err())
}

// TestHungProbe tests that a command which does not end is killed after its timeout, that only one
// runs at a time, and that it delays nothing else.
func TestHungProbe(t *testing.T) {
	var p probes
	p.set(hangs)
	bubble(t, simruntime.Config{Exec: p.exec}, func(t *testing.T, b *bench) {
		b.bind("a", b.runs(checking(func(s *types.Spec) { s.Checks[0].Every, s.Checks[0].Timeout = time.Second, 5*time.Second })))
		b.pass(16 * time.Second)
		if r := b.expect("a", types.ReportRunning); r.Health != types.Unhealthy || r.Reason != "check alive: did not end within 5s: at it" || p.most != 1 {
			t.Errorf("%d at a time: %+v", p.most, r)
		}
		b.stop("a", types.Stop{Reason: "enough"})
		synctest.Wait()
		b.expect("a", types.ReportExited)
	})
}

// TestStuckProbe tests that a killed command which does not end has failed, however long the
// runtime waited for its end.
func TestStuckProbe(t *testing.T) {
	var p probes
	p.set(func(ctx context.Context, w io.Writer) (int, error) {
		<-ctx.Done()
		time.Sleep(3 * time.Second)
		return 0, types.Errorf(types.Unavailable, "it does not end")
	})
	bubble(t, simruntime.Config{Exec: p.exec}, func(t *testing.T, b *bench) {
		b.bind("a", b.runs(checking(func(*types.Spec) {})))
		b.pass(time.Minute)
		if r := b.expect("a", types.ReportRunning); r.Health != types.Unhealthy || r.Reason != "check alive: did not end within 2s" || p.most != 1 {
			t.Errorf("%d at a time: %+v", p.most, r)
		}
	})
}
