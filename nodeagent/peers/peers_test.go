package peers_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/nodeagent/peers"
	"github.com/escher-sched/escher/types"
)

// world is a store with a job whose tasks are on nodes of their own.
type world struct {
	t *testing.T
	*memstore.Store
	lists, keys atomic.Int64
	limits      controlplane.Limits
	job         types.Job
	spec        types.Spec
}

func newWorld(t *testing.T, n int, limits controlplane.Limits) *world {
	w := &world{t: t, Store: memstore.New(), limits: limits, spec: types.Spec{Image: "i", Ports: []types.TaskPort{{Name: "rdzv"}, {Name: "http", Number: 80}}}}
	for i := range n {
		id := fmt.Sprintf("train.%d", i)
		w.job.Members = append(w.job.Members, id)
		w.put(map[string]types.Message{
			controlplane.TaskKey("d", id):               &types.Task{Job: "train", Index: i, Count: n},
			controlplane.NodeKey(fmt.Sprintf("n%d", i)): &types.Node{Host: fmt.Sprintf("10.0.%d.%d", i/250, i%250), PortFirst: 1, PortLast: 9},
		})
	}
	w.put(map[string]types.Message{controlplane.JobKey("d", "train"): &w.job})
	return w
}

// Limits bounds the requests of a reader.
func (w *world) Limits() controlplane.Limits { return w.limits }

// List counts.
func (w *world) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	w.lists.Add(1)
	w.keys.Add(int64(len(opts.Keys)))
	return w.Store.List(ctx, opts)
}

func (w *world) reader() *peers.Reader {
	return &peers.Reader{Store: w, Spec: func(context.Context, string, string) (*types.Spec, error) { return &w.spec, nil }}
}

func (w *world) put(values map[string]types.Message) int64 {
	w.t.Helper()
	txn := controlplane.Txn{}
	for key, v := range values {
		op := controlplane.Op{Key: key, Delete: v == nil}
		if v != nil {
			op.Value = types.Encode(1, v)
		}
		txn.Ops = append(txn.Ops, op)
	}
	res, err := w.Commit(w.t.Context(), txn)
	if err != nil {
		w.t.Fatal(err)
	}
	return res.Revision
}

// at returns the keys of a task in a phase, on the node of its index.
func (w *world) at(i, attempt int, phase types.Phase) map[string]types.Message {
	node, id := fmt.Sprintf("n%d", i), w.job.Members[i]
	out := map[string]types.Message{
		controlplane.StatusKey("d", id):                 &types.Status{Phase: phase, Node: node, Attempt: attempt},
		controlplane.BindingKey(node, "d", id, attempt): nil,
	}
	if phase.Held() {
		out[controlplane.BindingKey(node, "d", id, attempt)] = &types.Binding{Holds: []types.Holding{{
			Resource: types.Port, Amount: 1000, Devices: []types.DeviceShare{{ID: fmt.Sprint(20000 + attempt), Share: 1000}},
		}}}
	}
	return out
}

// bind binds all tasks at one revision.
func (w *world) bind(attempt int) int64 {
	all := make(map[string]types.Message)
	for i := range w.job.Members {
		for key, v := range w.at(i, attempt, types.Bound) {
			all[key] = v
		}
	}
	return w.put(all)
}

func (w *world) self(i, attempt int, revision int64) peers.Self {
	return peers.Self{Namespace: "d", Task: w.job.Members[i], Attempt: attempt, Revision: revision}
}

// env returns the addresses in the environment of an attempt.
func (w *world) env(a *peers.Attempt, which types.Peers) (list string, err error) {
	env, err := a.Env(w.t.Context(), which)
	for _, one := range env {
		if text, ok := strings.CutPrefix(one, "ESCHER_PEERS="); ok {
			list = text
		}
	}
	return list, err
}

// addresses returns the addresses that a task knows.
func addresses(all []peers.Peer) string {
	return strings.TrimSuffix(strings.ReplaceAll(peers.Lines(all), "\n", ","), ",")
}

// TestRequests counts the requests of a start: one for a task without peers.
func TestRequests(t *testing.T) {
	for name, c := range map[string]struct {
		members int
		limits  controlplane.Limits
		which   types.Peers
		want    int64
	}{
		"no peers":                  {3, controlplane.Limits{Ops: 4096, Bytes: 1 << 20}, types.NoPeers, 1},
		"3 members":                 {3, controlplane.Limits{Ops: 4096, Bytes: 1 << 20}, types.WholePeers, 5},
		"512 members":               {512, controlplane.Limits{Ops: 4096, Bytes: 1 << 20}, types.WholePeers, 5},
		"512 members, a stock etcd": {512, controlplane.Limits{Ops: 128, Bytes: 1 << 20}, types.WholePeers, 11},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, c.members, c.limits)
			r, revision := w.reader(), w.bind(1)
			for i, want := range []int64{c.want, c.want + 1} { // the second on the node reads its own task alone
				env, err := r.Attempt(w.self(i, 1, revision), "").Env(t.Context(), c.which)
				if err != nil || !slices.Contains(env, fmt.Sprint("ESCHER_INDEX=", i)) || !slices.Contains(env, fmt.Sprint("ESCHER_COUNT=", c.members)) {
					t.Fatal(env, err)
				}
				list := ""
				for _, one := range env {
					list += strings.TrimPrefix(one, "ESCHER_PEERS=") + "\n"
				}
				if n := strings.Count(list, ":20001"); n != c.members && c.which != types.NoPeers {
					t.Errorf("it knows %d addresses", n)
				}
				if n := w.lists.Load(); n != want {
					t.Errorf("it took %d requests, want %d", n, want)
				}
			}
		})
	}
}

// TestPeersAtTheBind: members read the revision at which all of them were bound, whatever ends
// meanwhile; then the present.
func TestPeersAtTheBind(t *testing.T) {
	w := newWorld(t, 3, controlplane.Limits{Ops: 128, Bytes: 1 << 20})
	revision := w.bind(1)
	const all = "10.0.0.0:20001,10.0.0.1:20001,10.0.0.2:20001"
	expect := func(which types.Peers, attempt int, want, wantErr string) {
		t.Helper()
		got, err := w.env(w.reader().Attempt(w.self(2, attempt, revision), ""), which)
		if err != nil && (wantErr == "" || !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), wantErr)) || err == nil && (wantErr != "" || got != want) {
			t.Errorf("%s at attempt %d: %q, %v, want %q, %q", which, attempt, got, err, want, wantErr)
		}
	}
	expect(types.WholePeers, 1, all, "")
	w.put(w.at(0, 1, types.Succeeded))
	expect(types.WholePeers, 1, all, "")
	now := w.put(w.at(1, 1, types.Running))
	if err := w.Compact(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	expect(types.WholePeers, 1, ":0,10.0.0.1:20001,10.0.0.2:20001", "")
	// The next attempt is bound one by one.
	revision = w.put(w.at(2, 2, types.Bound))
	w.put(w.at(0, 1, types.Pending))
	expect(types.WholePeers, 2, "", "task train.0 has no node at attempt 2 yet")
	expect(types.AnyPeers, 2, ":0,10.0.0.1:20001,10.0.0.2:20002", "")
	w.put(w.at(0, 3, types.Bound))
	expect(types.WholePeers, 2, "", "task train.0 is at attempt 3 already, and this is attempt 2")
	w.put(w.at(0, 2, types.Bound))
	w.put(w.at(1, 2, types.Bound))
	expect(types.WholePeers, 2, "10.0.0.0:20002,10.0.0.1:20002,10.0.0.2:20002", "")
	// Values that cannot be read are awaited.
	for key, want := range map[string]string{
		controlplane.NodeKey("n1"):                       "task train.1 is on node n1, and the address there cannot be read",
		controlplane.BindingKey("n1", "d", "train.1", 2): "task train.1 is on node n1, and the address there cannot be read",
		controlplane.StatusKey("d", "train.1"):           "task train.1 has no node at attempt 2 yet",
		controlplane.JobKey("d", "train"):                "/escher/jobs/d/train is unreadable",
	} {
		was, err := controlplane.Get(t.Context(), w, key)
		if err != nil {
			t.Fatal(err)
		}
		res, err := w.Commit(t.Context(), controlplane.Txn{Ops: []controlplane.Op{{Key: key, Value: []byte("junk")}}})
		if err != nil {
			t.Fatal(err)
		}
		revision = res.Revision
		expect(types.WholePeers, 2, "", want)
		if _, err := w.Commit(t.Context(), controlplane.Txn{Ops: []controlplane.Op{{Key: key, Value: was.Value}}}); err != nil {
			t.Fatal(err)
		}
	}
	revision = w.put(map[string]types.Message{controlplane.JobKey("d", "train"): nil})
	expect(types.WholePeers, 2, "", "read job train: it is not there")
}

func TestEnv(t *testing.T) {
	all := []peers.Peer{{Index: 0, Task: "a", Host: "10.0.0.1", Port: 1}, {Index: 1, Task: "b", Host: "fd00::1"}, {Index: 2, Task: "c"}}
	many := make([]peers.Peer, types.MaxPeers)
	for i := range many {
		many[i] = peers.Peer{Index: i, Task: fmt.Sprint(i), Host: strings.Repeat("h", 200), Port: 20000}
	}
	for name, c := range map[string]struct {
		id   string
		task *types.Task
		all  []peers.Peer
		want []string
	}{
		"no task":    {"a", nil, nil, nil},
		"no job":     {"a", &types.Task{}, nil, nil},
		"no peers":   {"a", &types.Task{Job: "j", Index: 1, Count: 2}, nil, []string{"ESCHER_JOB=j", "ESCHER_INDEX=1", "ESCHER_COUNT=2"}},
		"a stranger": {"x", &types.Task{Job: "j"}, all, []string{"ESCHER_JOB=j"}},
		"peers": {"b", &types.Task{Job: "j", Index: 1, Count: 3}, all, []string{
			"ESCHER_JOB=j", "ESCHER_INDEX=1", "ESCHER_COUNT=3", "ESCHER_PEERS=10.0.0.1:1,[fd00::1]:0,:0", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=1", "NODE_RANK=1", "NNODES=3",
		}},
		"a large job": {"7", &types.Task{Job: "j", Index: 7, Count: types.MaxPeers + 1}, all[:1], []string{
			"ESCHER_JOB=j", "ESCHER_INDEX=7", "ESCHER_COUNT=1025", "MASTER_ADDR=10.0.0.1", "MASTER_PORT=1", "NODE_RANK=7", "NNODES=1025",
		}},
		"too many": {"7", &types.Task{Job: "j", Index: 7, Count: types.MaxPeers}, many, []string{
			"ESCHER_JOB=j", "ESCHER_INDEX=7", "ESCHER_COUNT=1024", "MASTER_ADDR=" + strings.Repeat("h", 200), "MASTER_PORT=20000", "NODE_RANK=7", "NNODES=1024",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := peers.Env(c.id, c.task, c.all); !slices.Equal(got, c.want) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestHosts: an older agent registers no host.
func TestHosts(t *testing.T) {
	w := newWorld(t, 5, controlplane.Limits{Ops: 128, Bytes: 1 << 20})
	for i, n := range []types.Node{
		{Host: "10.1.0.1", Address: "http://10.2.0.1:7421"},
		{Address: "https://10.2.0.1:7421"},
		{Address: "http://127.0.0.1:7421#boot"},
		{Address: "unix:///run/api.sock"},
		{},
	} {
		w.put(map[string]types.Message{controlplane.NodeKey(fmt.Sprintf("n%d", i)): &n})
	}
	got, err := w.env(w.reader().Attempt(w.self(0, 1, w.bind(1)), ""), types.WholePeers)
	if err != nil || got != "10.1.0.1:20001,10.2.0.1:20001,n2:20001,n3:20001,n4:20001" {
		t.Errorf("%s, %v", got, err)
	}
}

// TestFollow tells who runs, and the task itself, after each change, and not too often.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4, controlplane.Limits{Ops: 128, Bytes: 1 << 20})
		ctx, cancel := context.WithCancel(t.Context())
		var last string
		var n int
		ended := make(chan error)
		w.put(w.at(1, 1, types.Bound))
		go func() {
			ended <- w.reader().Follow(ctx, w.self(1, 1, 0), nil, func(all []peers.Peer) error {
				last, n = addresses(all), n+1
				return nil
			})
		}()
		expect := func(want string) {
			t.Helper()
			time.Sleep(2 * peers.Gap)
			synctest.Wait()
			if last != want {
				t.Errorf("it was told %q, want %q", last, want)
			}
		}
		expect("10.0.0.1:20001")
		w.put(w.at(3, 1, types.Bound))
		expect("10.0.0.1:20001")
		w.put(w.at(3, 1, types.Running))
		w.put(w.at(0, 1, types.Running))
		expect("10.0.0.0:20001,10.0.0.1:20001,10.0.0.3:20001")
		w.put(w.at(0, 1, types.Pending))
		expect("10.0.0.1:20001,10.0.0.3:20001")
		w.put(w.at(0, 2, types.Running))
		expect("10.0.0.0:20002,10.0.0.1:20001,10.0.0.3:20001")
		before, began := n, time.Now()
		for i := range 100 {
			phase := []types.Phase{types.Running, types.Pending}[i%2]
			w.put(w.at(2, 1+i/2, phase))
			time.Sleep(peers.Gap / 10)
		}
		synctest.Wait()
		if most := int(time.Since(began)/peers.Gap) + 1; n-before > most {
			t.Errorf("it was told %d times in %s, at most %d are to be", n-before, time.Since(began), most)
		}
		cancel()
		if err := <-ended; err == nil || ctx.Err() == nil {
			t.Error(err)
		}
		w.put(map[string]types.Message{controlplane.TaskKey("d", "lone"): &types.Task{}})
		err := w.reader().Follow(t.Context(), peers.Self{Namespace: "d", Task: "lone"}, nil, nil)
		if !types.Is(err, types.Precondition) {
			t.Error(err)
		}
	})
}

// TestWaitingReadsLittle: while a task waits, each try reads the tasks that are lacking.
func TestWaitingReadsLittle(t *testing.T) {
	w := newWorld(t, 9, controlplane.Limits{Ops: 128, Bytes: 1 << 20})
	revision := int64(0)
	for i := range 8 {
		revision = w.put(w.at(i, 1, types.Bound))
	}
	a := w.reader().Attempt(w.self(7, 1, revision), "")
	for i := range 5 {
		before, keys := w.lists.Load(), w.keys.Load()
		if _, err := w.env(a, types.WholePeers); !types.Is(err, types.Unavailable) {
			t.Fatal(err)
		}
		if n, read := w.lists.Load()-before, w.keys.Load()-keys; i > 0 && (n != 1 || read != 1) {
			t.Errorf("it took %d requests for %d keys", n, read)
		}
	}
	w.put(w.at(8, 1, types.Bound))
	w.put(w.at(3, 1, types.Failed)) // what it knows stays
	if got, err := w.env(a, types.WholePeers); err != nil || strings.Count(got, ":20001") != 9 {
		t.Error(got, err)
	}
}

// stuck is a store whose requests wait until the context of the caller is done, while held is set.
type stuck struct {
	*world
	held    atomic.Bool
	waiting atomic.Int64
}

func (s *stuck) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	if s.held.Load() && opts.Key == controlplane.JobKey("d", "train") {
		s.waiting.Add(1)
		<-ctx.Done()
		return controlplane.Page{}, types.Errorf(types.Unavailable, "%w", context.Cause(ctx))
	}
	return s.world.List(ctx, opts)
}

// TestSlowRequest: members of a gang on one node read it once. While a request hangs, the others wait
// no longer than their own contexts, and one of them goes on where the first gave up.
func TestSlowRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, 4, controlplane.Limits{Ops: 128, Bytes: 1 << 20})
		store := &stuck{world: w}
		store.held.Store(true)
		r := &peers.Reader{Store: store, Spec: func(context.Context, string, string) (*types.Spec, error) { return &w.spec, nil }}
		revision, began := w.bind(1), time.Now()
		took := make([]time.Duration, 4)
		errs := make([]error, 4)
		var all sync.WaitGroup
		for i, patience := range []time.Duration{10 * time.Second, time.Second, time.Minute, time.Minute} {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				_, errs[i] = r.Attempt(w.self(i, 1, revision), "").Env(ctx, types.WholePeers)
				took[i] = time.Since(began)
			})
			synctest.Wait() // the first one reads
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := store.waiting.Load(); n != 1 || took[1] != time.Second || !types.Is(errs[1], types.Unavailable) {
			t.Errorf("%d read; the second gave up after %s: %v", n, took[1], errs[1])
		}
		store.held.Store(false) // which does not help the first
		before := w.lists.Load()
		all.Wait()
		if took[0] != 10*time.Second || !types.Is(errs[0], types.Unavailable) {
			t.Errorf("the first gave up after %s: %v", took[0], errs[0])
		}
		if errs[2] != nil || errs[3] != nil || took[2] != took[0] || took[3] != took[0] || w.lists.Load()-before != 4 {
			t.Errorf("the others took %s with %d requests: %v", took[2:], w.lists.Load()-before, errs[2:])
		}
	})
}

// TestForget: a restored store binds an attempt again, on other nodes.
func TestForget(t *testing.T) {
	w := newWorld(t, 2, controlplane.Limits{Ops: 128, Bytes: 1 << 20})
	r := w.reader()
	expect := func(want string, revision int64) {
		t.Helper()
		if got, err := w.env(r.Attempt(w.self(0, 1, revision), ""), types.WholePeers); err != nil || got != want {
			t.Errorf("%s, %v, want %s", got, err, want)
		}
	}
	expect("10.0.0.0:20001,10.0.0.1:20001", w.bind(1))
	w.put(map[string]types.Message{controlplane.NodeKey("n1"): &types.Node{Host: "10.9.9.9", PortFirst: 1, PortLast: 9}})
	r.Forget()
	expect("10.0.0.0:20001,10.9.9.9:20001", w.bind(1))
}

// TestLargeJob: the tasks of a large job await the first one and no other. They have no file.
func TestLargeJob(t *testing.T) {
	w := newWorld(t, 3, controlplane.Limits{Ops: 128, Bytes: 1 << 20})
	const n = types.MaxPeers + 1
	for i, id := range w.job.Members {
		w.put(map[string]types.Message{controlplane.TaskKey("d", id): &types.Task{Job: "train", Index: i, Count: n}})
	}
	w.put(map[string]types.Message{controlplane.JobKey("d", "train"): &types.Job{Tasks: n, Members: w.job.Members[:1]}})
	revision, r, path := w.put(w.at(1, 1, types.Bound)), w.reader(), filepath.Join(t.TempDir(), "peers")
	a := r.Attempt(w.self(1, 1, revision), path)
	if _, err := a.Env(t.Context(), types.WholePeers); !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "task train.0 has no node") {
		t.Error(err)
	}
	w.put(w.at(0, 1, types.Bound))
	env, err := a.Env(t.Context(), types.WholePeers)
	want := []string{"ESCHER_JOB=train", "ESCHER_INDEX=1", "ESCHER_COUNT=1025", "MASTER_ADDR=10.0.0.0", "MASTER_PORT=20001", "NODE_RANK=1", "NNODES=1025"}
	if err != nil || !slices.Equal(env, want) {
		t.Errorf("%v, %q, want %q", err, env, want)
	}
	if err := a.WriteFirst(types.WholePeers); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); err == nil {
		t.Errorf("the file has %q", text)
	}
	for i := range 2 {
		err := r.Follow(t.Context(), w.self(i, 1, revision), nil, func([]peers.Peer) error { return errors.New("it was told") })
		if !types.Is(err, types.Precondition) {
			t.Errorf("task %d: %v", i, err)
		}
	}
}
