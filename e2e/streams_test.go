package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestLogsOfMachines runs a job on two hosts, whose tasks write to both streams in turn. One agent is
// killed: the output of the other task is there, and the command says what is missing.
func TestLogsOfMachines(t *testing.T) {
	t.Parallel() // it mostly waits
	m := newMachines(t)
	m.begin(m.net.add(), "server", "--name", "server-1")
	m.agent("a")
	m.agent("b")
	m.must("image", "make", image, built.program, built.escher)
	ids := strings.Fields(m.must("run", "-d", "--count", "2", "--apart", "--name", "both", image, "--", "program", "alternate", "50ms"))
	m.must(append([]string{"wait", "--until", "running"}, ids...)...)
	job := m.must("jobs", "-o", "name")
	var all outcome
	m.await("both have written", func() bool {
		all = m.escher("logs", "-t", job)
		return strings.Contains(all.out, ids[0]) && strings.Contains(all.out, ids[1]) && strings.Count(all.err, "err") > 20
	})
	inOrder(t, "standard output", all.out, "out", ids)
	inOrder(t, "error output", all.err, "err", ids)
	// More lines may come between the look for the last three and their reading.
	if o := m.escher("logs", "--stderr", "--tail", "3", job); o.code != 0 || o.out != "" || strings.Count(o.err, "err") < 6 || strings.Count(o.err, "err") > 18 {
		t.Errorf("three lines of each: %+v", o)
	}
	since := time.Now()
	m.await("something new was written", func() bool {
		return strings.Contains(m.must("logs", "--stdout", "--since", since.Format(time.RFC3339Nano), ids[0]), "out")
	})
	for _, line := range strings.Split(m.must("logs", "-t", "--stdout", "--since", since.Format(time.RFC3339Nano), ids[0]), "\n") {
		if at, err := time.Parse(time.RFC3339Nano, strings.Fields(line)[0]); err != nil || at.Before(since) {
			t.Errorf("since %s: %q, %v", since, line, err)
		}
	}

	away := "b"
	lost, there := ids[0], ids[1]
	if m.task(there).Node == away {
		lost, there = there, lost
	}
	m.end(m.agents[away], syscall.SIGKILL)
	o := m.escher("logs", job)
	if o.code != 7 || !strings.Contains(o.out, there+" | out 1\n") || strings.Contains(o.out, lost) || !strings.Contains(o.err, "output of "+lost+" is missing: ask node b") ||
		!strings.Contains(o.err, "output of 1 tasks is missing: "+lost) {
		t.Errorf("with agent b killed: %+v", o)
	}
	m.agent(away)
	m.await("all output is there again", func() bool { return m.escher("logs", job).code == 0 })
	m.must(append([]string{"stop", "--wait", "--grace", "1s"}, ids...)...)
}

// inOrder checks that lines have times, which ascend, and numbers, which ascend for each task.
func inOrder(t *testing.T, what, text, name string, ids []string) {
	t.Helper()
	var latest time.Time
	last := make(map[string]int)
	for _, line := range strings.Split(strings.TrimSpace(text), "\n") {
		var id, at, stream string
		var n int
		if _, err := fmt.Sscanf(line, "%s | %s %s %d", &id, &at, &stream, &n); err != nil || stream != name || !slices.Contains(ids, id) {
			t.Fatalf("%s: %q, %v", what, line, err)
		}
		now, err := time.Parse(time.RFC3339Nano, at)
		if err != nil || now.Before(latest) || last[id] != 0 && n != last[id]+2 {
			t.Errorf("%s: %q comes after %s and %d, %v", what, line, latest, last[id], err)
		}
		latest, last[id] = now, n
	}
}
