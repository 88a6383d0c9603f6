package e2e

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/nodeagent/fence/watchdog"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
)

// TestWatchdogCollects lets a watchdog check a node whose deadline has passed some fifty times. It
// hardly collects garbage: under a limit below its size it does so all the time, and kills late.
func TestWatchdogCollects(t *testing.T) {
	dir := t.TempDir()
	page, err := watchdog.OpenPage(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = page.Close() }() // it is done
	if err := page.Set(t.Context(), watchdog.BootTime(), watchdog.BootID()); err != nil {
		t.Fatal(err)
	}
	arg, err := json.Marshal(watchdog.Config{Dir: dir, Nodes: []watchdog.Node{{
		Name: "n1", StateDir: dir, Root: cgroup.DefaultRoot, Cgroups: cgroup.Layout{Driver: cgroup.Cgroupfs, Group: "escher-no-such-group"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(built.escher, watchdog.Subcommand, string(arg))
	cmd.Env = append(watchdog.Environ(), "GODEBUG=gctrace=1")
	var said strings.Builder
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Errorf("it says %q, %v", line, err)
	}
	after(5 * time.Second)
	_ = cmd.Process.Kill() // it has done enough
	_ = cmd.Wait()         // it was killed
	if n := strings.Count(said.String(), "gc "); n > 30 {
		t.Errorf("%d collections of garbage\n%s", n, said.String())
	}
}
