package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/identity"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// fleet is servers as processes, on a real etcd, with agents in this process whose containers are
// simulated: enough to observe many tasks.
type fleet struct {
	t        *testing.T
	store    *etcdstore.Store
	client   *controlplane.Client
	endpoint string
	servers  map[string]*exec.Cmd
}

func newFleet(t *testing.T, servers ...string) *fleet {
	t.Helper()
	f := newFleetOn(t, etcdtest.Start(t))
	for _, name := range servers {
		f.serve(name, "127.0.0.1:0")
	}
	f.await("there is a cluster", func() bool { _, err := identity.ClusterID(t.Context(), f.store); return err == nil })
	return f
}

// newFleetOn is a fleet without servers.
func newFleetOn(t *testing.T, etcd *etcdtest.Server) *fleet {
	t.Helper()
	f := &fleet{t: t, endpoint: etcd.Endpoint, store: etcdstore.New(etcd.Client, etcdstore.ServerLimits()), servers: make(map[string]*exec.Cmd)}
	var err error
	if f.client, err = controlplane.New(f.store, "default"); err != nil {
		t.Fatal(err)
	}
	return f
}

// serve starts a server, with its metrics and health at an address.
func (f *fleet) serve(name, ops string) {
	f.t.Helper()
	cmd := exec.Command(built.escher, "server", "--name", name, "--ops", ops, "--endpoints", f.endpoint)
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // it may have been killed
		_ = cmd.Wait()
		if f.t.Failed() {
			lines := strings.Split(said.String(), "\n")
			f.t.Logf("the end of what %s said:\n%s", name, strings.Join(lines[max(0, len(lines)-20):], "\n"))
		}
	})
	f.servers[name] = cmd
}

// agent runs the agent of a node until the test ends or crash is called, which leaves its session
// to expire.
func (f *fleet) agent(node string, ttl time.Duration, behaviour simruntime.Behaviour) (crash func()) {
	f.t.Helper()
	cluster, err := identity.ClusterID(f.t.Context(), f.store)
	if err != nil {
		f.t.Fatal(err)
	}
	a, err := nodeagent.New(nodeagent.Config{
		Store: f.store, Cluster: cluster, Node: node, StateDir: f.t.TempDir(), TTL: ttl,
		Runtime:  simruntime.New(simruntime.Config{Script: func(nodeagent.Container) (simruntime.Behaviour, error) { return behaviour, nil }}),
		Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 100_000}),
	})
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = a.Run(ctx) // that it was cancelled
	}()
	crash = func() { cancel(); <-done }
	f.t.Cleanup(crash)
	return crash
}

func (f *fleet) await(what string, holds func() bool) {
	f.t.Helper()
	for begin := time.Now(); !holds(); after(50 * time.Millisecond) {
		if time.Since(begin) > 90*time.Second {
			f.t.Fatalf("waited in vain for: %s", what)
		}
	}
}

// count returns the number of keys below a prefix.
func (f *fleet) count(kind controlplane.Kind, segments ...string) int {
	f.t.Helper()
	kvs, _, err := controlplane.ListAll(f.t.Context(), f.store, controlplane.ListOptions{Prefix: controlplane.Prefix(kind, segments...), KeysOnly: true})
	if err != nil {
		f.t.Fatal(err)
	}
	return len(kvs)
}

// statuses are the statuses of all tasks.
func (f *fleet) statuses() []types.Status {
	f.t.Helper()
	kvs, _, err := controlplane.ListAll(f.t.Context(), f.store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Statuses, "default")})
	if err != nil {
		f.t.Fatal(err)
	}
	out := make([]types.Status, len(kvs))
	for i, kv := range kvs {
		if err := types.Decode(kv.Value, &out[i]); err != nil {
			f.t.Fatal(err)
		}
	}
	return out
}

// runningOn returns how many tasks run on a node, by their statuses.
func (f *fleet) runningOn(node string) int {
	f.t.Helper()
	n := 0
	for _, s := range f.statuses() {
		if s.Phase == types.Running && s.Node == node {
			n++
		}
	}
	return n
}

// launch launches n identical tasks.
func (f *fleet) launch(n int, task types.Task) {
	f.t.Helper()
	all := make([]controlplane.Submission, n)
	for i := range all {
		all[i] = controlplane.Submission{ID: fmt.Sprintf("t%02d", i), Task: task, Spec: &types.Spec{Image: "img"}}
	}
	if _, err := f.client.Launch(f.t.Context(), all...); err != nil {
		f.t.Fatal(err)
	}
}

// leader returns the server that has a role; "" if there is none.
func (f *fleet) leader(role string) string {
	f.t.Helper()
	page, err := f.store.List(f.t.Context(), controlplane.ListOptions{Key: controlplane.LeaderKey(role)})
	if err != nil {
		f.t.Fatal(err)
	}
	if len(page.KVs) == 0 {
		return ""
	}
	var l types.Leader
	if err := types.Decode(page.KVs[0].Value, &l); err != nil {
		f.t.Fatal(err)
	}
	return l.Holder
}

// audited checks the guarantees.
func (f *fleet) audited() {
	f.t.Helper()
	report, err := audit.Run(f.t.Context(), f.store)
	if err != nil || len(report.Findings) > 0 {
		f.t.Errorf("audit: %+v, %v", report.Findings, err)
	}
}

// TestDrainOutlivesItsServer kills the server that drains a node when some of the tasks were told
// to leave, and no more are allowed yet: another one completes the drain.
func TestDrainOutlivesItsServer(t *testing.T) {
	t.Parallel() // it mostly waits
	f := newFleet(t, "s1", "s2")
	const n, atOnce = 40, 32
	// They leave when the server that told them is dead.
	f.agent("n1", nodeagent.DefaultTTL, simruntime.Behaviour{Forever: true, StopAfter: 3 * time.Second})
	f.launch(n, types.Task{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 100})})
	f.await("all run on n1", func() bool { return f.runningOn("n1") == n })
	f.agent("n2", nodeagent.DefaultTTL, simruntime.Behaviour{Forever: true})
	if _, err := f.client.Cordon(t.Context(), "n1", types.Cordon{Drain: types.DrainMove}); err != nil {
		t.Fatal(err)
	}
	told := func() int {
		kvs, _, err := controlplane.ListAll(t.Context(), f.store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Tasks, "default")})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, kv := range kvs {
			var x types.Task
			if err := types.Decode(kv.Value, &x); err != nil {
				t.Fatal(err)
			}
			if x.Evict != 0 {
				n++
			}
		}
		return n
	}
	f.await("some are told to leave", func() bool { return told() > 0 })
	first := f.leader("collector")
	if f.servers[first] == nil {
		t.Fatalf("%q drains", first)
	}
	if err := f.servers[first].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if n := told(); n > atOnce {
		t.Errorf("%d were told to leave at once", n)
	}
	f.await("all run on n2", func() bool { return f.runningOn("n2") == n })
	if second := f.leader("collector"); second == first || second == "" {
		t.Errorf("%q drains, after %q was killed", second, first)
	}
	if left := f.count(controlplane.Bindings, "n1"); left != 0 {
		t.Errorf("%d are left on n1", left)
	}
	f.audited()
}

// TestDeadNode lets a machine die with a Keep task: the task stays bound, and the node cannot be
// removed, until an operator declares it dead.
func TestDeadNode(t *testing.T) {
	t.Parallel() // it mostly waits
	f := newFleet(t, "s1")
	crash := f.agent("n1", 5*time.Second, simruntime.Behaviour{Forever: true})
	f.launch(1, types.Task{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 100}), OnDisconnect: types.Keep})
	f.await("it runs on n1", func() bool { return f.runningOn("n1") == 1 })
	f.agent("n2", nodeagent.DefaultTTL, simruntime.Behaviour{Forever: true})
	f.await("n2 is alive", func() bool { return f.count(controlplane.Alive) == 2 })
	escher := func(args ...string) outcome { return command(t, nil, append(args, "--endpoints", f.endpoint)...) }
	if o := escher("node", "rm", "--dead", "n1"); o.code != 6 || !strings.Contains(o.err, "its agent is alive, so the machine is not dead") {
		t.Errorf("alive: %+v", o)
	}
	crash()
	f.await("n1 is lost", func() bool { return f.count(controlplane.Alive) == 1 })
	if o := escher("node", "rm", "n1"); o.code != 6 || !strings.Contains(o.err, "default/t00") || !strings.Contains(o.err, "escher node rm --dead n1") {
		t.Errorf("it is kept: %+v", o)
	}
	if o := escher("why", "t00"); !strings.Contains(o.out, "is kept for it") || !strings.Contains(o.out, "escher node rm --dead n1") {
		t.Errorf("why: %+v", o)
	}
	if n := f.count(controlplane.Bindings, "n1"); n != 1 {
		t.Fatalf("%d are bound to n1", n)
	}
	if o := escher("node", "rm", "--dead", "n1"); o.code != 0 || o.out != "n1\n" {
		t.Errorf("declared dead: %+v", o)
	}
	f.await("it runs on n2", func() bool { return f.runningOn("n2") == 1 })
	if o := escher("nodes", "-o", "name"); o.out != "n2\n" {
		t.Errorf("nodes: %+v", o)
	}
	f.audited()
}
