package nodeagent_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// TestInputIsForOneAttempt runs the first attempt of a task with an input, which ends without a
// client, and refuses the second one.
func TestInputIsForOneAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, simruntime.Config{Script: func(c nodeagent.Container) (simruntime.Behaviour, error) {
			if !c.Stdin || !c.TTY {
				t.Errorf("container %+v has no input or no terminal", c)
			}
			return simruntime.Behaviour{Copy: true, Code: 5}, nil
		}})
		b.start()
		defer b.crash()
		with := b.runs(func(s *types.Spec) { s.Stdin, s.TTY = true, true })
		b.bind("first", with)
		second := &types.Binding{Session: b.session(), Holds: []types.Holding{{Resource: types.CPU, Amount: 500}}}
		with(second)
		b.put(controlplane.BindingKey("n1", "d", "second", 2), second)
		b.pass(time.Second)
		b.alive(1)
		var r types.Report
		if err := types.Decode(b.get(controlplane.ReportKey("n1", "d", "second", 2)).Value, &r); err != nil {
			t.Fatal(err)
		}
		if r.Phase != types.ReportExited || r.ExitCode != 126 || !strings.Contains(r.Reason, "went to an earlier attempt: run the task again") {
			t.Errorf("the second attempt: %+v", r)
		}
		b.pass(nodeagent.AttachWait)
		if r := b.expect("first", types.ReportExited); r.ExitCode != 5 {
			t.Errorf("without a client: %+v, want the end of its input", r)
		}
	})
}
