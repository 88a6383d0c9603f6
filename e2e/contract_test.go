package e2e

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestTrainingJob runs the example of distributed training on three hosts, with a stand-in for
// torchrun: each task meets all others at the addresses in its environment, also after one of them
// was killed.
func TestTrainingJob(t *testing.T) {
	t.Parallel() // it mostly waits
	m := newMachines(t)
	m.begin(m.net.add(), "server", "--name", "server-1")
	for _, node := range []string{"a", "b", "c"} {
		m.agent(node)
	}
	programs := []string{built.program}
	for _, name := range []string{"sh", "torchrun"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.Link(built.program, path); err != nil {
			t.Fatal(err)
		}
		programs = append(programs, path)
	}
	m.must(append([]string{"image", "make", "escher.local/torch:latest"}, programs...)...)

	job := m.must("submit", "-f", write(t, training(t)))
	var ids []string
	for i := range 3 {
		ids = append(ids, fmt.Sprintf("%s.%d", job, i))
	}
	m.met(ids, 1)
	victim := ""
	for node := range m.hosts {
		for _, pid := range m.processes(node, "torchrun --nnodes") {
			env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			if err == nil && strings.Contains(string(env), "ESCHER_TASK="+ids[1]+"\x00") {
				victim = strconv.Itoa(pid)
				if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if victim == "" {
		t.Fatal("the second task has no process")
	}
	m.met(ids, 2)
	m.must(append([]string{"stop", "--grace", "1s"}, ids...)...)
	m.escher("wait", "--timeout", patience.String(), ids[0]) // which ends like the task
	m.must("audit")
}

// training is the example of distributed training for hosts without devices.
func training(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../examples/jobs/torchrun.yaml")
	if err != nil {
		t.Fatal(err)
	}
	out := string(text)
	for _, c := range [][2]string{
		{"count: 2", "count: 3"},
		{"{in: rack, ", "{"},
		{"requests: {cpu: 64, memory: 900Gi, gpu: {count: 8, model: H100, topology: nvlink}}", "requests: {cpu: 1500m}"},
		{"nvcr.io/nvidia/pytorch:25.10-py3", "escher.local/torch:latest"},
		{"shm: 64Gi", "shm: 1Mi"},
		{"USR1@120s", "USR1@1s"}, // the stand-in saves nothing, and ends late
	} {
		if !strings.Contains(out, c[0]) {
			t.Fatalf("the example lacks %q", c[0])
		}
		out = strings.Replace(out, c[0], c[1], 1)
	}
	return out
}

// met waits until all tasks have met at an attempt, and checks that they know the same, true
// addresses.
func (m *machines) met(ids []string, attempt int) {
	m.t.Helper()
	said := make([]string, len(ids))
	for i, id := range ids {
		m.await(fmt.Sprintf("task %s meets the others at attempt %d", id, attempt), func() bool {
			o := m.escher("logs", "--attempt", strconv.Itoa(attempt), id)
			_, said[i], _ = strings.Cut(strings.TrimSpace(o.out), "rank ")
			return said[i] != ""
		})
		said[i], _, _ = strings.Cut(said[i], "\n")
	}
	_, list, _ := strings.Cut(said[0], " met ")
	for i, address := range strings.Split(list, ",") {
		if want := fmt.Sprintf("%d of %d at attempt %d met %s", i, len(ids), attempt, list); said[i] != want {
			m.t.Errorf("task %s says %q, want %q", ids[i], said[i], want)
		}
		host, _, err := net.SplitHostPort(address)
		if want := m.net.address(m.hosts[m.task(ids[i]).Node]); err != nil || host != want {
			m.t.Errorf("task %s is at %s, want %s", ids[i], address, want)
		}
	}
}
