package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/execution"
)

// TestFence cuts nodes off: one agent is frozen, one is killed, and a cable is pulled. The
// processes there are dead by the deadline, before another attempt starts, whichever part ends
// them. The tasks' logs prove it.
func TestFence(t *testing.T) {
	m := newMachines(t)
	m.begin(m.net.add(), "server", "--name", "server-1")
	for _, node := range []string{"a", "b", "c"} {
		m.agent(node)
	}
	end := m.follow()
	defer end()
	m.must("image", "make", image, built.program)

	frozen := m.victims("a", 1)
	m.signal("a", syscall.SIGSTOP)
	m.areFenced(frozen)
	m.signal("a", syscall.SIGCONT)
	m.returns(frozen)

	// Two at a time, so that no network failure is presumed.
	killed, cut := m.victims("a", 2), m.victims("c", 3)
	m.end(m.agents["a"], syscall.SIGKILL)
	m.net.plug(m.hosts["c"], false)
	m.areFenced(killed)
	m.areFenced(cut)
	m.wasAsked(cut)
	m.agent("a")
	m.net.plug(m.hosts["c"], true)
	m.returns(killed)
	m.returns(cut)
	// Three rounds: three executions on the node that was cut off, one elsewhere, and one to show
	// that it is back.
	m.neverTwice(15)
}

// victims are the tasks of a node to cut off, one for each OnDisconnect. Their run times
// distinguish their processes.
type victims struct {
	node string
	ids  map[types.OnDisconnect]string
	lasts
	// kept are the processes of the Keep task.
	kept []int
}

type lasts map[types.OnDisconnect]string

// victims starts them.
func (m *machines) victims(node string, round int) *victims {
	m.t.Helper()
	v := &victims{node: node, ids: make(map[types.OnDisconnect]string), lasts: lasts{
		types.Fence: fmt.Sprintf("%d1m", round), types.StopLost: fmt.Sprintf("%d2m", round), types.Keep: fmt.Sprintf("%d3m", round),
	}}
	others := []string{"a", "b", "c"}
	for _, other := range others {
		if other != node {
			m.must("node", "cordon", other)
		}
	}
	for what, last := range v.lasts {
		v.ids[what] = m.must("run", "-d", "--name", what.String(), "--request", "cpu=100m", "--on-disconnect", what.String(), image, "--", "program", "work", last)
		m.must("wait", "--until", "running", v.ids[what])
	}
	for _, other := range others {
		if other != node {
			m.must("node", "uncordon", other)
		}
	}
	v.kept = m.working(node, v.lasts[types.Keep])
	if len(v.kept) == 0 {
		m.t.Fatalf("nothing runs on %s", node)
	}
	return v
}

// working returns the processes on a node that work for a time.
func (m *machines) working(node, last string) []int {
	m.t.Helper()
	return m.processes(node, "program work "+last)
}

func (m *machines) signal(node string, s syscall.Signal) {
	m.t.Helper()
	if err := m.agents[node].cmd.Process.Signal(s); err != nil {
		m.t.Fatal(err)
	}
}

// areFenced waits until the tasks of a cut-off node run elsewhere, or have failed; then none may
// run on it any more.
func (m *machines) areFenced(v *victims) {
	m.t.Helper()
	m.await("another attempt", func() bool {
		x := m.task(v.ids[types.Fence])
		return x.Attempt > 1 && x.Phase == "running"
	})
	if left := m.working(v.node, v.lasts[types.Fence]); len(left) > 0 {
		m.t.Errorf("%s is cut off, and still runs %v while another attempt does", v.node, left)
	}
	m.await("a failure for good", func() bool { return m.task(v.ids[types.StopLost]).Phase == "failed" })
	if left := m.working(v.node, v.lasts[types.StopLost]); len(left) > 0 {
		m.t.Errorf("%s is cut off, and still runs %v, which has failed", v.node, left)
	}
	if x := m.task(v.ids[types.StopLost]); x.Attempt != 1 || !strings.Contains(x.Reason, "node "+v.node+" was lost") {
		m.t.Errorf("it failed as attempt %d: %s", x.Attempt, x.Reason)
	}
	if x := m.task(v.ids[types.Keep]); x.Attempt != 1 || x.Phase != "running" {
		m.t.Errorf("what is kept is %+v", x)
	}
	if now := m.working(v.node, v.lasts[types.Keep]); fmt.Sprint(now) != fmt.Sprint(v.kept) {
		m.t.Errorf("what is kept was %v, and is %v", v.kept, now)
	}
}

// wasAsked checks that a task was told to end before it was killed.
func (m *machines) wasAsked(v *victims) {
	m.t.Helper()
	log, err := os.ReadFile(nodeagent.LogPath(filepath.Join(m.dir, v.node), "default", v.ids[types.Fence], 1))
	if err != nil || !strings.HasSuffix(string(log), "stopped\n") {
		m.t.Errorf("its output is %q, %v", log, err)
	}
}

// returns waits until a node is back and runs tasks; ended tasks stay ended, and the Keep task
// still runs.
func (m *machines) returns(v *victims) {
	m.t.Helper()
	m.await(v.node+" is back", func() bool {
		return m.escher("run", "--request", "node/"+v.node+"=1", image, "--", "program", "echo", "hello").out == "hello\n"
	})
	for _, what := range []types.OnDisconnect{types.Fence, types.StopLost} {
		if left := m.working(v.node, v.lasts[what]); len(left) > 0 {
			m.t.Errorf("%s is back, and %v runs again", v.node, left)
		}
	}
	if now := m.working(v.node, v.lasts[types.Keep]); fmt.Sprint(now) != fmt.Sprint(v.kept) {
		m.t.Errorf("what is kept was %v, and is %v", v.kept, now)
	}
	if x := m.task(v.ids[types.Keep]); x.Attempt != 1 || x.Phase != "running" {
		m.t.Errorf("what is kept is %+v", x)
	}
}

// neverTwice audits the execution logs of all nodes. The nodes share a machine, and so a clock.
func (m *machines) neverTwice(executions int) {
	m.t.Helper()
	args := []string{"audit", "--clock-skew", "0s", "-o", "json"}
	for node := range m.hosts {
		args = append(args, "--exec-log", filepath.Join(m.dir, node, execution.Name))
	}
	o := m.escher(args...)
	var report struct{ Executions, Running, Unknown, BadLines int }
	if err := json.Unmarshal([]byte(o.out), &report); o.code != 0 || err != nil {
		m.t.Errorf("the logs of what ran: exit code %d, %v\n%s%s", o.code, err, o.out, o.err)
	}
	if report.Executions < executions || report.Unknown > 0 || report.BadLines > 0 {
		m.t.Errorf("they have %+v", report)
	}
}
