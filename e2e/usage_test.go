package e2e

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// used is a task in the output of top.
type used struct {
	ID    string `json:"id"`
	Usage struct {
		CPUMilli         float64 `json:"cpuMilli"`
		ThrottledSeconds float64 `json:"throttledSeconds"`
		MemoryRSSBytes   int64   `json:"memoryRssBytes"`
		MemoryLimitBytes int64   `json:"memoryLimitBytes"`
		IOWriteBytes     int64   `json:"ioWriteBytes"`
		Processes        int64   `json:"processes"`
	} `json:"usage"`
}

// TestUsage observes the real usage of a task, in top, in its description and in the metrics; none
// of it is stored.
func TestUsage(t *testing.T) {
	c := started(t)
	id := c.must("run", "-d", "--name", "burner", "--cpu", "300m", "--memory", "128Mi", "--scratch", "/data", image, "--", "/bin/program", "burn", "/data", "16")
	c.must("wait", id, "--until", "running")
	var last []used
	burns := eventually(func() bool {
		last = nil
		if err := json.Unmarshal([]byte(c.must("top", "tasks", "-o", "json")), &last); err != nil {
			t.Fatal(err)
		}
		if len(last) != 1 {
			return false
		}
		u := last[0].Usage
		return u.CPUMilli > 50 && u.ThrottledSeconds > 0 && u.MemoryRSSBytes >= 16<<20 && u.IOWriteBytes >= 16<<20
	})
	if !burns || last[0].ID != id || last[0].Usage.MemoryLimitBytes != 128<<20 || last[0].Usage.Processes < 1 {
		t.Fatalf("top says %+v", last)
	}
	before := c.revision()
	text := c.must("describe", id)
	for _, want := range []string{"\nUses\n", "held back by its limit", "% of 128Mi"} {
		if !strings.Contains(text, want) {
			t.Errorf("describe does not say %q:\n%s", want, text)
		}
	}
	series := `escher_task_cpu_seconds_total{attempt="1",namespace="default",node="node-1",task="` + id + `"}`
	if text := c.metrics(); !strings.Contains(text, series) || !strings.Contains(text, `escher_node_cpu_seconds_total{node="node-1"}`) {
		t.Errorf("the metrics do not have %s:\n%s", series, text)
	}
	if after := c.revision(); after != before {
		t.Errorf("the store went from revision %d to %d: is usage stored?", before, after)
	}
	c.must("stop", id)
	c.escher("wait", id) // ends as the task does
	if text := c.metrics(); strings.Contains(text, id) {
		t.Errorf("the metrics have %s after its end:\n%s", id, text)
	}
	c.must("audit")
}

// metrics are the metrics of the whole process.
func (c *cluster) metrics() string {
	c.t.Helper()
	out, err := exec.Command("curl", "-sf", "--unix-socket", filepath.Join(c.dir, "run/ops.sock"), "http://escher/metrics").Output()
	if err != nil {
		c.t.Fatal(err)
	}
	return string(out)
}
