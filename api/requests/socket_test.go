package requests_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// bench is a task socket on a cluster in memory.
type bench struct {
	t      *testing.T
	store  *memstore.Store
	path   string
	client *requests.Client
	end    func() error
}

func newBench(t *testing.T) *bench { return newBenchOf(t, nil) }

// newBenchOf makes the bench of a namespace with a budget; nil means the built-in one.
func newBenchOf(t *testing.T, budget func(context.Context) types.Budget) *bench {
	b := &bench{t: t, store: memstore.New(), path: filepath.Join(t.TempDir(), "s", tasksocket.Name)}
	for _, node := range []string{"n1", "n2"} {
		b.put(controlplane.NodeKey(node), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 2000})})
		b.put(controlplane.AliveKey(node), &types.Alive{})
	}
	b.put(controlplane.TaskKey("d", "me"), &types.Task{Name: "me", Job: "mine"})
	b.put(controlplane.JobKey("d", "mine"), &types.Job{Tasks: 1})
	c, err := controlplane.New(b.store, "d")
	if err != nil {
		t.Fatal(err)
	}
	b.client, b.end = serve(t, tasksocket.Config{
		Dir: filepath.Dir(b.path), Client: c, Budget: budget,
		Self: tasksocket.Self{Namespace: "d", Task: "me", Attempt: 2, Node: "n1"},
	})
	return b
}

// api is the HTTP API as sockets of tasks serve it.
func api(store controlplane.Store) http.Handler {
	return rest.ForTasks(rest.Config{Store: store, Now: time.Now})
}

// serve serves a socket with the HTTP API until end, or the end of the test.
func serve(t *testing.T, cfg tasksocket.Config) (client *requests.Client, end func() error) {
	t.Helper()
	if cfg.API == nil {
		cfg.API = api(cfg.Client.Store())
	}
	s, err := tasksocket.Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	end = sync.OnceValue(func() error { cancel(); return <-done })
	client, err = requests.AtSocket(filepath.Join(cfg.Dir, tasksocket.Name), cfg.Self.Namespace, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		if err := end(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return client, end
}

func (b *bench) put(key string, m types.Message) {
	b.t.Helper()
	c := controlplane.NewChange(1)
	c.Put(key, m)
	if _, err := b.store.Commit(b.t.Context(), c.Txn()); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) resource(name, where string) (types.Resource, controlplane.KV) {
	b.t.Helper()
	page, err := b.store.List(b.t.Context(), controlplane.ListOptions{Key: controlplane.ResourceKey("d", name, where)})
	if err != nil {
		b.t.Fatal(err)
	}
	var r types.Resource
	if len(page.KVs) == 0 {
		return r, controlplane.KV{}
	}
	if err := types.Decode(page.KVs[0].Value, &r); err != nil {
		b.t.Fatal(err)
	}
	return r, page.KVs[0]
}

func TestSelf(t *testing.T) {
	b := newBench(t)
	self, err := b.client.Self(t.Context())
	if err != nil || self != (tasksocket.Self{Namespace: "d", Task: "me", Attempt: 2, Node: "n1"}) {
		t.Error(self, err)
	}
}

func TestSet(t *testing.T) {
	b := newBench(t)
	cases := []struct {
		name  string
		set   requests.Set
		where string
		want  types.Resource
	}{
		{"here", requests.Set{Capacity: "2"}, "n1", types.Resource{Capacity: 2000, NodeSession: 3}},
		{"with the task", requests.Set{Capacity: "0.5", Lifetime: types.OfTask}, "n1", types.Resource{Capacity: 500, NodeSession: 3, Lifetime: types.OfTask, Owner: "me"}},
		{"with its job", requests.Set{Capacity: "1", Lifetime: types.OfJob}, "n1", types.Resource{Capacity: 1000, NodeSession: 3, Lifetime: types.OfJob, Owner: "mine"}},
		{"elsewhere", requests.Set{Capacity: "inf", Where: &requests.Where{Nodes: []string{"n2"}}}, "n2", types.Resource{Capacity: types.Inf, NodeSession: 5}},
		{"everywhere", requests.Set{Capacity: "1", Where: &requests.Where{}}, types.EveryNode, types.Resource{Capacity: 1000}},
		{"in the cluster", requests.Set{Capacity: "1", Where: &requests.Where{Cluster: true}}, types.ClusterWide, types.Resource{Capacity: 1000}},
		{"closed", requests.Set{Capacity: "0", Declare: true}, "n1", types.Resource{NodeSession: 3}},
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.set.Name = fmt.Sprintf("r%d", i)
			if _, err := b.client.Set(t.Context(), c.set); err != nil {
				t.Fatal(err)
			}
			if _, kv := b.resource(c.set.Name, c.where); !types.Same(kv.Value, &c.want) {
				got, _ := b.resource(c.set.Name, c.where)
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
	_, err := b.client.Commit(t.Context(), requests.Transaction{Set: []requests.Set{{Name: "too", Capacity: "1", Lifetime: types.OfJob, Where: &requests.Where{Cluster: true}}}})
	if r, _ := b.resource("too", types.ClusterWide); err != nil || r.Owner != "mine" {
		t.Errorf("%+v, %v", r, err)
	}
	b.put(controlplane.TaskKey("d", "me"), &types.Task{Name: "me"})
	if _, err := b.client.Set(t.Context(), requests.Set{Name: "x", Capacity: "1", Lifetime: types.OfJob}); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "owner: this task is of no job") {
		t.Errorf("with no job: %v", err)
	}
	if _, err := b.client.Set(t.Context(), requests.Set{Name: "r0", Capacity: "0"}); err != nil {
		t.Fatal(err)
	}
	if _, kv := b.resource("r0", "n1"); kv.Key != "" {
		t.Error("0 did not remove it")
	}
}

func TestTasks(t *testing.T) {
	b, ctx := newBench(t), t.Context()
	spec := requests.Spec{Image: "i", Command: []string{"x"}, Grace: requests.Duration(3 * time.Second),
		Ports: []manifest.Port{{Name: "http"}}}
	l, err := b.client.Launch(ctx, requests.Launch{Job: &requests.Job{Labels: map[string]string{"team": "vision"}}, Tasks: []requests.Task{
		{Name: "w", Labels: map[string]string{"stage": "dev"}, Requests: types.NewRequests(map[string]types.Quantity{"cpu": 500, "near": 1000}), Spec: spec,
			Provides:     []requests.Provide{{Name: "p", Amount: "2", When: types.WhenRunning}},
			Alternatives: []requests.Alternative{{After: requests.Duration(time.Second)}}, MaxRun: requests.Duration(time.Hour)},
		{Name: "w", Spec: spec},
	}})
	if err != nil || len(l.Tasks) != 2 || l.Job == "" {
		t.Fatal(l, err)
	}
	c, err := controlplane.New(b.store, "d")
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Status(ctx, l.Tasks[0])
	if err != nil || got.Task.Requests.Get("near") != 1000 || got.Task.Requests.Get("port") != 1000 || got.Task.Provides[0].Amount != 2000 || got.Task.MaxRun != time.Hour ||
		got.Task.Alternatives[0].After != time.Second {
		t.Errorf("%+v, %v", got.Task, err)
	}
	if got := types.LabelsText(got.Task.Labels); got != "stage=dev,team=vision" {
		t.Error(got)
	}
	if all, err := b.client.Tasks(ctx); err != nil || len(all.Tasks) != 3 || !slices.ContainsFunc(all.Tasks, func(s requests.Status) bool {
		return s.ID == l.Tasks[1] && len(s.Labels) == 1 && s.Labels["team"] == "vision"
	}) {
		t.Error(all, err)
	}
	if s, err := b.client.Status(ctx, l.Tasks[0]); err != nil || s.Labels["stage"] != "dev" || s.Phase != types.Pending || s.Name != "w" {
		t.Error(s, err)
	}
	if w, err := b.client.Wait(ctx, "bound", time.Millisecond, l.Tasks...); err != nil || w.Complete || len(w.Tasks) != 0 {
		t.Error(w, err)
	}
	waited := make(chan requests.Waited, 1)
	go func() {
		w, err := b.client.Wait(ctx, "", 0, l.Tasks...)
		if err != nil {
			t.Error(err)
		}
		waited <- w
	}()
	ended := time.Unix(1000, 0)
	for i, id := range l.Tasks {
		b.put(controlplane.StatusKey("d", id), &types.Status{Phase: types.Failed, Node: "n1", Attempt: 1, ExitCode: i + 3, Ended: ended.UnixNano()})
	}
	w := <-waited
	codes := make(map[string]int)
	for _, s := range w.Tasks {
		codes[s.ID] = s.ExitCode
	}
	if !w.Complete || !maps.Equal(codes, map[string]int{l.Tasks[0]: 3, l.Tasks[1]: 4}) || !w.Tasks[0].Ended.Equal(ended) {
		t.Errorf("%+v", w)
	}
	if err := b.client.Stop(ctx, "me", requests.Stop{Reason: "enough", Grace: requests.Duration(time.Second)}); err != nil {
		t.Error(err)
	}
	if err := b.client.Evict(ctx, "me", 0); !types.Is(err, types.Precondition) {
		t.Error(err)
	}
	all, err := b.client.Tasks(ctx)
	if err != nil || len(all.Tasks) != 3 {
		t.Error(all, err)
	}
}

func TestReserve(t *testing.T) {
	b, ctx := newBench(t), t.Context()
	r := requests.Reserve{ID: "train", Bundles: []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}}}
	if err := b.client.Reserve(ctx, r); err != nil {
		t.Fatal(err)
	}
	if err := b.client.Reserve(ctx, r); !types.Is(err, types.AlreadyExists) {
		t.Error(err)
	}
	if err := b.client.Unreserve(ctx, "train"); err != nil {
		t.Error(err)
	}
	if err := b.client.Unreserve(ctx, "train"); !types.Is(err, types.NotFound) {
		t.Error(err)
	}
}

// TestConditional changes something only if nothing that it depends on has changed.
func TestConditional(t *testing.T) {
	b, ctx := newBench(t), t.Context()
	s, err := b.client.State(ctx, true)
	if err != nil || len(s.Nodes) != 2 || s.Nodes[0].Free("cpu") != 2000 || len(s.Reads) == 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	change := requests.Transaction{If: s.Reads, Set: []requests.Set{{Name: "x", Capacity: "1"}},
		Launch: []requests.Launch{{Tasks: []requests.Task{{Name: "w", Spec: requests.Spec{Image: "i"}}}}}}
	done, err := b.client.Commit(ctx, change)
	if err != nil || done.Revision == 0 || len(done.Launched) != 1 || len(done.Launched[0].Tasks) != 1 {
		t.Fatal(done, err)
	}
	b.put(controlplane.NodeKey("n2"), &types.Node{})
	if _, err := b.client.Commit(ctx, change); !types.Is(err, types.Conflict) {
		t.Error(err)
	}
	if s, err := b.client.State(ctx, false); err != nil || s.Reads != nil {
		t.Error(s.Reads, err)
	}
}

// raw sends requests that no client would send.
func (b *bench) raw(method, path, body string) (int, string) {
	b.t.Helper()
	c := http.Client{Transport: &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", b.path)
	}, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(b.t.Context(), method, "http://x"+path, strings.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	res, err := c.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func TestBadRequests(t *testing.T) {
	b := newBench(t)
	before := b.store.Revision()
	cases := []struct {
		name, method, path, body string
		code                     int
		says                     []string
	}{
		{"unknown request", "GET", "/v1/nothing", "", 404, []string{`"class":"not found"`, "openapi.json"}},
		{"unknown field", "POST", "/v1/namespaces/d/resources", `{"name":"x","capcity":"1"}`, 400, []string{"capcity", `"class":"invalid"`}},
		{"no JSON", "POST", "/v1/namespaces/d/resources", `x`, 400, []string{"body"}},
		{"two objects", "POST", "/v1/namespaces/d/resources", `{"name":"x","capacity":"1"} {}`, 400, []string{"after top-level value"}},
		{"a field twice", "POST", "/v1/namespaces/d/resources", `{"name":"x","capacity":"1","capacity":"2"}`, 400, []string{"duplicate field", "capacity"}},
		{"a field of a task twice", "POST", "/v1/namespaces/d/tasks", `{"tasks":[{"spec":{"image":"i","image":"j"}}]}`, 400, []string{"duplicate field", "image"}},
		{"another case", "POST", "/v1/namespaces/d/resources", `{"Name":"x","capacity":"1"}`, 400, []string{"unknown field", "Name"}},
		{"no name", "POST", "/v1/namespaces/d/resources", `{"capacity":"1"}`, 400, []string{"name"}},
		{"negative", "POST", "/v1/namespaces/d/resources", `{"name":"x","capacity":"-1"}`, 400, []string{"capacity", "-1", "negative"}},
		{"physical", "POST", "/v1/namespaces/d/resources", `{"name":"cpu","capacity":"1"}`, 400, []string{"cpu", "physical"}},
		{"unknown node", "POST", "/v1/namespaces/d/resources", `{"name":"x","capacity":"1","where":{"nodes":["n9"]}}`, 400, []string{"n9", "n1"}},
		{"cluster and node", "POST", "/v1/namespaces/d/resources", `{"name":"x","capacity":"1","where":{"nodes":["n1"],"cluster":true}}`, 400, []string{"where.cluster"}},
		{"no task", "POST", "/v1/namespaces/d/tasks", `{}`, 400, []string{"tasks"}},
		{"no image", "POST", "/v1/namespaces/d/tasks", `{"tasks":[{"spec":{}}]}`, 400, []string{"image"}},
		{"no unit", "POST", "/v1/namespaces/d/tasks", `{"tasks":[{"spec":{"image":"i"},"requests":{"memory":"5"}}]}`, 400, []string{"memory", "5Mi"}},
		{"no duration", "POST", "/v1/namespaces/d/tasks", `{"tasks":[{"spec":{"image":"i"},"maxRun":"5"}]}`, 400, []string{"1m30s"}},
		{"a number for a duration", "POST", "/v1/namespaces/d/tasks", `{"tasks":[{"spec":{"image":"i"},"maxRun":5}]}`, 400, []string{"30s"}},
		{"too large", "POST", "/v1/namespaces/d/tasks", `{"tasks":["` + strings.Repeat("x", 5<<20) + `"]}`, 400, []string{"larger than"}},
		{"wait for nothing", "GET", "/v1/namespaces/d/wait", "", 422, []string{"id", "required"}},
		{"wait for something else", "GET", "/v1/namespaces/d/wait?id=me&until=x", "", 422, []string{"until", "running"}},
		{"wait how long", "GET", "/v1/namespaces/d/wait?id=me&timeout=x", "", 400, []string{"timeout", "30s"}},
		{"unknown task", "GET", "/v1/namespaces/d/tasks/zz", "", 404, []string{"zz"}},
		{"parameter misspelt", "GET", "/v1/namespaces/d/wait?id=me&timout=5s", "", 422, []string{"timout", "openapi.json"}},
		{"parameter where there is none", "POST", "/v1/namespaces/d/resources?name=x", `{"name":"x","capacity":"1"}`, 422, []string{"name", "no parameter"}},
		{"watch something else", "GET", "/v1/namespaces/d/watch?of=nodes", "", 422, []string{"nodes", "resources"}},
		{"watch after what", "GET", "/v1/namespaces/d/watch?after=x", "", 422, []string{"after", "integer"}},
		{"reads or not", "GET", "/v1/namespaces/d/state?reads=x", "", 422, []string{"reads"}},
		{"empty transaction", "POST", "/v1/namespaces/d/transactions", `{}`, 400, []string{"the transaction is empty"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			code, text := b.raw(c.method, c.path, c.body)
			if code != c.code {
				t.Errorf("%d, want %d: %s", code, c.code, text)
			}
			for _, says := range c.says {
				if !strings.Contains(text, says) {
					t.Errorf("%s does not say %s", text, says)
				}
			}
		})
	}
	if b.store.Revision() != before {
		t.Error("something was written")
	}
}

// TestClasses sends every class over the socket and back.
func TestClasses(t *testing.T) {
	b, ctx := newBench(t), t.Context()
	_, err := b.client.Status(ctx, "zz")
	if !types.Is(err, types.NotFound) {
		t.Error(err)
	}
	_, err = b.client.Set(ctx, requests.Set{Name: "x", Capacity: "1", Lifetime: types.OfSession, Owner: "s"})
	if !types.Is(err, types.Precondition) {
		t.Error(err)
	}
}

// TestTooManyAtOnce fills the socket with requests that wait.
func TestTooManyAtOnce(t *testing.T) {
	b, ctx := newBench(t), t.Context()
	const most = 64
	refused := make(chan error, most+1)
	for range most + 1 {
		go func() {
			_, err := b.client.Wait(ctx, "", 0, "me")
			refused <- err
		}()
	}
	if err := <-refused; !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "64") {
		t.Fatal(err)
	}
	b.put(controlplane.StatusKey("d", "me"), &types.Status{Phase: types.Succeeded, Attempt: 1})
	for range most {
		if err := <-refused; err != nil {
			t.Error(err)
		}
	}
}

// TestEnds ends the socket while a request waits.
func TestEnds(t *testing.T) {
	b, ctx := newBench(t), t.Context()
	ended := make(chan error, 1)
	go func() {
		_, err := b.client.Wait(ctx, "", 0, "me")
		ended <- err
	}()
	// An answer to another request does not mean that the first has begun: either way it must end.
	if _, err := b.client.Self(ctx); err != nil {
		t.Fatal(err)
	}
	if err := b.end(); err != context.Canceled {
		t.Error(err)
	}
	if err := <-ended; !types.Is(err, types.Unavailable) {
		t.Error(err)
	}
	if _, err := b.client.Self(ctx); !types.Is(err, types.Unavailable) {
		t.Error(err)
	}
	if _, err := b.client.Set(ctx, requests.Set{Name: "x", Capacity: "1"}); !types.Is(err, types.Unavailable) {
		t.Error("what was never sent has no unknown outcome:", err)
	}
	if _, err := os.Stat(b.path); !os.IsNotExist(err) {
		t.Error("the socket is there still:", err)
	}
}
