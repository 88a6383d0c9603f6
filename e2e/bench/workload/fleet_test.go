package workload

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
)

// TestOpenbTables checks the tables of openb. With OPENB=DIR, a copy of the trace, in the
// environment, it writes them first.
func TestOpenbTables(t *testing.T) {
	if dir := os.Getenv("OPENB"); dir != "" {
		writeOpenb(t, dir)
	}
	kinds, shapes, err := openb()
	if err != nil {
		t.Fatal(err)
	}
	machines, tasks := 0, 0
	for _, k := range kinds {
		machines += k.count
	}
	for _, s := range shapes {
		tasks += s.count
	}
	if len(kinds) < 20 || len(shapes) < 200 || machines != 1523 || tasks != 8152 {
		t.Errorf("%d kinds of %d machines, %d shapes of %d tasks: want at least 20 of 1523 and 200 of 8152", len(kinds), machines, len(shapes), tasks)
	}
}

// writeOpenb counts the machines and requests of the trace.
func writeOpenb(t *testing.T, dir string) {
	t.Helper()
	machines, err := ReadMachines(dir)
	if err != nil {
		t.Fatal(err)
	}
	kinds, shapes := make(map[string]int), make(map[string]int)
	for _, m := range machines {
		kinds[fmt.Sprintf("%d,%d,%d,%s", m.CPUMilli, m.MemMiB, m.GPUs, m.Model)]++
	}
	err = EachWork(dir, "variants/tasks_gpuspec33", func(w Work) error {
		shapes[fmt.Sprintf("%d,%d,%d,%d,%s", w.CPUMilli, w.MemMiB, w.GPUs, w.GPUMilli, strings.Join(w.Models, "|"))]++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	writeCounts(t, "openb/nodes.csv", "cpu_milli,mem_mib,gpus,gpu_model,count", kinds)
	writeCounts(t, "openb/shapes.csv", "cpu_milli,mem_mib,gpus,gpu_milli,gpu_model,count", shapes)
}

// writeCounts writes a table, the most frequent rows first.
func writeCounts(t *testing.T, path, titles string, counts map[string]int) {
	t.Helper()
	rows := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
	var out strings.Builder
	fmt.Fprintln(&out, titles)
	for _, row := range rows {
		fmt.Fprintf(&out, "%s,%d\n", row, counts[row])
	}
	if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestFleetFits: all tasks of a fleet fit into it as the scheduler places them, and fill it.
func TestFleetFits(t *testing.T) {
	for _, size := range []struct{ nodes, tasks int }{{100, 1000}, {500, 5000}, {100, 2000}} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			f, err := NewFleet(size.nodes, size.tasks, 1)
			if err != nil {
				t.Fatal(err)
			}
			kinds := make(map[string]bool)
			for _, m := range f.Machines {
				kinds[fmt.Sprint(m.CPUMilli, m.MemMiB, m.GPUs, m.Model)] = true
			}
			if len(kinds) < 20 || size.tasks >= 5000 && len(f.Shapes) < 200 {
				t.Errorf("%d kinds of node and %d shapes: want at least 20 and 200", len(kinds), len(f.Shapes))
			}
			cpu, memory, gpu := f.Utilisation(types.CPU), f.Utilisation(types.Memory), f.Utilisation(types.GPU)
			t.Logf("%d shapes, nodes of %d machines: cpu %.3f, memory %.3f, gpu %.3f", len(f.Shapes), f.Times, cpu, memory, gpu)
			if cpu < 0.8 {
				t.Errorf("cpu is used by %.2f: want at least 0.8", cpu)
			}
			d := scheduler.Schedule(viewOf(t, f), scheduler.Config{Seed: 1}, time.Unix(1, 0))
			if len(d.Waiting) > 0 {
				w := d.Waiting[0]
				t.Errorf("%d of %d tasks do not fit; the first lacks %v", len(d.Waiting), size.tasks, w.Lacks)
			}
		})
	}
}

// viewOf is the view of a fleet.
func viewOf(t *testing.T, f *Fleet) *cluster.View {
	t.Helper()
	v := cluster.New()
	revision := int64(0)
	put := func(key string, m types.Message) {
		t.Helper()
		revision++
		e := controlplane.Event{KV: controlplane.KV{Key: key, Value: types.Encode(1, m), CreateRevision: revision, ModRevision: revision}}
		if _, _, err := v.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	for i := range f.Machines {
		put(controlplane.NodeKey(NodeName(i)), f.Node(i))
		put(controlplane.AliveKey(NodeName(i)), &types.Alive{TTLSeconds: 15})
		if d := f.Devices(i); d != nil {
			put(controlplane.DevicesKey(NodeName(i)), d)
		}
	}
	for i := range f.Tasks {
		put(controlplane.TaskKey("bench", TaskName(i)), &types.Task{Requests: f.Requests(i), Submitted: int64(i + 1), Spec: "x"})
	}
	return v
}
