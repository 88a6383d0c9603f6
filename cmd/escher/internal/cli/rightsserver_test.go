package cli

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/api/secrets"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/accounting"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// rightsServer is a server of the API over a store that nothing else writes. The token of a request is the
// name of its user; root has every right.
type rightsServer struct {
	t         *testing.T
	store     *memstore.Store
	manager   access.Manager
	authority *access.Authority
	server    *httptest.Server
	// dir has the files of the objects and of commands.
	dir string

	// open is read-locked by each open request.
	open sync.RWMutex

	mu sync.Mutex
	// asked are the operations of the current command, each with the status of its last answer.
	asked map[string]int
	// follows is the operation whose answer ends the current command, by stop; empty if it ends itself.
	follows string
	stop    context.CancelFunc
}

// newRightsServer starts a server whose namespace default has an object of each kind.
func newRightsServer(t *testing.T) *rightsServer {
	t.Helper()
	s := &rightsServer{t: t, store: memstore.New(memstore.WithoutExpiry()), dir: t.TempDir()}
	s.manager = access.Manager{Store: s.store, Now: time.Now}
	s.authority = access.New(s.store, time.Now, zap.NewNop())
	history := &accounting.Recorder{Store: s.store, Cluster: "c", Dir: t.TempDir()}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.authority.Run(ctx) })
	running.Go(func() { _ = history.Run(ctx) })
	key := filepath.Join(s.dir, "key")
	keys, err := secrets.Load(key)
	if err != nil {
		err = secrets.MakeFile(key)
		keys, _ = secrets.Load(key)
	}
	if err != nil {
		t.Fatal(err)
	}
	handler := rest.Handler(rest.Config{
		Store: s.store, History: history, Secrets: keys, Used: server.Used, Now: time.Now, Version: "test", Authority: s.authority,
		Identify: func(r *http.Request) (access.Identity, error) {
			if name := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "); name != "root" {
				return access.Identity{Subject: types.UserSubject + ":" + name}, nil
			}
			return access.Root("root"), nil
		},
	})
	mux := http.NewServeMux()
	for pattern, id := range operations(t, handler) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			s.open.RLock()
			defer s.open.RUnlock()
			handler.ServeHTTP(&answered{ResponseWriter: w, of: func(status int) { s.answered(id, status) }}, r)
		})
	}
	s.server = httptest.NewServer(mux)
	t.Cleanup(func() {
		s.server.CloseClientConnections()
		s.server.Close()
		cancel()
		running.Wait()
	})
	s.fill()
	return s
}

// operations returns the operation of each pattern of the described API.
func operations(t *testing.T, handler http.Handler) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/openapi.json", nil))
	var api struct {
		Paths map[string]map[string]struct{ OperationID string }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &api); err != nil || len(api.Paths) < 50 {
		t.Fatalf("%d paths, %v", len(api.Paths), err)
	}
	out := make(map[string]string)
	for path, methods := range api.Paths {
		for method, op := range methods {
			out[strings.ToUpper(method)+" "+path] = op.OperationID
		}
	}
	return out
}

// answered tells the status of an answer.
type answered struct {
	http.ResponseWriter
	of   func(status int)
	told bool
}

func (a *answered) Unwrap() http.ResponseWriter { return a.ResponseWriter }

func (a *answered) Flush() { _ = http.NewResponseController(a.ResponseWriter).Flush() } // the client may be gone

func (a *answered) WriteHeader(status int) {
	a.ResponseWriter.WriteHeader(status)
	a.told = true
	a.of(status)
}

func (a *answered) Write(text []byte) (int, error) {
	if !a.told {
		a.told = true
		a.of(http.StatusOK)
	}
	return a.ResponseWriter.Write(text)
}

// answered notes an answer, and ends a command that follows.
func (s *rightsServer) answered(operation string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[operation] = status
	if operation == s.follows && status == http.StatusOK {
		s.stop()
	}
}

// put stores a value, and returns its revision.
func (s *rightsServer) put(key string, m types.Message) int64 {
	s.t.Helper()
	res, err := s.store.Commit(s.t.Context(), controlplane.Txn{Ops: []controlplane.Op{{Key: key, Value: types.Encode(1, m)}}})
	if err != nil {
		s.t.Fatal(err)
	}
	return res.Revision
}

// fill makes the objects, and the files of commands.
func (s *rightsServer) fill() {
	s.t.Helper()
	const objects = `apiVersion: escher.dev/v1
kind: Policy
name: fair
queue: {limit: 8}
---
apiVersion: escher.dev/v1
kind: Task
name: web
image: x:1
---
apiVersion: escher.dev/v1
kind: Task
name: old
image: x:1
---
apiVersion: escher.dev/v1
kind: Job
name: train
count: 2
template: {image: "x:1"}
---
apiVersion: escher.dev/v1
kind: Reservation
name: room
bundles: [{requests: {cpu: 1}}]
`
	const job = "apiVersion: escher.dev/v1\nkind: Job\nname: train\ncount: 2\ntemplate: {image: \"x:1\"}\n"
	const task = "apiVersion: escher.dev/v1\nkind: Task\nname: more\nimage: x:1\n"
	for name, text := range map[string]string{
		"objects.yaml": objects, "job.yaml": job, "task.yaml": task, "file": "hello\n", "namespace.yaml": "apiVersion: escher.dev/v1\nkind: Namespace\nname: default\npids: 7\n",
		"secret.yaml": "apiVersion: escher.dev/v1\nkind: Secret\nname: db\nvalues: {a: b}\n", "slurm.sh": "#!/bin/sh\n#SBATCH --nodes=1\nhostname\n",
	} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			s.t.Fatal(err)
		}
	}
	s.put(controlplane.NodeKey("n1"), &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000, "memory": 1 << 30})})
	session := s.put(controlplane.AliveKey("n1"), &types.Alive{})
	s.put(controlplane.NodeKey("gone"), &types.Node{})
	for _, line := range []string{"apply -f $D/objects.yaml", "set-resource slots 2 --node n1", "secret set db user=ann", "auth grant own --to user:ada --allow read,tasks --in default", "context set here --dir /x", "namespace create lab --max-keys 100"} {
		if code, said, _ := s.run("root", line, ""); code != 0 {
			s.t.Fatalf("escher %s: %s", line, said)
		}
	}
	client, err := controlplane.New(s.store, "default")
	if err != nil {
		s.t.Fatal(err)
	}
	all, _, err := client.Tasks(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, task := range all {
		status := &types.Status{Phase: types.Failed, Attempt: 1, Node: "n1", ExitCode: 3}
		if task.Task.Name == "web" {
			status = &types.Status{Phase: types.Running, Attempt: 1, Node: "n1"}
			s.put(controlplane.BindingKey("n1", "default", task.ID, 1), &types.Binding{Session: session, Spec: task.Task.Spec})
		}
		s.put(controlplane.StatusKey("default", task.ID), status)
	}
}

// run runs a command line as a user, and returns its exit code, all that it prints, and the
// operations that it asked for, each with a status. $D is the directory of
// files. follows is the operation whose answer ends it; empty if it ends itself.
func (s *rightsServer) run(user, line, follows string) (code int, said string, asked map[string]int) {
	s.t.Helper()
	ctx, stop := context.WithTimeout(s.t.Context(), 20*time.Second)
	defer stop()
	s.mu.Lock()
	s.asked, s.follows, s.stop = make(map[string]int), follows, stop
	s.mu.Unlock()
	env := map[string]string{"ESCHER_SERVER": s.server.URL, "ESCHER_TOKEN": user, "XDG_CONFIG_HOME": s.dir, "HOME": s.dir}
	var out strings.Builder
	var mu sync.Mutex
	w := writerFunc(func(text []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return out.Write(text)
	})
	args := strings.Fields(line)
	for i := range args {
		args[i] = strings.NewReplacer("$D", s.dir, "read,tasks", "read tasks").Replace(args[i])
	}
	f := &cmdutil.Factory{Outside: cmdutil.Outside{In: strings.NewReader(""), Out: w, Err: w, Getenv: func(name string) string { return env[name] }, Executable: os.Executable}}
	code = runCommand(ctx, f, args)
	f.Close()
	s.open.Lock() // once no request is open, its writes are over
	defer s.open.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	mu.Lock()
	defer mu.Unlock()
	return code, out.String(), maps.Clone(s.asked)
}

// writerFunc is a writer.
type writerFunc func([]byte) (int, error)

func (w writerFunc) Write(text []byte) (int, error) { return w(text) }

// allow gives a user rights in some namespaces, once the server knows them.
func (s *rightsServer) allow(user, name string, namespaces []string, needs ...rights.Need) {
	s.t.Helper()
	if len(needs) == 0 {
		return
	}
	r := types.Right{Subjects: []string{types.UserSubject + ":" + user}, Namespaces: namespaces}
	for _, n := range needs {
		r.Allow = append(r.Allow, n.String())
	}
	if err := s.manager.Grant(s.t.Context(), access.From(s.t.Context()), name, r); err != nil {
		s.t.Fatal(err)
	}
}

// await returns once something is true.
func (s *rightsServer) await(is func() bool) {
	s.t.Helper()
	again, patience := time.NewTicker(time.Millisecond), time.After(time.Minute)
	defer again.Stop()
	for !is() {
		select {
		case <-again.C:
		case <-patience:
			s.t.Fatal("it does not happen")
		}
	}
}

// content returns the values of all keys.
func (s *rightsServer) content() map[string]string {
	s.t.Helper()
	all, _, err := controlplane.ListAll(s.t.Context(), s.store, controlplane.ListOptions{Prefix: controlplane.Root})
	if err != nil {
		s.t.Fatal(err)
	}
	out := make(map[string]string)
	for _, kv := range all {
		out[kv.Key] = string(kv.Value)
	}
	return out
}

// restore makes the content what it was.
func (s *rightsServer) restore(kept map[string]string) {
	s.t.Helper()
	var ops []controlplane.Op
	now := s.content()
	for key, value := range kept {
		if was, there := now[key]; !there || was != value {
			ops = append(ops, controlplane.Op{Key: key, Value: []byte(value)})
		}
	}
	for key := range now {
		if _, stays := kept[key]; !stays {
			ops = append(ops, controlplane.Op{Key: key, Delete: true})
		}
	}
	if len(ops) == 0 {
		return
	}
	if _, err := s.store.Commit(s.t.Context(), controlplane.Txn{Ops: ops}); err != nil {
		s.t.Fatal(err)
	}
}

// revision returns that of the store.
func (s *rightsServer) revision() int64 {
	s.t.Helper()
	page, err := s.store.List(s.t.Context(), controlplane.ListOptions{Prefix: controlplane.Root, Limit: 1})
	if err != nil {
		s.t.Fatal(err)
	}
	return page.Revision
}
