package rest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/api/secrets"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/accounting"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// fuzzed is an API over a store that requests alone change.
type fuzzed struct {
	store     *memstore.Store
	authority *access.Authority
	handler   http.Handler
	// operations has the method, path and id of each operation.
	operations [][3]string
	// kept is the content of the store before each request, and marks counts the times that it was made so.
	kept  map[string]string
	marks int
	// clock counts seconds: no subject sends too much.
	clock atomic.Int64
}

// sesame is the value of a secret, which no answer has.
const sesame = "open-sesame-zebra"

// fuzzedUser is a sender of requests, with a role in some namespaces; empty means that it has none.
type fuzzedUser struct {
	name, in string
	role     rights.Role
}

// fuzzedUsers returns the senders. The first sends no token.
func fuzzedUsers() []fuzzedUser {
	return []fuzzedUser{
		{}, {name: "none"}, {"viewer", "lab", rights.Viewer}, {"member", "lab", rights.Member}, {"owner", "lab", rights.Administrator},
		{"operator", "*", rights.Operator}, {"boss", "*", rights.Administrator},
	}
}

// mayWrite reports whether a request of the user may change a key.
func (u fuzzedUser) mayWrite(key string) bool {
	k, ok := controlplane.Parse(key)
	switch {
	case !ok || u.name == "":
		return false
	case u.role == rights.Administrator && u.in == types.Everywhere, k.Kind == controlplane.Credentials: // a token for itself
		return true
	case k.Kind == controlplane.Rights:
		return u.role == rights.Administrator
	case slices.Contains([]controlplane.Kind{controlplane.Namespaces, controlplane.Alive, controlplane.Admissions}, k.Kind):
		return false
	case k.Namespace == "":
		return u.role == rights.Operator
	}
	return u.role != "" && u.role != rights.Viewer && (u.in == types.Everywhere || u.in == k.Namespace)
}

// newFuzzed starts an API. Namespaces lab and zebra have an object of each kind.
func newFuzzed(f *testing.F) *fuzzed {
	f.Helper()
	s := &fuzzed{store: memstore.New(memstore.WithoutExpiry())}
	s.authority = access.New(s.store, time.Now, zap.NewNop())
	history := &accounting.Recorder{Store: s.store, Cluster: "c", Dir: f.TempDir()}
	key := filepath.Join(f.TempDir(), "key")
	err := secrets.MakeFile(key)
	keys, wrong := secrets.Load(key)
	if err = errors.Join(err, wrong); err != nil {
		f.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.authority.Run(ctx) })
	running.Go(func() { _ = history.Run(ctx) })
	f.Cleanup(func() {
		cancel()
		running.Wait()
	})
	begin := time.Now()
	h, api := rest.Build(rest.Config{
		Store: s.store, History: history, Secrets: keys, Used: used, Version: "test", Authority: s.authority,
		Now: func() time.Time { return begin.Add(time.Duration(s.clock.Load()) * time.Second) },
		Identify: func(r *http.Request) (access.Identity, error) {
			name := r.Header.Get("User")
			if name == "" {
				return access.Identity{}, types.Errorf(types.Denied, "%w: no token", access.ErrUnauthenticated)
			}
			return access.Identity{Subject: types.UserSubject + ":" + name, Root: name == "root"}, nil
		},
	})
	s.handler, s.operations = h, operations(api)
	s.fill(f)
	s.restore(f)
	return s
}

// fill stores the objects and the rights.
func (s *fuzzed) fill(f *testing.F) {
	f.Helper()
	change := controlplane.NewChange(1)
	change.Put(controlplane.NodeKey("n1"), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000})})
	change.Put(controlplane.AliveKey("n1"), &types.Alive{})
	for _, u := range fuzzedUsers()[2:] {
		change.Put(controlplane.RightKey(u.name), &types.Right{Subjects: []string{types.UserSubject + ":" + u.name}, Role: u.role, Namespaces: []string{u.in}})
	}
	res, err := s.store.Commit(f.Context(), change.Txn())
	if err != nil {
		f.Fatal(err)
	}
	for _, ns := range []string{"lab", "zebra"} {
		name := map[string]string{"lab": "a", "zebra": "zebra"}[ns]
		for _, line := range []string{
			"PUT /v1/namespaces/NS {\"quotas\":{\"gpu\":\"2\"}}",
			"POST /v1/namespaces/NS/tasks {\"tasks\":[{\"id\":\"NAME\",\"labels\":{\"NAME\":\"NAME\"},\"requests\":{\"cpu\":\"1\"},\"spec\":{\"image\":\"NAME:1\",\"env\":[\"A=NAME\"]}}]}",
			"POST /v1/namespaces/NS/tasks {\"job\":{\"id\":\"NAME-job\"},\"tasks\":[{\"id\":\"NAME-0\",\"requests\":{\"cpu\":\"3\"},\"spec\":{\"image\":\"NAME:1\"}}]}",
			"POST /v1/namespaces/NS/reservations {\"id\":\"NAME-r\",\"bundles\":[{\"requests\":{\"cpu\":\"1\"}}]}",
			"POST /v1/namespaces/NS/resources {\"name\":\"NAME-slots\",\"capacity\":\"2\",\"where\":{\"nodes\":[\"n1\"]}}",
			"POST /v1/namespaces/NS/apply {apiVersion: escher.dev/v1, kind: Policy, name: NAME-p, queue: {limit: 2}}",
			"PUT /v1/namespaces/NS/secrets/NAME-s {\"values\":{\"k\":\"" + sesame + "\"}}",
		} {
			parts := strings.SplitN(strings.NewReplacer("NS", ns, "NAME", name).Replace(line), " ", 3)
			w := s.serve(f.Context(), "root", parts[0], parts[1], "", "", parts[2])
			if w.Code != http.StatusOK {
				f.Fatalf("%s: %d %s", line, w.Code, w.Body)
			}
		}
		client, err := controlplane.New(s.store, ns)
		if err != nil {
			f.Fatal(err)
		}
		task, err := client.Status(f.Context(), name)
		if err != nil {
			f.Fatal(err)
		}
		change := controlplane.NewChange(2)
		change.Put(controlplane.StatusKey(ns, name), &types.Status{Phase: types.Bound, Attempt: 1, Node: "n1"})
		change.Put(controlplane.BindingKey("n1", ns, name, 1), &types.Binding{Session: res.Revision, Spec: task.Task.Spec, Holds: []types.Holding{{Resource: types.CPU, Amount: 1000}}})
		if _, err := s.store.Commit(f.Context(), change.Txn()); err != nil {
			f.Fatal(err)
		}
	}
	change = controlplane.NewChange(3)
	change.Put(controlplane.AllocatedKey("n1"), &types.Allocated{Holds: []types.Holding{{Resource: types.CPU, Amount: 2000}}})
	if _, err := s.store.Commit(f.Context(), change.Txn()); err != nil {
		f.Fatal(err)
	}
}

// content returns the values of all keys.
func (s *fuzzed) content(t testing.TB) map[string]string {
	t.Helper()
	all, _, err := controlplane.ListAll(t.Context(), s.store, controlplane.ListOptions{Prefix: controlplane.Root})
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]string, len(all))
	for _, kv := range all {
		out[kv.Key] = string(kv.Value)
	}
	return out
}

// changed lists the keys that differ from the kept content.
func (s *fuzzed) changed(t testing.TB) (keys []string) {
	t.Helper()
	now := s.content(t)
	for key, value := range s.kept {
		if was, there := now[key]; !there || was != value {
			keys = append(keys, key)
		}
	}
	for key := range now {
		if _, stays := s.kept[key]; !stays {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// restore makes the content what was kept; the first call keeps it. It returns once the authority knows the rights.
func (s *fuzzed) restore(t testing.TB) {
	t.Helper()
	if s.kept == nil {
		s.kept = s.content(t)
	}
	changed := s.changed(t)
	if len(changed) == 0 && s.marks > 0 {
		return
	}
	change := controlplane.Txn{}
	for _, key := range changed {
		value, stays := s.kept[key]
		change.Ops = append(change.Ops, controlplane.Op{Key: key, Value: []byte(value), Delete: !stays})
	}
	// The authority follows the store in order: it knows the rights once it knows this one.
	s.marks++
	mark := fmt.Sprint("mark-", s.marks)
	right := types.Right{Subjects: []string{"user:" + mark}, Role: rights.Viewer, Namespaces: []string{"lab"}}
	change.Ops = append(change.Ops, controlplane.Op{Key: controlplane.RightKey("mark"), Value: types.Encode(1, &right)})
	if _, err := s.store.Commit(t.Context(), change); err != nil {
		t.Fatal(err)
	}
	s.kept[controlplane.RightKey("mark")] = string(types.Encode(1, &right))
	again, patience := time.NewTicker(100*time.Microsecond), time.After(20*time.Second)
	defer again.Stop()
	for s.authority.May(access.Identity{Subject: "user:" + mark}, rights.Need{Verb: rights.Read, Kind: rights.Tasks}, "lab") != nil {
		select {
		case <-again.C:
		case <-patience:
			t.Fatal("the rights are not known")
		}
	}
}

// begun is the answer to a request, which ends when the answer of a watch begins.
type begun struct {
	*httptest.ResponseRecorder
	end func()
}

func (b *begun) Flush() {
	b.ResponseRecorder.Flush()
	b.end()
}

// serve answers a request. A wait ends after moments.
func (s *fuzzed) serve(ctx context.Context, user, method, path, query, header, body string) *httptest.ResponseRecorder {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := &begun{httptest.NewRecorder(), func() {}}
	if strings.HasSuffix(path, "watch") || strings.HasSuffix(path, "wait") || strings.HasSuffix(path, "peers") {
		w.end = cancel
		defer time.AfterFunc(50*time.Millisecond, cancel).Stop()
	}
	r := httptest.NewRequest(method, "http://escher/", strings.NewReader(body)).WithContext(ctx)
	r.URL = &url.URL{Scheme: "http", Host: "escher", RawQuery: query}
	r.URL.Path, _ = url.PathUnescape(path)
	r.URL.RawPath = path
	r.Header.Set("Content-Type", "application/json")
	if header != "" {
		r.Header.Set("Content-Type", header)
		r.Header.Set("Last-Event-ID", header)
		r.Header.Set("Accept", header)
		r.Header.Set("Upgrade", header)
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Sec-WebSocket-Version", "13")
		r.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	}
	if user != "" {
		r.Header.Set("User", user)
	}
	s.clock.Add(1)
	s.handler.ServeHTTP(w, r)
	return w.ResponseRecorder
}

// fuzzSeed is a valid request of an operation.
type fuzzSeed struct{ name, query, header, body string }

// fuzzSeeds returns a seed of each operation that needs more than the name of task a.
func fuzzSeeds() map[string]fuzzSeed {
	const launch = `{"tasks":[{"id":"b","requests":{"cpu":"1"},"spec":{"image":"x:1"}}]}`
	const doc = "apiVersion: escher.dev/v1\nkind: Job\nname: web\ncount: 2\ngang: {}\ntemplate: {image: \"x:1\", requests: {cpu: 1}}\n"
	const at = "attempt=1"
	return map[string]fuzzSeed{
		"canI": {query: "verb=read&kind=tasks&namespace=lab"}, "holdUnit": {query: "name=a-slots"}, "listHistory": {query: "namespace=lab&limit=3&phase=failed"},
		"getUsage": {query: "namespace=lab&by=user"}, "listRequests": {query: "namespace=lab&refused=true"},
		"setNamespace": {body: `{"quotas":{"gpu":"3"},"pids":9}`}, "applyDocuments": {query: "replace=true", header: "application/yaml", body: doc}, "planDocuments": {header: "application/yaml", body: doc},
		"submitDocuments": {header: "application/yaml", body: doc}, "listTasks": {query: "selector=a%3Da&limit=1&phase=pending"}, "listKeys": {query: "prefix=/escher/tasks/lab/&limit=2"},
		"watchKeys": {query: "prefix=/escher/tasks/lab/&after=0"}, "removeJob": {name: "a-job"}, "getJob": {name: "a-job"}, "explainJob": {name: "a-job"}, "explainTask": {name: "a-0"}, "stopJob": {name: "a-job", body: `{"reason":"x"}`},
		"withdrawPolicy": {name: "a-p", query: "force=true"}, "reserve": {body: `{"id":"c","bundles":[{"requests":{"cpu":"1"}}]}`}, "unreserve": {name: "a-r"}, "explainReservation": {name: "a-r"},
		"setResource": {body: `{"name":"a-slots","capacity":"3","where":{"nodes":["n1"]}}`}, "removeSecret": {name: "a-s"}, "setSecret": {name: "a-s", body: `{"values":{"k":"v"}}`},
		"getState": {query: "reads=true"}, "launchTasks": {body: launch}, "attachToTask": {query: at, header: "websocket"}, "execInTask": {query: at, header: "websocket"}, "getFiles": {query: at + "&path=/tmp"}, "statFile": {query: at + "&path=/tmp"},
		"putFiles": {query: at + "&path=/tmp", header: "application/x-tar"}, "readLogs": {query: at + "&tail=3&stream=stdout"}, "readEvents": {query: at}, "forwardPort": {name: "80", query: at, header: "websocket"}, "getTaskUsage": {query: at},
		"evictTask": {body: `{"attempt":1}`}, "signalTask": {query: at, body: `{"signal":"HUP"}`}, "stopTask": {body: `{"reason":"x","grace":"1s"}`}, "waitTasks": {query: "id=a&until=running&timeout=1s"},
		"transact": {body: `{"set":[{"name":"x","capacity":"1","where":{"cluster":true}}],"launch":[` + launch + `],"if":{"/escher/nodes/n1":0}}`}, "watch": {query: "of=tasks&id=a"},
		"cordonNode": {name: "n1", body: `{"reason":"x"}`}, "drainNode": {name: "n1", body: `{"mode":"move"}`}, "labelNode": {name: "n1", body: `{"add":{"a":"b"}}`}, "removeNode": {name: "n1", query: "dead=true&reason=x"},
		"certifyNode": {name: "n1", body: `{"request":"x"}`}, "openSecrets": {name: "n1", body: `{"namespace":"lab","task":"a","attempt":1}`}, "openLogin": {name: "n1", body: `{"namespace":"lab","task":"a","attempt":1}`},
		"pullImage": {name: "n1", body: `{"image":"x:1"}`}, "getPull": {name: "n1", query: "image=x:1"}, "loadImages": {name: "n1", header: "application/x-tar"},
		"exportWorkdir": {name: "n1", query: "image=" + types.UnsentWorkdir}, "listLayers": {name: "n1", query: "image=" + types.UnsentWorkdir}, "listLackingLayers": {name: "n1", body: `{"layers":["sha256:0"]}`},
		"getNode": {name: "n1"}, "explainNode": {name: "n1"}, "uncordonNode": {name: "n1"}, "listImages": {name: "n1"}, "getNodeUsage": {name: "n1"}, "listNodeUsage": {name: "n1"},
		"grantRight": {name: "g", body: `{"subjects":["user:x"],"role":"viewer","namespaces":["lab"]}`}, "revokeRight": {name: "viewer"}, "createToken": {body: `{"subject":"user:x","life":"1h","role":"viewer"}`},
	}
}

// pathOf fills the path of an operation.
func pathOf(path, ns, name string) string {
	ns, name = url.PathEscape(ns), url.PathEscape(name)
	return strings.NewReplacer("{namespace}", ns, "{id}", name, "{node}", name, "{name}", name, "{port}", name).Replace(path)
}

// FuzzUsers sends any request of any operation as users of several roles. It is answered as described, and
// never with an internal error. It changes only what the role may, and no answer names an object of
// a namespace that the user has no right in, or has the value of a secret.
func FuzzUsers(f *testing.F) {
	s := newFuzzed(f)
	seeds := fuzzSeeds()
	for i, op := range s.operations {
		seed := seeds[op[2]]
		if seed.name == "" {
			seed.name = "a"
		}
		delete(seeds, op[2])
		path := pathOf(op[1], "lab", seed.name)
		if w := s.serve(f.Context(), "root", op[0], path, seed.query, seed.header, seed.body); w.Code == http.StatusBadRequest || w.Code == http.StatusUnprocessableEntity {
			f.Errorf("the seed of %s is refused: %s", op[2], w.Body)
		}
		s.restore(f)
		for user := range fuzzedUsers() {
			f.Add(uint(i), uint(user), "lab", seed.name, seed.query, seed.header, seed.body)
		}
		f.Add(uint(i), uint(3), "zebra", strings.Replace(seed.name, "a", "zebra", 1), strings.Replace(seed.query, "lab", "zebra", 1), seed.header, seed.body)
	}
	for op := range seeds {
		f.Errorf("there is no operation %s", op)
	}
	f.Fuzz(func(t *testing.T, op, user uint, ns, name, query, header, body string) {
		o, u := s.operations[op%uint(len(s.operations))], fuzzedUsers()[user%uint(len(fuzzedUsers()))]
		for _, segment := range []string{ns, name} {
			if segment == "" || segment == "." || segment == ".." {
				return // another path
			}
		}
		path := pathOf(o[1], ns, name)
		w := s.serve(t.Context(), u.name, o[0], path, query, header, body)
		sent := fmt.Sprintf("%s %s?%s %q as %q: %s", o[0], path, query, body, u.name, o[2])
		s.check(t, sent, u, w)
		text := w.Body.String() + fmt.Sprint(w.Header())
		if strings.Contains(text, sesame) {
			t.Errorf("%s: the answer has the value of a secret: %.300s", sent, text)
		}
		hidden := u.in != types.Everywhere && !strings.Contains(strings.ToLower(ns+name+query+header+body), "zeb")
		if hidden && strings.Contains(text, "zebra") {
			t.Errorf("%s: the answer names another tenant: %.2000s", sent, text)
		}
	})
}

// check checks the status and the form of an answer, and what the request changed.
func (s *fuzzed) check(t *testing.T, sent string, u fuzzedUser, w *httptest.ResponseRecorder) {
	t.Helper()
	defer s.restore(t)
	for _, key := range s.changed(t) {
		if !u.mayWrite(key) || w.Code >= http.StatusBadRequest && w.Code < http.StatusInternalServerError {
			t.Errorf("%s: status %d, and it changed %s", sent, w.Code, key)
		}
	}
	if w.Code < http.StatusBadRequest {
		if w.Code != http.StatusOK {
			t.Errorf("%s: status %d", sent, w.Code)
		}
		return
	}
	var p answer.Problem
	if err := json.NewDecoder(bytes.NewReader(w.Body.Bytes())).Decode(&p); err != nil || w.Header().Get("Content-Type") != "application/problem+json" {
		t.Errorf("%s: status %d, %q, %v: %.300s", sent, w.Code, w.Header().Get("Content-Type"), err, w.Body)
	}
	if p.Status != w.Code || p.Detail == "" || p.Class == "" || w.Code >= http.StatusInternalServerError && w.Code != http.StatusServiceUnavailable {
		t.Errorf("%s: status %d: %+v", sent, w.Code, p)
	}
}
