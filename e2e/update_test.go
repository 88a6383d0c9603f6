package e2e

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/types"
)

// served is a job of two web servers with a health check.
func served(version, update string) string {
	return fmt.Sprintf(`
apiVersion: escher.dev/v1
kind: Job
name: web
count: 2
update: %s
template:
  requests: {cpu: 100m}
  spec:
    image: escher.local/e2e:latest
    command: [/bin/program, serve]
    env: [VERSION=%s]
    ports: [{name: http}]
    checks: [{name: up, http: {port: http, path: /healthz}, every: 1s, timeout: 20s}]
    grace: 2s
`, update, version)
}

// TestUpdate replaces the tasks of a service that runs, and looks at every revision of it.
func TestUpdate(t *testing.T) {
	t.Parallel() // it mostly waits
	c := started(t, "--nodes", "2", "--cpu", "2")
	const startFirst, stopFirst = "{order: start-first, healthy: 1s}", "{healthy: 1s}"
	c.must("apply", "-f", write(t, served("a", startFirst)))
	c.must("wait", "--until", "healthy", "web")

	since := c.revision()
	out := c.escher("apply", "--replace", "-f", write(t, served("b", startFirst)))
	if out.code != 0 || strings.Count(out.err, "web: replaced web-") != 2 {
		t.Errorf("apply: exit code %d\n%s%s", out.code, out.out, out.err)
	}
	c.eachRevision(since, func(at int64, healthy, held int) {
		if healthy < 2 || held > 3 {
			t.Errorf("start-first, at revision %d: %d are healthy, %d held", at, healthy, held)
		}
	})

	since = c.revision()
	c.must("apply", "--replace", "-f", write(t, served("c", stopFirst)))
	c.eachRevision(since, func(at int64, healthy, held int) {
		if healthy < 1 || held > 2 {
			t.Errorf("stop-first, at revision %d: %d are healthy, %d held", at, healthy, held)
		}
	})

	// Ctrl-C ends an apply; another one goes on.
	since = c.revision()
	path := write(t, served("d", startFirst))
	cmd := exec.Command(built.escher, "apply", "--replace", "-f", path, "--dir", c.dir)
	text := new(strings.Builder)
	cmd.Stderr = text
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return len(c.tasks()) > 2 }) {
		t.Error("no third task comes")
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil || !strings.Contains(text.String(), "to go on, apply the file again") {
		t.Errorf("interrupted, it says %v, %s", err, text)
	}
	if plan := c.must("plan", "--replace", "-f", path); !strings.Contains(plan, " update ") {
		t.Errorf("then plan says\n%s", plan)
	}
	c.must("apply", "--replace", "-f", path)
	c.eachRevision(since, func(at int64, healthy, _ int) {
		if healthy < 2 {
			t.Errorf("after Ctrl-C, at revision %d: %d are healthy", at, healthy)
		}
	})
	if again := c.must("apply", "-f", path); !strings.Contains(again, "unchanged") {
		t.Errorf("applied again:\n%s", again)
	}
	if all := c.tasks(); len(all) != 2 {
		t.Errorf("there are %v", all)
	}
	c.must("audit")
}

// eachRevision calls f for every revision after one: with the number of healthy tasks that are not to
// stop, and of those on a node.
func (c *cluster) eachRevision(since int64, f func(revision int64, healthy, held int)) {
	c.t.Helper()
	store, err := etcdstore.Open(etcdstore.Config{Endpoints: []string{"unix://" + filepath.Join(c.dir, "etcd/run/etcd.sock")}})
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			c.t.Error(err)
		}
	}()
	now := c.revision()
	tasks, statuses := make(map[string]*types.Task), make(map[string]*types.Status)
	apply := func(e controlplane.Event) {
		k, _ := controlplane.Parse(e.Key)
		task, status := new(types.Task), new(types.Status)
		switch {
		case k.Kind == controlplane.Tasks && e.Delete:
			delete(tasks, k.ID)
		case k.Kind == controlplane.Statuses && e.Delete:
			delete(statuses, k.ID)
		case k.Kind == controlplane.Tasks && controlplane.Read(e.KV, task):
			tasks[k.ID] = task
		case k.Kind == controlplane.Statuses && controlplane.Read(e.KV, status):
			statuses[k.ID] = status
		}
	}
	kvs, _, err := controlplane.ListAll(c.t.Context(), store, controlplane.ListOptions{Prefix: controlplane.Root, Revision: since})
	if err != nil {
		c.t.Fatal(err)
	}
	for _, kv := range kvs {
		apply(controlplane.Event{KV: kv})
	}
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	batches := store.Watch(ctx, controlplane.WatchOptions{Prefix: controlplane.Root, From: since + 1})
	revisions := 0
	for batch := range batches {
		if batch.Err != nil {
			c.t.Fatal(batch.Err)
		}
		for i, e := range batch.Events {
			if apply(e); i+1 < len(batch.Events) && batch.Events[i+1].ModRevision == e.ModRevision {
				continue
			}
			healthy, held := 0, 0
			for id, s := range statuses {
				if s.Phase.Held() {
					held++
				}
				if tasks[id] != nil && tasks[id].Stop == nil && s.Phase == types.Running && s.Health.Usable() {
					healthy++
				}
			}
			f(e.ModRevision, healthy, held)
			revisions++
		}
		if batch.Revision >= now {
			break
		}
	}
	if revisions == 0 {
		c.t.Error("there was no revision")
	}
}
