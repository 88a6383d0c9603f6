package nodeapi_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

const token = "the-token-of-this-session"

// agent knows the attempts of one task, x/t.
type agent struct {
	dir string
	// starting is closed when the agent has started; nil means it has.
	starting chan struct{}

	mu     sync.Mutex
	bound  bool
	token  string
	broken bool
	// unbound is called when Bound has reported that the attempt is over, with the number of times.
	unbound func(times int)
	told    int
	events  []nodeagent.Event
	more    chan struct{}
}

func (a *agent) Node() string { return "n" }

func (a *agent) Token() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.token
}

func (a *agent) Await(ctx context.Context) error {
	if a.starting == nil {
		return nil
	}
	select {
	case <-a.starting:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (a *agent) set(edit func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	edit()
}

func (a *agent) Bound(string, string, int) (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.broken {
		return false, types.Errorf(types.Unavailable, "it is starting")
	}
	if !a.bound {
		a.told++
		if a.unbound != nil {
			a.unbound(a.told)
		}
	}
	return a.bound, nil
}

func (a *agent) ContainerOf(_, id string, attempt int) (string, error) {
	bound, err := a.Bound("", id, attempt)
	if err == nil && !bound {
		err = types.Errorf(types.Precondition, "find the container of task %s: it does not run", id)
	}
	return "container-" + strconv.Itoa(attempt), err
}

func (a *agent) LogPath(_, _ string, attempt int) string {
	return filepath.Join(a.dir, strconv.Itoa(attempt)+".log")
}

func (a *agent) Logged(string, string) ([]int, error) { return []int{1, 2}, nil }

func (a *agent) Events(_, _ string, _, after int) ([]nodeagent.Event, <-chan struct{}) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.more == nil {
		return nil, nil
	}
	return a.events[min(after, len(a.events)):], a.more
}

// runtime is a simulated runtime that does what the test sets.
type runtime struct {
	*simruntime.Runtime
	exec func(context.Context, string, nodeagent.Process) (int, error)
	root string
	// loaded is the archive given to Load; pull decides a pull.
	loaded  strings.Builder
	pull    func(context.Context) (nodeagent.Image, error)
	pulling []nodeagent.Pulling
}

func (r *runtime) Exec(ctx context.Context, id string, p nodeagent.Process) (int, error) {
	return r.exec(ctx, id, p)
}

func (r *runtime) Root(context.Context, string) (string, error) { return r.root, nil }

func (r *runtime) Load(_ context.Context, archive io.Reader) ([]nodeagent.Image, error) {
	if _, err := io.Copy(&r.loaded, archive); err != nil {
		return nil, err
	}
	if strings.HasPrefix(r.loaded.String(), "garbage") {
		return nil, types.Errorf(types.Invalid, "archive: is none")
	}
	return []nodeagent.Image{{Name: "escher.local/x:1", Digest: "sha256:1"}}, nil
}

func (r *runtime) Pull(ctx context.Context, _ string) (nodeagent.Image, error) { return r.pull(ctx) }

func (r *runtime) Pulling() []nodeagent.Pulling { return r.pulling }

// world is a served API and its client.
type world struct {
	*nodeapi.Client
	agent   *agent
	runtime *runtime
	used    *used
	url     string
}

// said are the words of the program that serves the API.
func said(a action.Action) string { return "say " + a.String() }

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{used: new(used), agent: &agent{dir: t.TempDir(), bound: true, token: token}, runtime: &runtime{Runtime: simruntime.New(simruntime.Config{}), root: t.TempDir()}}
	open := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "open") })
	srv := httptest.NewServer(nodeapi.Handler(nodeapi.Config{Agent: w.agent, Runtime: w.runtime, Usage: w.used, Open: open, Say: said}))
	t.Cleanup(srv.Close)
	w.url = srv.URL
	w.Client = w.client(t, token)
	return w
}

func (w *world) client(t *testing.T, token string) *nodeapi.Client {
	t.Helper()
	c, err := nodeapi.New("n", w.url, token, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestTakesItsTokenOnly(t *testing.T) {
	w := newWorld(t)
	for _, wrong := range []string{"", "wrong", token + "x", token[:5]} {
		if _, err := w.client(t, wrong).Usage(t.Context(), time.Time{}); !types.Is(err, types.Unavailable) {
			t.Errorf("token %q: %v", wrong, err)
		}
		if _, err := w.client(t, wrong).Exec(t.Context(), "x", "t", 1, nodeagent.Process{Command: []string{"true"}}); !types.Is(err, types.Unavailable) {
			t.Errorf("exec with token %q: %v", wrong, err)
		}
	}
	used, err := w.Usage(t.Context(), time.Time{})
	if err != nil || len(used) != 1 || used[0].Task != "t" || *used[0].MemoryBytes != 5 {
		t.Errorf("%+v, %v", used, err)
	}
	w.agent.set(func() { w.agent.token = "" })
	if _, err := w.client(t, "").Usage(t.Context(), time.Time{}); !types.Is(err, types.Unavailable) {
		t.Errorf("without a session: %v", err)
	}
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/v1/usage": 503, "/": 503} {
		res, err := http.Get(w.url + path)
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != want {
			t.Errorf("%s without a token answers %d, want %d", path, res.StatusCode, want)
		}
	}
}

func TestNamesArePathsOfNothingElse(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"..", "../../etc", "a/b", ""} {
		if _, err := w.Logged(t.Context(), "x", id); err == nil {
			t.Errorf("task %q is taken", id)
		}
	}
}

func TestSaysThatANodeIsAway(t *testing.T) {
	for _, address := range []string{"unix:///nonexistent/api.sock", "http://127.0.0.1:1"} {
		c, err := nodeapi.New("n", address, token, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Images(t.Context()); !types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "node n at "+address) {
			t.Errorf("%v", err)
		}
	}
	for _, address := range []string{"", "dev", "ftp://x"} {
		if _, err := nodeapi.New("n", address, token, nil); !types.Is(err, types.Precondition) {
			t.Errorf("address %q: %v", address, err)
		}
	}
}

func TestEvents(t *testing.T) {
	w := newWorld(t)
	each := func(nodeapi.Event) error { return nil }
	if err := w.Events(t.Context(), "x", "t", 1, 0, true, each); !types.Is(err, types.NotFound) {
		t.Errorf("of nothing: %v", err)
	}
	add := func(step nodeagent.Step) {
		w.agent.set(func() {
			w.agent.events = append(w.agent.events, nodeagent.Event{Seq: len(w.agent.events) + 1, Step: step})
			if w.agent.more != nil {
				close(w.agent.more)
			}
			w.agent.more = make(chan struct{})
		})
	}
	add(nodeagent.StepBound)
	var steps []string
	err := w.Events(t.Context(), "x", "t", 1, 0, true, func(e nodeapi.Event) error {
		steps = append(steps, string(e.Step))
		switch e.Step {
		case nodeagent.StepBound:
			add(nodeagent.StepStarted)
		case nodeagent.StepStarted:
			add(nodeagent.StepReleased)
		}
		return nil
	})
	if got := strings.Join(steps, " "); err != nil || got != "bound started released" {
		t.Errorf("%s, %v", got, err)
	}
	// An attempt that is over has no further events, so this ends too.
	err = w.Events(t.Context(), "x", "t", 1, 3, true, func(e nodeapi.Event) error {
		t.Errorf("%+v comes again", e)
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestImages(t *testing.T) {
	w := newWorld(t)
	images, err := w.Load(t.Context(), strings.NewReader("archive"))
	if err != nil || len(images) != 1 || images[0].Name != "escher.local/x:1" || w.runtime.loaded.String() != "archive" {
		t.Errorf("%v, %v, loaded %q", images, err, w.runtime.loaded.String())
	}
	w.runtime.loaded.Reset()
	if _, err := w.Load(t.Context(), strings.NewReader("garbage"+strings.Repeat("x", 1<<22))); !types.Is(err, types.Invalid) {
		t.Errorf("garbage: %v", err)
	}
	w.runtime.pulling = []nodeagent.Pulling{{Name: "docker.io/library/x:1", Done: 1, Total: 2, Trouble: "slow"}}
	if p, err := w.Pulling(t.Context(), "x:1"); err != nil || p.Done != 1 || p.Total != 2 || p.Trouble != "slow" {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := w.Pulling(t.Context(), "other"); err != nil || p != (nodeapi.Pull{}) {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := w.Pulling(t.Context(), "not an image"); !types.Is(err, types.Invalid) {
		t.Errorf("%v", err)
	}
	seen := make(chan struct{})
	w.runtime.pull = func(ctx context.Context) (nodeagent.Image, error) {
		<-seen
		return nodeagent.Image{Name: "docker.io/library/x:1", Digest: "sha256:2"}, nil
	}
	image, err := w.Pull(t.Context(), "x:1", func(p nodeapi.Pull) {
		if p.Done == 1 && p.Total == 2 && p.Trouble == "slow" {
			close(seen)
		}
	})
	if err != nil || image.Digest != "sha256:2" {
		t.Errorf("%v, %v", image, err)
	}
	w.runtime.pull = func(context.Context) (nodeagent.Image, error) {
		return nodeagent.Image{}, types.Errorf(types.NotFound, "no registry has it")
	}
	none := func(nodeapi.Pull) {}
	if _, err := w.Pull(t.Context(), "x:1", none); !types.Is(err, types.NotFound) || err.Error() != "no registry has it" {
		t.Errorf("%v", err)
	}
	if _, err := w.Pull(t.Context(), "not an image", none); !types.Is(err, types.Invalid) {
		t.Errorf("%v", err)
	}
	gone, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	w.runtime.pull = func(ctx context.Context) (nodeagent.Image, error) {
		cancel()
		<-ctx.Done()
		close(ended)
		return nodeagent.Image{}, ctx.Err()
	}
	if _, err := w.Pull(gone, "x:1", none); !types.Is(err, types.Unavailable) {
		t.Errorf("%v", err)
	}
	<-ended // The pull has no users.
}

// TestLogsConnectionsThatFail connects without TLS to a node with TLS: the message of Go's server
// goes to the log.
func TestLogsConnectionsThatFail(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	said := make(chan zapcore.Entry, 10)
	logger := zaptest.NewLogger(t, zaptest.WrapOptions(zap.Hooks(func(e zapcore.Entry) error {
		said <- e
		return nil
	})))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	secure := tls.NewListener(l, &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return nil, io.EOF }})
	go func() { ended <- nodeapi.Serve(ctx, secure, nodeapi.Config{Agent: new(agent), Log: logger}) }()
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if e := <-said; e.Message != "connection failed" {
		t.Errorf("logged: %+v", e)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestAwaitsTheStart tests that a request to an agent that starts is answered once it has started.
func TestAwaitsTheStart(t *testing.T) {
	w := newWorld(t)
	w.agent.starting = make(chan struct{})
	w.agent.set(func() { w.agent.broken = true })
	answered := make(chan error, 1)
	w.runtime.exec = func(context.Context, string, nodeagent.Process) (int, error) { return 0, nil }
	go func() {
		_, err := w.Exec(t.Context(), "x", "t", 1, nodeagent.Process{Command: []string{"true"}})
		answered <- err
	}()
	select {
	case err := <-answered:
		t.Fatalf("answered before the agent has started: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	w.agent.set(func() { w.agent.broken = false })
	close(w.agent.starting)
	if err := <-answered; err != nil {
		t.Error(err)
	}
}
