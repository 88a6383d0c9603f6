package cli

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/nodeagent/nodeapi"
)

// TestUse takes the processor time between two samples.
func TestUse(t *testing.T) {
	at := time.Unix(100, 0)
	of := func(task string, seconds float64) nodeapi.Usage {
		return nodeapi.Usage{Namespace: "default", Task: task, Attempt: 1, CPUSeconds: seconds, MemoryBytes: 5 << 20}
	}
	before := sample{at: at, nodes: map[string][]nodeapi.Usage{"n1": {of("busy", 10), of("again", 10)}}}
	latest := sample{at: at.Add(2 * time.Second), nodes: map[string][]nodeapi.Usage{"n1": {of("busy", 13), of("again", 1), of("new", 9)}}}
	all := use(before, latest)
	for task, cores := range map[string]float64{"busy": 1.5, "again": 0, "new": 0} {
		if x := all[used{"n1", attemptOf("default", task, 1)}]; x.cores != cores || x.bytes != 5<<20 {
			t.Errorf("%s uses %+v, want %v cores", task, x, cores)
		}
	}
	for bytes, want := range map[int64]string{0: "0B", 999: "999B", 5 << 20: "5.0Mi", 512 << 20: "512Mi", 1000 << 20: "1.0Gi", 20 << 30: "20Gi"} {
		if got := bytesText(bytes); got != want {
			t.Errorf("%d bytes are %s, want %s", bytes, got, want)
		}
	}
}
