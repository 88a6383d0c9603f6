package nodeagent_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/devices"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

func TestEvents(t *testing.T) {
	bubble(t, does(simruntime.Behaviour{Run: time.Minute}), func(t *testing.T, b *bench) {
		if events, more := b.agent.Events("d", "a", 1, 0); len(events) != 0 || more != nil {
			t.Error("of nothing there is", events)
		}
		b.bind("a")
		synctest.Wait()
		events, more := b.agent.Events("d", "a", 1, 2)
		if len(events) != 1 || events[0].Step != nodeagent.StepStarted {
			t.Errorf("%+v", events)
		}
		select {
		case <-more:
			t.Error("more, without any")
		default:
		}
		b.pass(time.Minute)
		<-more
		b.release("a")
		synctest.Wait()
		if want := "bound starting started exited released"; b.steps("a") != want {
			t.Errorf("%s, want %s", b.steps("a"), want)
		}
		for i := range 1001 {
			b.bind("t" + strings.Repeat("i", i%40) + string(rune('a'+i/40)))
		}
		synctest.Wait()
		if events, _ := b.agent.Events("d", "a", 1, 0); len(events) != 0 {
			t.Error("remembered after a thousand others")
		}
	})
}

func TestMetrics(t *testing.T) {
	rt := simruntime.Config{Script: func(c nodeagent.Container) (simruntime.Behaviour, error) {
		switch c.Attempt.Task {
		case "none":
			return simruntime.Behaviour{}, types.Errorf(types.NotFound, "no image")
		case "big":
			return simruntime.Behaviour{Code: 137, OOMKilled: true}, nil
		case "fails":
			return simruntime.Behaviour{Code: 1}, nil
		}
		return simruntime.Behaviour{Forever: true}, nil
	}}
	bubble(t, rt, func(t *testing.T, b *bench) {
		b.crash()
		b.cfg.Metrics = nodeagent.NewMetrics()
		b.start()
		for _, task := range []string{"none", "big", "runs"} {
			b.bind(task)
		}
		b.bind("fails", b.runs(again))
		b.pass(time.Minute)
		b.store.set(true)
		b.pass(2 * time.Minute)
		want := `# HELP escher_agent_containers_running Containers whose process runs.
# TYPE escher_agent_containers_running gauge
escher_agent_containers_running{node="n1"} 0
# HELP escher_agent_exits_total Ends of processes, by kind: succeeded, failed, out-of-memory, stopped, overran, deadline, fenced, unhealthy.
# TYPE escher_agent_exits_total counter
escher_agent_exits_total{kind="failed"} 4
escher_agent_exits_total{kind="fenced"} 1
escher_agent_exits_total{kind="out-of-memory"} 1
# HELP escher_agent_restarts_total Processes run again in place.
# TYPE escher_agent_restarts_total counter
escher_agent_restarts_total 3
# HELP escher_agent_starts_total Starts of containers, by outcome: started, failed (tried again), never (cannot run).
# TYPE escher_agent_starts_total counter
escher_agent_starts_total{outcome="never"} 1
escher_agent_starts_total{outcome="started"} 6
`
		err := testutil.CollectAndCompare(b.cfg.Metrics, strings.NewReader(want), "escher_agent_containers_running",
			"escher_agent_exits_total", "escher_agent_restarts_total", "escher_agent_starts_total")
		if err != nil {
			t.Error(err)
		}
		if problems, err := testutil.CollectAndLint(b.cfg.Metrics); err != nil || len(problems) > 0 {
			t.Error(problems, err)
		}
	})
}

// TestLogsAreDeleted tests deletion by age and by size, but not of logs of bound attempts.
func TestLogsAreDeleted(t *testing.T) {
	for name, c := range map[string]struct {
		room       int64
		kept, gone []string
	}{
		"by age":   {1 << 20, []string{"bound", "young", "younger"}, []string{"old"}},
		"for room": {1000, []string{"bound", "younger"}, []string{"old", "young"}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
				b.crash()
				b.cfg.LogRetention, b.cfg.LogBytes = 24*time.Hour, c.room
				for task, age := range map[string]time.Duration{"bound": 48, "old": 25, "young": 2, "younger": 1} {
					b.logged(task, 400, age*time.Hour)
				}
				b.start()
				b.bind("bound")
				b.pass(11 * time.Minute)
				for _, task := range c.kept {
					if _, err := os.Stat(nodeagent.LogPath(b.cfg.StateDir, "d", task, 1)); err != nil {
						t.Error(err)
					}
				}
				for _, task := range c.gone {
					if left, err := filepath.Glob(nodeagent.LogPath(b.cfg.StateDir, "d", task, 1) + "*"); len(left) != 0 {
						t.Errorf("%v is there still: %v", left, err)
					}
				}
			})
		})
	}
}

// logged makes a log of a size and an age, in two files.
func (b *bench) logged(task string, bytes int, age time.Duration) {
	b.t.Helper()
	path := nodeagent.LogPath(b.cfg.StateDir, "d", task, 1)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		b.t.Fatal(err)
	}
	for _, part := range []string{path, tasklog.Previous(path)} {
		if err := os.WriteFile(part, make([]byte, bytes/2), 0o600); err != nil {
			b.t.Fatal(err)
		}
		at := time.Now().Add(-age)
		if err := os.Chtimes(part, at, at); err != nil {
			b.t.Fatal(err)
		}
	}
}

// TestPortsAndDevices tests that ports and devices are registered before they can be allocated.
func TestPortsAndDevices(t *testing.T) {
	var env []string
	rt := simruntime.Config{Script: func(c nodeagent.Container) (simruntime.Behaviour, error) {
		env = c.Env
		if len(c.Devices) != 0 {
			t.Error("ports are no devices:", c.Devices)
		}
		return simruntime.Behaviour{Forever: true}, nil
	}}
	bubble(t, rt, func(t *testing.T, b *bench) {
		b.crash()
		b.cfg.Ports = nodeagent.PortRange{First: 20000, Last: 20099}
		b.cfg.Devices = devices.Fixed{{ID: "nvidia.com/gpu=0", Resource: types.GPU}}
		b.start()
		kv := b.get(controlplane.NodeKey("n1"))
		var n types.Node
		if err := types.Decode(kv.Value, &n); err != nil || n.Capacity.Get("port") != 100_000 || n.Capacity.Get("gpu") != 1000 || n.PortFirst != 20000 || n.PortLast != 20099 {
			t.Errorf("%+v, %v", n, err)
		}
		if b.get(controlplane.DevicesKey("n1")).ModRevision != kv.ModRevision {
			t.Error("the capacity and the devices were not stored at once")
		}
		ports := func(s *types.Spec) {
			s.Ports = []types.TaskPort{{Name: "web-ui"}, {Name: "fixed", Number: 8080}, {Name: "metrics"}}
		}
		hold := func(ids ...string) func(*types.Binding) {
			h := types.Holding{Resource: types.Port, Amount: types.Quantity(1000 * len(ids))}
			for _, id := range ids {
				h.Devices = append(h.Devices, types.DeviceShare{ID: id, Share: 1000})
			}
			return func(x *types.Binding) { x.Holds = []types.Holding{h} }
		}
		b.bind("a", b.runs(ports), hold("20007", "20011"))
		synctest.Wait()
		for _, want := range []string{"PORT=20007", "ESCHER_PORT_WEB_UI=20007", "ESCHER_PORT_FIXED=8080", "ESCHER_PORT_METRICS=20011"} {
			if !slices.Contains(env, want) {
				t.Errorf("%s is not in %v", want, env)
			}
		}
		b.bind("few", b.runs(ports), hold("20009"))
		synctest.Wait()
		if r := b.expect("few", types.ReportExited); r.ExitCode != 126 || !strings.Contains(r.Reason, "port metrics") {
			t.Errorf("%+v", r)
		}
	})
}
