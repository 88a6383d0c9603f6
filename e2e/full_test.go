package e2e

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/identity"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// fillEtcd puts foreign keys until etcd refuses and no defragmentation helps. etcd compares its quota
// with the size of its file as of the last commit, and the file grows by 16 MiB. So it may refuse
// while much of the file is free, and a burst of writes may pass it.
func fillEtcd(t *testing.T, etcd *clientv3.Client) {
	t.Helper()
	m := server.NewMaintenance(etcd, 0)
	value := strings.Repeat("x", 1_000_000)
	for i := 0; ; i++ {
		var burst errgroup.Group
		for k := range 8 {
			burst.Go(func() error {
				_, err := etcd.Put(t.Context(), fmt.Sprintf("/junk/%d/%d", i, k), value)
				return err
			})
		}
		err := burst.Wait()
		if err == nil || errors.Is(err, rpctypes.ErrTimeout) { // a busy etcd may take longer than it says
			continue
		}
		if !errors.Is(err, rpctypes.ErrNoSpace) {
			t.Fatal(err)
		}
		if errors.Is(m.Defragment(t.Context()), controlplane.ErrFull) {
			return
		}
	}
}

// refuses reports whether the alarm of a full database is raised.
func refuses(t *testing.T, etcd *clientv3.Client) bool {
	t.Helper()
	u, err := server.NewMaintenance(etcd, 0).Usage(t.Context())
	if err != nil {
		return true // it is being defragmented
	}
	return u.Alarm
}

// ready returns a server's answer at /readyz.
func ready(socket string) string {
	c := http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", socket)
	}}}
	defer c.CloseIdleConnections()
	resp, err := c.Get("http://escher/readyz")
	if err != nil {
		return err.Error()
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// killServers kills all servers and waits until their leases are gone.
func (f *fleet) killServers() {
	f.t.Helper()
	for _, cmd := range f.servers {
		if err := cmd.Process.Kill(); err != nil {
			f.t.Fatal(err)
		}
		_ = cmd.Wait() // that it was killed
	}
	f.await("no server leads", func() bool { return f.leader("collector") == "" && f.count(controlplane.Schedulers) == 0 })
}

// longSession is the time to live of sessions. On a busy machine etcd does not answer for seconds
// while it defragments. A session that ends then takes the resources of its node along, and the tasks
// that wait for them wait on.
const longSession = time.Minute

// TestFullEtcd fills an etcd with foreign keys, kills every server and restarts them. They report
// the problem. Once the keys are deleted, they free space by themselves, and all accepted work
// continues.
func TestFullEtcd(t *testing.T) {
	t.Parallel() // it mostly waits
	etcd := etcdtest.Start(t, etcdtest.WithQuota(32<<20))
	f := newFleetOn(t, etcd)
	dir, err := os.MkdirTemp("", "escf-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	ops := func(name string) string { return filepath.Join(dir, name) }
	names := []string{"s1", "s2"}
	for _, name := range names {
		f.serve(name, "unix://"+ops(name))
	}
	f.await("there is a cluster", func() bool { _, err := identity.ClusterID(t.Context(), f.store); return err == nil })
	f.agent("n1", longSession, simruntime.Behaviour{Forever: true})
	f.agent("n2", longSession, simruntime.Behaviour{Run: 4 * time.Second})
	set := func(resource string, where controlplane.Where) {
		t.Helper()
		if _, err := f.client.SetResource(t.Context(), resource, 100_000, where, controlplane.SetOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	launch := func(id string, needs ...string) {
		t.Helper()
		requests := map[string]types.Quantity{"cpu": 100}
		for _, name := range needs {
			requests[name] = 1000
		}
		task := types.Task{Name: "task", Requests: types.NewRequests(requests)}
		if _, err := f.client.Launch(t.Context(), controlplane.Submission{ID: id, Task: task, Spec: &types.Spec{Image: "img"}}); err != nil {
			t.Fatal(err)
		}
	}
	f.await("the nodes are there", func() bool { return f.count(controlplane.Alive) == 2 })
	set("here", controlplane.Where{Nodes: []string{"n1"}})
	set("there", controlplane.Where{Nodes: []string{"n2"}})
	for i := range 3 {
		launch(fmt.Sprint("runs-", i), "here")
		launch(fmt.Sprint("waits-", i), "here", "licence")
		launch(fmt.Sprint("ends-", i), "there")
	}
	f.await("they run", func() bool { return f.runningOn("n1") == 3 && f.runningOn("n2") == 3 })
	fillEtcd(t, etcd.Client)
	f.killServers()
	for _, name := range names {
		f.serve(name, "unix://"+ops(name))
	}
	for _, name := range names {
		f.await(name+" says what is wrong", func() bool { return strings.Contains(ready(ops(name)), `such as "/junk/`) })
	}
	if f.runningOn("n1") != 3 || !refuses(t, etcd.Client) {
		t.Errorf("%d run on n1", f.runningOn("n1"))
	}
	f.await("the foreign keys are deleted", func() bool { // a busy etcd may take longer than it says
		_, err := etcd.Client.Delete(t.Context(), "/junk/", clientv3.WithPrefix())
		return err == nil
	})
	f.await("etcd takes writes", func() bool { return !refuses(t, etcd.Client) })
	f.await("a server leads", func() bool {
		return f.leader("collector") != "" && f.leader("policies") != "" && f.count(controlplane.Schedulers) == 2
	})
	f.await("what ended is released", func() bool { return f.count(controlplane.Bindings, "n2") == 0 })
	set("licence", controlplane.Where{Cluster: true})
	f.await("what waited runs", func() bool { return f.runningOn("n1") == 6 })
	for _, s := range f.statuses() {
		if s.Node == "n1" && s.Attempt != 1 {
			t.Errorf("a task was run again: %+v", s)
		}
	}
	for _, name := range names {
		f.await(name+" is ready", func() bool { return ready(ops(name)) == "ok\n" })
	}
	f.audited()
}

// TestFullDev starts escher dev on a directory whose etcd refuses writes.
func TestFullDev(t *testing.T) {
	t.Parallel() // it mostly waits
	c := started(t)
	id := c.must("run", "-d", "--name", "before", "--request", "never=1", image, "--", "/bin/program", "work", "1h")
	c.stop()
	endpoint := make(chan string, 1)
	etcd, err := server.New(server.Config{Dir: filepath.Join(c.dir, "etcd"), QuotaBytes: 32 << 20, Ready: func(at string) { endpoint <- at }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- etcd.Run(ctx) }()
	client := etcdtest.Connect(t, <-endpoint)
	fillEtcd(t, client)
	if _, err := client.Delete(t.Context(), "/junk/", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
	if !refuses(t, client) {
		t.Fatal("it takes writes")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	c.start()
	// It frees the database beside everything else, which takes a moment.
	var got outcome
	if !eventually(func() bool {
		got = c.escher("run", image, "--", "/bin/program", "echo", "after")
		return got.code == 0
	}) || !strings.Contains(got.out, "after") {
		t.Errorf("it says %+v", got)
	}
	if c.tasks()[strings.TrimSpace(id)].Phase == "" {
		t.Errorf("%s is gone: %v", id, c.tasks())
	}
}
