package workload

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestPublished checks the tables of the published figures. With OPENB=DIR, a copy of the trace, in
// the environment, it writes them first.
func TestPublished(t *testing.T) {
	if dir := os.Getenv("OPENB"); dir != "" {
		writePublished(t, dir)
	}
	machines, tasks, err := Published()
	if err != nil {
		t.Fatal(err)
	}
	var gpus, cpus, asked int64
	for _, m := range machines {
		gpus, cpus = gpus+m.GPUs, cpus+m.CPUMilli
	}
	for _, w := range tasks {
		asked += w.GPUs * w.GPUMilli
	}
	if len(machines) != 1213 || gpus != 6212 || cpus != 107_018_000 || len(tasks) != 8152 || asked != 6_086_800 {
		t.Errorf("%d machines with %d devices and %d thousandths of cores, %d tasks that ask for %d thousandths of devices", len(machines), gpus, cpus, len(tasks), asked)
	}
}

// writePublished writes the machines in order, and counts the requests of the trace.
func writePublished(t *testing.T, dir string) {
	t.Helper()
	machines, err := ReadMachines(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	fmt.Fprintln(&out, "cpu_milli,mem_mib,gpus,gpu_model,count")
	last, n := "", 0
	for _, m := range append(machines, Machine{GPUs: -1}) {
		row := fmt.Sprintf("%d,%d,%d,%s", m.CPUMilli, m.MemMiB, m.GPUs, m.Model)
		if m.GPUs == 0 {
			continue
		}
		if row != last && n > 0 {
			fmt.Fprintf(&out, "%s,%d\n", last, n)
			n = 0
		}
		last, n = row, n+1
	}
	if err := os.WriteFile("openb/order.csv", []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	shapes := make(map[string]int)
	err = EachWork(dir, "tasks", func(w Work) error {
		shapes[fmt.Sprintf("%d,%d,%d,%d,%s", w.CPUMilli, w.MemMiB, w.GPUs, w.GPUMilli, strings.Join(w.Models, "|"))]++
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	writeCounts(t, "openb/default.csv", "cpu_milli,mem_mib,gpus,gpu_milli,gpu_model,count", shapes)
}
