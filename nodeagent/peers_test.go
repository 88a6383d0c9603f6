package nodeagent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// counting counts the reads of a store, by kind of key.
type counting struct {
	*flaky
	mu    sync.Mutex
	reads map[controlplane.Kind]int
}

func (c *counting) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	if k, ok := controlplane.Parse(opts.Key); ok {
		c.mu.Lock()
		c.reads[k.Kind]++
		c.mu.Unlock()
	}
	return c.flaky.List(ctx, opts)
}

// TestStartReadsOneKeyMore: the start of a task reads its key, and a restart in place nothing. All
// else that it needs is read once for many tasks.
func TestStartReadsOneKeyMore(t *testing.T) {
	var envs [][]string
	rt := simruntime.Config{Script: func(c nodeagent.Container) (simruntime.Behaviour, error) {
		envs = append(envs, c.Env)
		return simruntime.Behaviour{Run: time.Second, Code: 1}, nil
	}}
	bubble(t, rt, func(t *testing.T, b *bench) {
		b.crash()
		store := &counting{flaky: b.store, reads: make(map[controlplane.Kind]int)}
		b.cfg.Store = store
		b.start()
		again := b.runs(func(s *types.Spec) {
			s.Restart = &types.Restart{When: types.RestartAlways, Limit: 1, Delay: time.Second}
		})
		start := func(task string) map[controlplane.Kind]int {
			b.put(controlplane.TaskKey("d", task), &types.Task{Name: task, Job: "j", Index: 3, Count: 5})
			store.mu.Lock()
			clear(store.reads)
			store.mu.Unlock()
			b.bind(task, again)
			b.pass(500 * time.Millisecond)
			b.expect(task, types.ReportRunning)
			b.pass(4 * time.Second)
			b.expect(task, types.ReportExited)
			return store.reads
		}
		start("first")
		reads := start("second")
		if reads[controlplane.Tasks] != 1 || reads[controlplane.Specs]+reads[controlplane.Jobs]+reads[controlplane.Statuses]+reads[controlplane.Namespaces] != 0 {
			t.Errorf("it read %v", reads)
		}
		if len(envs) != 4 || !slices.Contains(envs[3], "ESCHER_INDEX=3") || !slices.Contains(envs[3], "ESCHER_JOB=j") {
			t.Errorf("%d starts, the last with %v", len(envs), envs[len(envs)-1])
		}
	})
}

// TestStartAwaitsItsTask: an attempt whose task cannot be read waits, and says so.
func TestStartAwaitsItsTask(t *testing.T) {
	bubble(t, does(simruntime.Behaviour{Forever: true}), func(t *testing.T, b *bench) {
		key := controlplane.TaskKey("d", "a")
		res, err := b.store.Store.Commit(t.Context(), controlplane.Txn{Ops: []controlplane.Op{{Key: key, Value: []byte("junk")}}})
		if err != nil || !res.Committed {
			t.Fatal(err)
		}
		b.bind("a")
		b.pass(10 * time.Second)
		if r := b.expect("a", types.ReportStarting); !strings.Contains(r.Reason, "/escher/tasks/d/a is unreadable") {
			t.Error(r.Reason)
		}
		b.put(key, &types.Task{Job: "j", Count: 1})
		b.pass(3 * time.Second)
		b.expect("a", types.ReportRunning)
	})
}

// peersFile is the directory of a task's socket, as its process sees it.
type peersFile struct {
	t   *testing.T
	dir string
}

// await waits until the file of addresses has a text.
func (f *peersFile) await(want string) {
	f.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; {
		text, _ := os.ReadFile(filepath.Join(f.dir, tasksocket.PeersName))
		if string(text) == want {
			return
		}
		if time.Now().After(end) {
			f.t.Fatalf("the file has %q, want %q", text, want)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// watch sends what the task socket tells of peers.
func (f *peersFile) watch(ctx context.Context, events chan<- string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://escher/v1/peers", nil)
	if err != nil {
		f.t.Error(err)
		return
	}
	res, err := bySocket(f.dir).Do(req)
	if err != nil {
		return // it is over
	}
	defer res.Body.Close()
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		var all tasksocket.Peers
		if err := json.Unmarshal([]byte(data), &all); err != nil {
			f.t.Error(err)
		}
		text := "peers"
		for _, p := range all.Peers {
			text += " " + p.Task + "=" + p.Address
		}
		events <- text
	}
}

// newPeersBench is a node with one task of a job of two; started receives the file of addresses at
// the start of its process.
func newPeersBench(t *testing.T) (b *bench, f *peersFile, started chan string) {
	started, f = make(chan string, 1), &peersFile{t: t}
	b = newBench(t, simruntime.Config{Script: func(c nodeagent.Container) (simruntime.Behaviour, error) {
		for _, m := range c.Mounts {
			if m.Target == tasksocket.Dir {
				f.dir = m.Source
			}
		}
		text, _ := os.ReadFile(filepath.Join(f.dir, tasksocket.PeersName))
		started <- string(text)
		return simruntime.Behaviour{Forever: true}, nil
	}})
	b.cfg.SocketDir, b.cfg.Host = t.TempDir(), "10.0.0.1"
	b.cfg.BootClock, b.cfg.BootID = nil, ""
	for _, id := range []string{"j.0", "j.1"} {
		b.put(controlplane.TaskKey("d", id), &types.Task{Job: "j"})
	}
	b.put(controlplane.JobKey("d", "j"), &types.Job{Members: []string{"j.0", "j.1"}})
	b.put(controlplane.NodeKey("n2"), &types.Node{Host: "10.0.0.2"})
	return b, f, started
}

// TestPeersFile: the file of addresses exists when the process starts, follows the job, also after
// a restart of the agent, and so does the watch of the socket. Sockets work in real time only.
func TestPeersFile(t *testing.T) {
	b, f, started := newPeersBench(t)
	crash := b.runInRealTime()
	defer func() { crash() }()
	b.put(controlplane.StatusKey("d", "j.1"), &types.Status{Phase: types.Bound, Node: "n1", Attempt: 1})
	b.bind("j.1", b.runs(func(s *types.Spec) { s.Peers, s.Socket = types.RunningPeers, types.SocketSelf }), func(x *types.Binding) { x.Session, x.OnDisconnect = 1, types.Keep })
	if got := <-started; got != "10.0.0.1:0\n" {
		t.Errorf("when the process starts: %q", got)
	}
	events := make(chan string, 9)
	ctx, cancel := context.WithCancel(t.Context())
	go f.watch(ctx, events)
	if got := <-events; got != "peers j.1=10.0.0.1:0" {
		t.Errorf("the first event is %s", got)
	}
	b.put(controlplane.BindingKey("n2", "d", "j.0", 1), &types.Binding{})
	b.put(controlplane.StatusKey("d", "j.0"), &types.Status{Phase: types.Running, Node: "n2", Attempt: 1})
	f.await("10.0.0.2:0\n10.0.0.1:0\n")
	if got := <-events; got != "peers j.0=10.0.0.2:0 j.1=10.0.0.1:0" {
		t.Errorf("then %s", got)
	}
	cancel()
	crash()
	// A link in the place of the next file leads nowhere.
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.Symlink(secret, filepath.Join(f.dir, tasksocket.PeersName+".new")); err != nil {
		t.Fatal(err)
	}
	b.put(controlplane.StatusKey("d", "j.0"), &types.Status{Phase: types.Succeeded, Node: "n2", Attempt: 1})
	crash = b.runInRealTime()
	f.await("10.0.0.1:0\n")
	if _, err := os.Stat(secret); err == nil {
		t.Error("it followed a link")
	}
	entries, err := os.ReadDir(f.dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("%v, %v", entries, err)
	}
	if info, err := os.Stat(filepath.Join(f.dir, tasksocket.PeersName)); err != nil || info.Mode().Perm() != 0o644 {
		t.Error(info, err)
	}
}
