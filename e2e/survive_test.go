package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/types"
)

// put writes values as a program other than Escher may.
func (c *cluster) put(values map[string][]byte) {
	c.t.Helper()
	store, err := etcdstore.Open(etcdstore.Config{Endpoints: []string{"unix://" + filepath.Join(c.dir, "etcd/run/etcd.sock")}})
	if err != nil {
		c.t.Fatal(err)
	}
	defer store.Close()
	var txn controlplane.Txn
	for key, value := range values {
		txn.Ops = append(txn.Ops, controlplane.Op{Key: key, Value: value})
	}
	if _, err := store.Commit(c.t.Context(), txn); err != nil {
		c.t.Fatal(err)
	}
}

// ready starts escher dev, and nothing that follows it.
func (c *cluster) ready(args ...string) {
	c.t.Helper()
	select {
	case <-c.launch(args...):
	case err := <-c.ended:
		c.t.Fatalf("escher dev did not start: %v\n%s", err, c.stderr)
	case <-time.After(2 * time.Minute):
		c.t.Fatalf("escher dev does not start\n%s", c.stderr)
	}
}

// TestHugeTexts submits a task with a mount path of 530,000 bytes, and stores such a spec,
// and a stop with a reason of 1.57 MB, past all checks. The cluster outlives each, and a
// drain with a shorter grace.
func TestHugeTexts(t *testing.T) {
	c := newCluster(t)
	c.ready("--nodes", "2")
	c.must("image", "make", image, built.program, built.escher)
	path := "/" + strings.Repeat("a", 530_000)
	text, err := json.Marshal(map[string]any{
		"apiVersion": "escher.dev/v1", "kind": "Task", "name": "huge",
		"spec": map[string]any{"image": image, "mounts": []any{map[string]any{"source": path, "target": "/x"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "huge.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if o := c.escher("submit", "-f", file); o.code != 2 || !strings.Contains(o.err, "spec.mounts[0].source") || !strings.Contains(o.err, "at most 4096") || len(o.err) > 1000 {
		t.Errorf("submit: exit code %d, %d bytes: %.500s", o.code, len(o.err), o.err)
	}
	spec := &types.Spec{Image: image, Mounts: []types.Mount{{Source: path, Target: "/x"}}}
	task := &types.Task{Name: "huge", Spec: controlplane.SpecDigest(spec), Submitted: time.Now().UnixNano()}
	c.put(map[string][]byte{
		controlplane.SpecKey("default", task.Spec):    types.Encode(1, spec),
		controlplane.TaskKey("default", "huge-00000"): types.Encode(1, task),
	})
	if o := c.escher("wait", "huge-00000", "--timeout", "30s"); o.code != 126 {
		t.Errorf("the task with the huge spec ends with %d: %s", o.code, o.err)
	}
	if x := c.tasks()["huge-00000"]; x.Phase != "failed" || !strings.Contains(x.Reason, "at most 524288 are allowed") || len(x.Reason) > types.MaxReason {
		t.Errorf("phase %s, %d bytes: %.500s", x.Phase, len(x.Reason), x.Reason)
	}
	stays := c.must("run", "-d", "--name", "stays", image, "--", "/bin/program", "work", "1h")
	c.must("wait", "--until", "running", stays)
	reason := protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), strings.Repeat("r", 1_560_000))
	stopped := protowire.AppendBytes(protowire.AppendTag(types.Encode(1, task), 14, protowire.BytesType), reason)
	c.put(map[string][]byte{controlplane.TaskKey("default", stays): stopped})
	for _, node := range []string{"node-1", "node-2"} {
		c.must("node", "drain", node, "--mode", "move", "--grace", "1s", "--detach")
		after(time.Second)
		c.must("node", "uncordon", node)
	}
	if out := c.must("run", image, "--", "/bin/program", "echo", "here"); out != "here" {
		t.Errorf("afterwards: %q", out)
	}
	c.must("audit", "--repair", controlplane.TaskKey("default", stays), "-y")
	c.must("audit", "--repair", controlplane.SpecKey("default", task.Spec), "-y")
	if o := c.escher("audit"); o.code != 0 {
		t.Errorf("escher audit: %s%s", o.out, o.err)
	}
}

// TestLargestAmounts has nine tasks hold the largest amount that can be asked for of a
// resource without bound: the sum is right, and is nothing when they have ended.
func TestLargestAmounts(t *testing.T) {
	c := started(t)
	if o := c.escher("run", "--request", "x=1152921504606846", image); o.code != 2 || !strings.Contains(o.err, "too large: the largest is 9007199254740.992") {
		t.Errorf("exit code %d: %s", o.code, o.err)
	}
	c.must("set-resource", "--cluster", "x", "inf")
	c.must("set-resource", "--all", "y", "inf")
	var ids []string
	for range 9 {
		ids = append(ids, c.must("run", "-d", "--name", "large", "--request", "x=9007199254740.992", "--request", "y=9007199254740.992", image, "--", "/bin/program", "work", "1h"))
	}
	c.must(append([]string{"wait", "--until", "running"}, ids...)...)
	c.must("audit")
	for _, id := range ids {
		c.must("stop", "--grace", "1s", id)
	}
	c.escher(append([]string{"wait"}, ids...)...)
	c.must("audit")
	if out := c.must("state", "-o", "json"); strings.Contains(out, `"allocated": "9`) || strings.Contains(out, `"allocated": "8`) {
		t.Errorf("something is in use: %s", out)
	}
}

// TestFrozen stops an agent, a server and a containerd for half of the time that a session
// lives, and for twice as long, and lets them go on: what may run runs, nothing runs twice,
// and every invariant holds at every revision. ESCHER_E2E_FROZEN=100s freezes them that
// long once more.
func TestFrozen(t *testing.T) {
	m := newMachines(t)
	host := m.net.add()
	servers := []*daemonProcess{m.begin(host, "server", "--name", "server-1"), m.begin(host, "server", "--name", "server-2", "--ops", "127.0.0.1:7421")}
	for _, node := range []string{"a", "b", "c"} {
		m.agent(node)
	}
	end := m.follow()
	defer end()
	m.must("image", "make", image, built.program, built.escher)
	work := strings.Fields(m.must("run", "-d", "--count", "3", "--name", "work", "--request", "cpu=500m", image, "--", "program", "work", "1h"))
	m.must(append([]string{"wait", "--until", "running"}, work...)...)
	const ttl = 5 * time.Second
	long := []time.Duration{ttl / 2, 2 * ttl}
	if text := os.Getenv("ESCHER_E2E_FROZEN"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		long = append(long, d)
	}
	for _, d := range long {
		frozen := []int{m.agents["a"].cmd.Process.Pid, servers[0].cmd.Process.Pid}
		frozen = append(frozen, withCommand("--config "+filepath.Join(m.dir, "b"))...)
		for _, pid := range frozen {
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
		}
		after(d)
		for _, pid := range frozen {
			if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		}
		m.await("all nodes are alive", func() bool {
			return strings.Count(m.must("nodes"), "ready") == 3
		})
		m.await("all tasks run", func() bool {
			for _, id := range work {
				if m.task(id).Phase != "running" {
					return false
				}
			}
			return true
		})
		if out := m.must("run", image, "--", "program", "echo", "after "+d.String()); out != "after "+d.String() {
			t.Errorf("after %s: %q", d, out)
		}
	}
	m.neverTwice(5)
}
