package top

import (
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/measured"
)

// using is a task with that usage.
func using(id string, milli, io, busy float64, bytes int64) topTask {
	return topTask{ID: id, Usage: &measured.Task{
		Use: measured.Use{
			CPUMilli: &milli, MemoryBytes: &bytes, MemoryLimitBytes: new(int64(64 << 20)),
			IOReadBytesPerSecond: new(io / 4), IOWriteBytesPerSecond: new(io * 3 / 4),
			Pressure: &measured.Pressure{CPU: &measured.Stall{SomePercent10s: 3}, IO: &measured.Stall{SomePercent10s: 12.4}},
		},
		Devices: []measured.Device{
			{BusyPercent: &busy, MemoryBytes: new(int64(2 << 30)), MemoryTotalBytes: new(int64(80 << 30))},
			{ID: "one that tells nothing"},
		},
	}}
}

func TestTopSort(t *testing.T) {
	rows := []topTask{
		{ID: "unknown"},
		using("a", 100, 0, 90, 5<<20),
		using("b", 1500, 10, 0, 1<<20),
		using("c", 110, 4000, 50, 9<<20),
	}
	for by, want := range map[topSort]string{
		sortCPU:    "b c a unknown", // a and c use nearly the same, and c more memory
		sortMemory: "c a b unknown", sortIO: "c b a unknown", sortGPU: "a c b unknown", sortName: "a b c unknown",
	} {
		sorted := slices.Clone(rows)
		slices.SortStableFunc(sorted, func(x, y topTask) int { return by.compare(x.measures(), y.measures()) })
		var got []string
		for _, r := range sorted {
			got = append(got, r.ID)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("by %s: %s, want %s", by, got, want)
		}
	}
	var s topSort
	if err := s.Set("speed"); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), `"speed" is unknown: use cpu, memory, io, gpu, name`) {
		t.Errorf("%v, want what there is", err)
	}
}

// TestTopRow fills the columns, and leaves unknown values empty.
func TestTopRow(t *testing.T) {
	cell := func(row topTask, column string) string {
		t.Helper()
		for i, c := range row.Header() {
			if c.Name == column {
				return row.Row()[i]
			}
		}
		t.Fatalf("there is no column %s", column)
		return ""
	}
	known := using("a", 1500, 4096, 37, 16<<20)
	for column, want := range map[string]string{
		"of limit": "25%", "read/s": "1.0Ki", "write/s": "3.0Ki", "gpu": "37%", "gpu memory": "2.0Gi/80Gi", "pressure": "io 12%",
	} {
		if got := cell(known, column); got != want {
			t.Errorf("%s is %q, want %q", column, got, want)
		}
		for name, row := range map[string]topTask{"who is not asked": {}, "who does not know": {Usage: new(measured.Task)}} {
			if got := cell(row, column); got != "" {
				t.Errorf("%s of %s is %q, want nothing", column, name, got)
			}
		}
	}
	if got := render.PressureText(&measured.Pressure{Memory: new(measured.Stall)}); got != "0%" {
		t.Errorf("no pressure is %q", got)
	}
}

func TestBytesText(t *testing.T) {
	for bytes, want := range map[int64]string{0: "0B", 999: "999B", 5 << 20: "5.0Mi", 512 << 20: "512Mi", 1000 << 20: "1.0Gi", 20 << 30: "20Gi"} {
		if got := render.BytesText(&bytes); got != want {
			t.Errorf("%d bytes are %s, want %s", bytes, got, want)
		}
	}
	if got := render.BytesText(nil) + render.CoresText(nil) + render.RateText(nil); got != "" {
		t.Errorf("what is not known is %q, want nothing", got)
	}
}
