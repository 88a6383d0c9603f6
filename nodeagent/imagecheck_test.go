package nodeagent_test

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// TestCheckOfTheImage tests that a task without checks of its own has that of its image, from its
// first report on and across restarts of the agent, unless it declines it.
func TestCheckOfTheImage(t *testing.T) {
	var p probes
	ofImage := types.Check{Name: "image", Exec: []string{"check"}, Every: 30 * time.Second, Timeout: time.Second, Failures: 2}
	rt := simruntime.Config{Exec: p.exec, Check: func(string) *types.Check { return &ofImage }}
	bubble(t, rt, func(t *testing.T, b *bench) {
		b.bind("a", b.runs(func(*types.Spec) {}))
		b.bind("declines", b.runs(func(s *types.Spec) { s.NoHealthcheck = true }))
		b.pass(999 * time.Millisecond)
		if r := b.expect("a", types.ReportRunning); r.Health != types.HealthStarting {
			t.Errorf("at first: %+v", r)
		}
		b.pass(time.Second)
		if r := b.expect("a", types.ReportRunning); r.Health != types.Healthy || p.count() != 1 {
			t.Errorf("after %d probes: %+v", p.count(), r)
		}
		b.crash()
		p.set(prints("no", 1))
		b.start()
		b.pass(61 * time.Second)
		if r := b.expect("a", types.ReportRunning); r.Health != types.Unhealthy || r.Reason != "check image: exit code 1: no" {
			t.Errorf("after a restart of the agent: %+v", r)
		}
		if r := b.expect("declines", types.ReportRunning); r.Health != "" {
			t.Errorf("without a check: %+v", r)
		}
		p.set(nil)
		b.bind("own", b.runs(checking(func(s *types.Spec) { s.Checks[0].Exec = []string{"own"} })))
		b.pass(2 * time.Second)
		if r := b.expect("own", types.ReportRunning); r.Health != types.Healthy {
			t.Errorf("with a check of its own: %+v", r)
		}
		p.set(prints("bad", 1))
		b.pass(31 * time.Second)
		if r := b.expect("own", types.ReportRunning); r.Reason != "check alive: exit code 1: bad" {
			t.Errorf("with a check of its own: %+v", r)
		}
	})
}
