package nodeagent_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/relabel"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/devices"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// bubble runs a test with an agent in simulated time.
func bubble(t *testing.T, rt simruntime.Config, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, rt)
		b.start()
		defer func() {
			b.crash()
			b.once()
			b.honest()
		}()
		test(t, b)
	})
}

// does makes a script in which all containers behave the same.
func does(x simruntime.Behaviour) simruntime.Config {
	return simruntime.Config{Script: func(nodeagent.Container) (simruntime.Behaviour, error) { return x, nil }}
}

func TestRegisters(t *testing.T) {
	bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
		if b.session() == 0 {
			t.Fatal("not alive")
		}
		before := b.get(controlplane.NodeKey("n1"))
		var n types.Node
		if err := types.Decode(before.Value, &n); err != nil || n.Capacity.Get("cpu") != 4000 {
			t.Fatalf("%+v, %v", n, err)
		}
		b.crash()
		b.start()
		if b.get(controlplane.NodeKey("n1")).ModRevision != before.ModRevision {
			t.Error("registered again, though nothing changed")
		}
		b.crash()
		b.cfg.Labels = []types.Label{{Name: "rack", Value: "r1"}}
		b.cfg.Devices = devices.Fixed{{ID: "nvidia.com/gpu=0", Resource: types.GPU}}
		b.start()
		if b.get(controlplane.NodeKey("n1")).ModRevision == before.ModRevision || b.get(controlplane.DevicesKey("n1")).Key == "" {
			t.Error("not registered anew, though it has a label and a device now")
		}
	})
}

// TestRegistersWithSetLabels keeps the labels that an administrator has changed.
func TestRegistersWithSetLabels(t *testing.T) {
	bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
		labels := func() string {
			var n types.Node
			if err := types.Decode(b.get(controlplane.NodeKey("n1")).Value, &n); err != nil {
				t.Fatal(err)
			}
			return types.LabelsText(n.Labels)
		}
		label := func(add, remove string) {
			l, err := types.ParseLabel("label", add)
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := relabel.Node(t.Context(), b.store, "n1", relabel.Change{Add: []types.Label{l}, Remove: []string{remove}, Overwrite: true}); err != nil {
				t.Fatal(err)
			}
		}
		again := func(labels ...types.Label) {
			b.crash()
			b.cfg.Labels = labels
			b.start()
		}
		again(types.Label{Name: "zone", Value: "a"}, types.Label{Name: "rack", Value: "r1"}, types.Label{Name: "disk", Value: "ssd"})
		label("team=x", "disk")
		label("rack=r2", "none")
		if got := labels(); got != "rack=r2,team=x,zone=a" {
			t.Error(got)
		}
		revision := b.get(controlplane.NodeKey("n1")).ModRevision
		again(b.cfg.Labels...)
		if got := b.get(controlplane.NodeKey("n1")).ModRevision; got != revision {
			t.Errorf("registered again, though nothing changed: %s", labels())
		}
		again(types.Label{Name: "zone", Value: "b"}, types.Label{Name: "rack", Value: "r3"})
		if got := labels(); got != "rack=r2,team=x,zone=b" {
			t.Error(got)
		}
		again(types.Label{Name: "disk", Value: "ssd"})
		if got := labels(); got != "disk=ssd,rack=r2,team=x" {
			t.Errorf("a removal outlives the label: %s", got)
		}
		b.crash()
		for i := range types.MaxLabels {
			b.cfg.Labels = append(b.cfg.Labels, types.Label{Name: fmt.Sprint("k", i)})
		}
		if err := b.cfg.Validate(); !types.Is(err, types.Invalid) {
			t.Error(err)
		}
		b.cfg.Labels = nil
		b.start()
	})
}

func TestLife(t *testing.T) {
	bubble(t, does(simruntime.Behaviour{Run: time.Minute, Code: 3}), func(t *testing.T, b *bench) {
		began := time.Now()
		b.bind("a")
		synctest.Wait()
		if r := b.expect("a", types.ReportRunning); r.Started != began.UnixNano() {
			t.Error("started at", r.Started)
		}
		b.pass(time.Minute)
		r := b.expect("a", types.ReportExited)
		if r.ExitCode != 3 || r.Ended != began.Add(time.Minute).UnixNano() || r.Stopped || r.Fenced {
			t.Errorf("%+v", r)
		}
		b.release("a")
		synctest.Wait()
		if n := b.left(); n != 0 {
			t.Error(n, "containers are left")
		}
	})
}

// TestRemovedAfterReport tests the order that makes the runtime a log of what happened.
func TestRemovedAfterReport(t *testing.T) {
	bubble(t, does(simruntime.Behaviour{Run: 7 * time.Second}), func(t *testing.T, b *bench) {
		b.bind("a")
		synctest.Wait()
		b.store.set(true)
		b.pass(8 * time.Second)
		if b.left() != 1 {
			t.Fatal("removed before its end was stored")
		}
		b.store.set(false)
		b.pass(2 * time.Second)
		b.expect("a", types.ReportExited)
		if b.left() != 0 {
			t.Error("not removed after its end was stored")
		}
	})
}

func TestContainer(t *testing.T) {
	var got nodeagent.Container
	rt := simruntime.Config{Script: func(c nodeagent.Container) (simruntime.Behaviour, error) {
		got = c
		return simruntime.Behaviour{Forever: true}, nil
	}}
	bubble(t, rt, func(t *testing.T, b *bench) {
		b.crash()
		b.cfg.Devices = devices.Fixed{{ID: "nvidia.com/gpu=0", Resource: types.GPU}}
		b.start()
		b.bind("a", func(x *types.Binding) {
			x.Holds = []types.Holding{
				{Resource: types.CPU, Amount: 250}, {Resource: "d:cpu@train", Amount: 500}, {Resource: types.Memory, Amount: 1 << 20},
				{Resource: types.GPU, Amount: 500, Devices: []types.DeviceShare{{ID: "nvidia.com/gpu=0", Share: 500}}},
			}
		})
		synctest.Wait()
		if got.MilliCPU != 750 || got.MemoryBytes != 1<<20 || len(got.Devices) != 1 || got.Image != "img" {
			t.Errorf("%+v", got)
		}
		env := strings.Join(got.Env, " ")
		for _, want := range []string{"ESCHER_NAMESPACE=d", "ESCHER_TASK=a", "ESCHER_ATTEMPT=1", "ESCHER_NODE=n1", "ESCHER_IMAGE=img", "ESCHER_DEVICES=nvidia.com/gpu=0"} {
			if !strings.Contains(env, want) {
				t.Errorf("%s is not in %s", want, env)
			}
		}
		if got.LogPath != nodeagent.LogPath(b.cfg.StateDir, "d", "a", 1) || !strings.HasSuffix(got.LogPath, "/logs/d/a/1.log") {
			t.Error("log at", got.LogPath)
		}
	})
}

func TestStop(t *testing.T) {
	bubble(t, does(simruntime.Behaviour{Forever: true, StopAfter: 2 * time.Second, StopCode: 9}), func(t *testing.T, b *bench) {
		b.bind("a")
		synctest.Wait()
		b.stop("a", types.Stop{Reason: "enough", Grace: 5 * time.Second})
		b.pass(time.Second)
		b.expect("a", types.ReportRunning)
		b.pass(time.Second)
		if r := b.expect("a", types.ReportExited); !r.Stopped || r.ExitCode != 9 {
			t.Errorf("%+v", r)
		}
	})
}

func TestKilledAfterGrace(t *testing.T) {
	for name, c := range map[string]struct {
		stop  types.Stop
		grace time.Duration
	}{
		"its own":     {types.Stop{Grace: 3 * time.Second, Evicted: true}, 3 * time.Second},
		"the task's":  {types.Stop{}, 4 * time.Second},
		"of a minute": {types.Stop{Grace: time.Minute}, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, does(simruntime.Behaviour{Forever: true, Deaf: true}), func(t *testing.T, b *bench) {
				b.bind("a")
				synctest.Wait()
				b.stop("a", c.stop)
				b.pass(c.grace - time.Millisecond)
				b.alive(1)
				b.pass(time.Millisecond)
				if r := b.expect("a", types.ReportExited); !r.Stopped || r.ExitCode != 137 {
					t.Errorf("%+v", r)
				}
			})
		})
	}
}

// TestEndedBeforeTheSignal tests a process that ends by itself just before its stop signal: its own
// end counts.
func TestEndedBeforeTheSignal(t *testing.T) {
	bubble(t, does(simruntime.Behaviour{Run: 7 * time.Second, Code: 0}), func(t *testing.T, b *bench) {
		b.bind("a")
		synctest.Wait()
		b.store.set(true)
		b.stop("a", types.Stop{Reason: "too late"})
		b.pass(7 * time.Second)
		b.alive(0)
		b.store.set(false)
		b.pass(3 * time.Second)
		if r := b.expect("a", types.ReportExited); r.Stopped {
			t.Errorf("%+v", r)
		}
	})
}

func TestStopBeforeTheStart(t *testing.T) {
	bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
		b.runtime.SetDown(true)
		b.bind("a")
		b.pass(5 * time.Second)
		if r := b.expect("a", types.ReportStarting); !strings.Contains(r.Reason, "does not answer") {
			t.Error("the reason does not say why it does not start:", r.Reason)
		}
		b.stop("a", types.Stop{Reason: "enough"})
		b.pass(time.Second)
		b.runtime.SetDown(false)
		b.pass(5 * time.Second)
		if r := b.expect("a", types.ReportExited); !r.Stopped || r.Started != 0 {
			t.Errorf("%+v", r)
		}
		if len(b.runtime.Runs()) != 0 {
			t.Error("it ran")
		}
	})
}

func TestMaxRun(t *testing.T) {
	bubble(t, does(simruntime.Behaviour{Forever: true}), func(t *testing.T, b *bench) {
		b.bind("a", func(x *types.Binding) { x.MaxRun = time.Minute })
		b.pass(59 * time.Second)
		b.expect("a", types.ReportRunning)
		b.pass(time.Second)
		if r := b.expect("a", types.ReportExited); r.Stopped || r.Reason != "ran longer than 1m0s" {
			t.Errorf("%+v", r)
		}
	})
}

func TestNeverRuns(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		code int
	}{
		"no image":     {types.Errorf(types.NotFound, "find image: there is none"), 127},
		"no such user": {types.Errorf(types.Invalid, "run: no such user"), 126},
	} {
		t.Run(name, func(t *testing.T) {
			rt := simruntime.Config{Script: func(nodeagent.Container) (simruntime.Behaviour, error) { return simruntime.Behaviour{}, c.err }}
			bubble(t, rt, func(t *testing.T, b *bench) {
				b.bind("a")
				synctest.Wait()
				if r := b.expect("a", types.ReportExited); r.ExitCode != c.code || r.Reason != c.err.Error() {
					t.Errorf("%+v", r)
				}
			})
		})
	}
	t.Run("in the words of a program", func(t *testing.T) {
		rt := simruntime.Config{Script: func(nodeagent.Container) (simruntime.Behaviour, error) {
			return simruntime.Behaviour{}, types.Errorf(types.NotFound, "find image: there is none: %s", action.LoadImage.Of())
		}}
		bubble(t, rt, func(t *testing.T, b *bench) {
			b.crash()
			b.cfg.Say = func(a action.Action) string { return "say " + a.String() }
			b.start()
			b.bind("a")
			synctest.Wait()
			if r := b.expect("a", types.ReportExited); r.Reason != "find image: there is none: say load the image onto the node" {
				t.Errorf("%+v", r)
			}
		})
	})
	t.Run("no spec", func(t *testing.T) {
		bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
			b.bind("a", func(x *types.Binding) { x.Spec = "gone" })
			synctest.Wait()
			if r := b.expect("a", types.ReportExited); r.ExitCode != 126 || !strings.Contains(r.Reason, "not stored") {
				t.Errorf("%+v", r)
			}
		})
	})
}

func TestPanicIsOfOneTask(t *testing.T) {
	var panics atomic.Int64
	rt := simruntime.Config{Fault: func(op simruntime.Op, id string) simruntime.Fault {
		if op == simruntime.Signal && strings.HasPrefix(id, "a-") && panics.Add(1) <= 3 {
			panic("a defect")
		}
		return simruntime.NoFault
	}}
	bubble(t, rt, func(t *testing.T, b *bench) {
		b.crash()
		b.cfg.Logger = zap.NewNop()
		b.start()
		b.bind("a")
		b.bind("b")
		synctest.Wait()
		b.stop("a", types.Stop{})
		b.pass(10 * time.Second)
		if r := b.expect("a", types.ReportExited); !r.Stopped || panics.Load() < 4 {
			t.Errorf("%+v", r)
		}
		b.expect("b", types.ReportRunning)
	})
}

// TestRefusedReport tests the report of an attempt whose binding was created again: it must not
// count for the new attempt, nor hold back other reports.
func TestRefusedReport(t *testing.T) {
	bubble(t, does(simruntime.Behaviour{Run: 3 * time.Second, Code: 5}), func(t *testing.T, b *bench) {
		b.bind("a")
		b.bind("b")
		b.pass(time.Second)
		b.store.set(true)
		b.pass(3 * time.Second)
		b.alive(0)
		b.release("a")
		again := b.bind("a", func(x *types.Binding) { x.Session = b.session() })
		b.store.set(false)
		b.pass(4 * time.Second)
		if r := b.expect("b", types.ReportExited); r.ExitCode != 5 {
			t.Errorf("%+v", r)
		}
		b.pass(3 * time.Second)
		b.expect("a", types.ReportExited)
		if b.runtime.Runs()[again] != 1 {
			t.Error("the new attempt did not run")
		}
	})
}

func TestRuntimeAway(t *testing.T) {
	bubble(t, does(simruntime.Behaviour{Run: 30 * time.Second, Code: 4}), func(t *testing.T, b *bench) {
		b.bind("a")
		synctest.Wait()
		b.runtime.SetDown(true)
		b.bind("b")
		b.pass(40 * time.Second)
		b.expect("a", types.ReportRunning)
		b.runtime.SetDown(false)
		b.pass(5 * time.Second)
		if r := b.expect("a", types.ReportExited); r.ExitCode != 4 {
			t.Errorf("%+v", r)
		}
		b.expect("b", types.ReportRunning)
	})
}

func TestContainerTakenAway(t *testing.T) {
	bubble(t, simruntime.Config{}, func(t *testing.T, b *bench) {
		id := b.bind("a")
		synctest.Wait()
		if err := b.runtime.Remove(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		b.pass(10 * time.Second)
		if r := b.expect("a", types.ReportExited); !r.Fenced {
			t.Errorf("%+v", r)
		}
	})
}

func TestIdle(t *testing.T) {
	var calls atomic.Int64
	rt := simruntime.Config{Fault: func(simruntime.Op, string) simruntime.Fault { calls.Add(1); return simruntime.NoFault }}
	bubble(t, rt, func(t *testing.T, b *bench) {
		for i := range 20 {
			b.bind(fmt.Sprintf("t%d", i))
		}
		b.pass(time.Minute)
		before, revision := calls.Load(), b.store.Revision()
		b.pass(time.Hour)
		if n := calls.Load() - before; n > 130 {
			t.Errorf("%d calls of the runtime in an idle hour", n)
		}
		if n := b.store.Revision() - revision; n != 0 {
			t.Errorf("%d writes in an idle hour", n)
		}
	})
}

func TestManyTasks(t *testing.T) {
	const n = 500
	bubble(t, does(simruntime.Behaviour{Run: 8 * time.Second}), func(t *testing.T, b *bench) {
		for i := range n {
			b.bind(fmt.Sprintf("t%d", i))
		}
		b.pass(time.Second)
		b.alive(n)
		b.store.set(true)
		b.pass(8 * time.Second)
		b.alive(0)
		before := b.store.Revision()
		b.store.set(false)
		b.pass(3 * time.Second)
		// The first is sent alone, the others after its answer.
		if wrote := b.store.Revision() - before; wrote > 2 {
			t.Errorf("%d reports took %d transactions", n, wrote)
		}
		for i := range n {
			b.expect(fmt.Sprintf("t%d", i), types.ReportExited)
			b.release(fmt.Sprintf("t%d", i))
		}
		b.pass(time.Second)
		if b.left() != 0 {
			t.Error(b.left(), "containers are left")
		}
	})
}
