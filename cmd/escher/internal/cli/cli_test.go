package cli_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/escher-sched/escher/api/contexts"
	"github.com/escher-sched/escher/cmd/escher/internal/cli"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/dev"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/devices"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// TestScripts runs the scripts of testdata, each against a cluster of its own: two nodes of two
// cores and 1 GiB, with the simulated runtime; those of scripts named …gpus have 8 GiB and eight GPUs each.
func TestScripts(t *testing.T) {
	bin := buildEscher(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"escher": escher, "exits": exits, "attach": attach, "attached": attached, "lines": lines, "until": until, "full": full, "clean": clean, "poison": poison, "joins": joins, "shows": shows, "nowhere": nowhere, "issuer": issuer},
		Setup: func(env *testscript.Env) error {
			dir, err := os.MkdirTemp("/tmp", "esc-") // paths of sockets must be short
			if err != nil {
				return err
			}
			env.Setenv("ESCHER_DIR", dir)
			env.Setenv("PATH", bin+string(filepath.ListSeparator)+env.Getenv("PATH"))
			env.Values[backgroundKey{}] = new(*background)
			gpus := "0"
			if strings.HasSuffix(env.WorkDir, "gpus") {
				gpus = "8,model=Simulated H100,memory=80Gi,links=pairs,numa=2"
			}
			return startDev(env, dev.Dir(dir), gpus, strings.Contains(filepath.Base(env.WorkDir), "served"))
		},
	})
}

// buildEscher builds escher for exec and for shells, and returns its directory. It has no race
// detector: that would triple the time of each command.
func buildEscher(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("go", "build", "-ldflags=-s -w", "-o", dir, "github.com/escher-sched/escher/cmd/escher")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build escher: %v\n%s", err, text)
	}
	return dir
}

// escher ARGS... is the command line, within this process. Its input is the variable INPUT.
func escher(ts *testscript.TestScript, neg bool, args []string) {
	code := cli.Main(args, cmdutil.Outside{
		In: strings.NewReader(ts.Getenv("INPUT")), Out: ts.Stdout(), Err: ts.Stderr(), Getenv: ts.Getenv, Executable: os.Executable,
	})
	if neg == (code == 0) {
		ts.Fatalf("exit code %d", code)
	}
}

// exits CODE ARGS... is escher, and checks its exit code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	code := cli.Main(args[1:], cmdutil.Outside{
		In: strings.NewReader(ts.Getenv("INPUT")), Out: ts.Stdout(), Err: ts.Stderr(), Getenv: ts.Getenv, Executable: os.Executable,
	})
	if want, err := strconv.Atoi(args[0]); err != nil || code != want {
		ts.Fatalf("exit code %d, want %s", code, args[0])
	}
}

// background is a command line that attach began.
type background struct {
	mu       sync.Mutex
	out, err strings.Builder
	code     chan int
}

// backgroundKey is that of the background in the values of a script.
type backgroundKey struct{}

// locked is a writer behind a lock.
type locked struct {
	mu *sync.Mutex
	to io.Writer
}

func (l locked) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(text)
}

// attach PATTERN ARGS… begins escher with these arguments, and returns when its error output matches.
func attach(ts *testscript.TestScript, _ bool, args []string) {
	wanted, err := regexp.Compile(args[0])
	ts.Check(err)
	b := &background{code: make(chan int, 1)}
	*ts.Value(backgroundKey{}).(**background) = b
	go func() {
		b.code <- cli.Main(args[1:], cmdutil.Outside{
			In: strings.NewReader(""), Out: locked{&b.mu, &b.out}, Err: locked{&b.mu, &b.err}, Getenv: ts.Getenv, Executable: os.Executable,
		})
	}()
	b.await(ts, wanted, &b.err)
}

// shows PATTERN waits until the output of the command that attach began matches.
func shows(ts *testscript.TestScript, _ bool, args []string) {
	wanted, err := regexp.Compile(args[0])
	ts.Check(err)
	b := *ts.Value(backgroundKey{}).(**background)
	b.await(ts, wanted, &b.out)
}

// await waits until a stream of the command matches.
func (b *background) await(ts *testscript.TestScript, wanted *regexp.Regexp, stream *strings.Builder) {
	again, patience := time.NewTicker(20*time.Millisecond), time.After(time.Minute)
	defer again.Stop()
	for {
		b.mu.Lock()
		text := stream.String()
		b.mu.Unlock()
		if wanted.MatchString(text) {
			return
		}
		select {
		case <-again.C:
		case <-patience:
			ts.Fatalf("it still says\n%s", text)
		}
	}
}

// attached waits for the end of what attach began, and passes on its output.
func attached(ts *testscript.TestScript, neg bool, _ []string) {
	b := *ts.Value(backgroundKey{}).(**background)
	code := <-b.code
	_, err := io.WriteString(ts.Stdout(), b.out.String())
	ts.Check(err)
	_, err = io.WriteString(ts.Stderr(), b.err.String())
	ts.Check(err)
	if neg == (code == 0) {
		ts.Fatalf("exit code %d", code)
	}
}

// until PATTERN ARGS… runs escher with these arguments until its output matches, and passes that on.
// The machine may be busy: completion, say, gives up soon.
func until(ts *testscript.TestScript, _ bool, args []string) {
	wanted, err := regexp.Compile(args[0])
	ts.Check(err)
	again, patience := time.NewTicker(50*time.Millisecond), time.After(2*time.Minute)
	defer again.Stop()
	for {
		var out strings.Builder
		code := cli.Main(args[1:], cmdutil.Outside{In: strings.NewReader(""), Out: &out, Err: &out, Getenv: ts.Getenv, Executable: os.Executable})
		if code == 0 && wanted.MatchString(out.String()) {
			_, err := io.WriteString(ts.Stdout(), out.String())
			ts.Check(err)
			return
		}
		select {
		case <-again.C:
		case <-patience:
			ts.Fatalf("exit code %d, and it still prints\n%s", code, &out)
		}
	}
}

// full ARGS… runs escher with an output that takes nothing: it reports that, and fails.
func full(ts *testscript.TestScript, _ bool, args []string) {
	out, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	ts.Check(err)
	defer func() { _ = out.Close() }() // nothing is in it
	var said strings.Builder
	code := cli.Main(args, cmdutil.Outside{In: strings.NewReader(""), Out: out, Err: &said, Getenv: ts.Getenv, Executable: os.Executable})
	want := types.Precondition.ExitCode()
	if strings.Contains(said.String(), "escher failed, not the task: precondition") {
		want = cmdutil.ExitFailed
	}
	if code != want || !strings.Contains(said.String(), "write output: no space left on device: ") || strings.Contains(said.String(), "should not happen") {
		ts.Fatalf("escher %s: exit code %d: %s", strings.Join(args, " "), code, &said)
	}
}

// clean ARGS… runs escher: its output has no character that a terminal obeys.
func clean(ts *testscript.TestScript, _ bool, args []string) {
	var out, said strings.Builder
	code := cli.Main(args, cmdutil.Outside{In: strings.NewReader(""), Out: &out, Err: &said, Getenv: ts.Getenv, Executable: os.Executable})
	_, err := io.WriteString(ts.Stdout(), out.String())
	ts.Check(err)
	obeyed := func(r rune) bool { return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) }
	if text := out.String() + said.String(); text == "" || code == types.Internal.ExitCode() || strings.ContainsFunc(text, obeyed) {
		ts.Fatalf("escher %s: %q", strings.Join(args, " "), text)
	}
}

// poison NAME stops the task with a name, with a reason that a terminal would obey.
func poison(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	store, err := etcdstore.Dial(ctx, etcdstore.Config{Endpoints: []string{dev.Dir(ts.Getenv("ESCHER_DIR")).Endpoint()}})
	ts.Check(err)
	defer func() { _ = store.Close() }() // nothing is left to send
	client, err := controlplane.New(store, contexts.DefaultNamespace)
	ts.Check(err)
	tasks, _, err := client.Tasks(ctx)
	ts.Check(err)
	for _, t := range tasks {
		if t.Task.Name == args[0] {
			ts.Check(client.Stop(ctx, t.ID, controlplane.StopOptions{Reason: "\x1b]0;evil\x07\x1b[31m\rred\u009b2J\u202e\nforged: yes"}))
		}
	}
}

// joins TASK makes another task of the same job, with the letter x after its id.
func joins(ts *testscript.TestScript, _ bool, args []string) {
	ctx := context.Background()
	store, err := etcdstore.Dial(ctx, etcdstore.Config{Endpoints: []string{dev.Dir(ts.Getenv("ESCHER_DIR")).Endpoint()}})
	ts.Check(err)
	defer func() { _ = store.Close() }() // nothing is left to send
	key := controlplane.TaskKey(contexts.DefaultNamespace, args[0])
	page, err := store.List(ctx, controlplane.ListOptions{Key: key})
	ts.Check(err)
	_, err = store.Commit(ctx, controlplane.Txn{Ops: []controlplane.Op{{Key: key + "x", Value: page.KVs[0].Value}}})
	ts.Check(err)
}

// lines NAME sets NAME1, NAME2, … to the lines of the last output.
func lines(ts *testscript.TestScript, _ bool, args []string) {
	n := 0
	for line := range strings.Lines(ts.ReadFile("stdout")) {
		n++
		ts.Setenv(args[0]+strconv.Itoa(n), strings.TrimSpace(line))
	}
}

// startDev runs a cluster until the script has ended.
func startDev(env *testscript.Env, dir dev.Dir, gpus string, served bool) error {
	t := env.T().(testing.TB)
	simulatedGPUs, err := devices.ParseSimulated(gpus)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	memory := types.Quantity(1 << 30)
	if gpus != "0" {
		memory = 8 << 30
	}
	capacity := types.NewRequests(map[string]types.Quantity{"cpu": 2000, "memory": memory})
	var api apiAt
	if served {
		if api, err = newAPIAt(env, string(dir)); err != nil {
			stop()
			return err
		}
	}
	go func() {
		ended <- dev.Run(ctx, dev.Config{
			History: 720 * time.Hour,
			API:     api.addresses, APICert: api.cert, APIKey: api.key, OIDC: api.oidc,
			Dir: dir, Nodes: 2, Capacity: capacity, GPUs: simulatedGPUs, Runtimes: simulated(string(dir)), Version: "test",
			Labels:   map[string][]types.Label{"node-1": {{Name: "zone", Value: "a"}}},
			Log:      zaptest.NewLogger(t, zaptest.Level(zap.WarnLevel)),
			Progress: func(string, ...any) {},
			Ready:    func(dev.Info) { close(ready) },
		})
	}()
	env.Defer(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the cluster ended with %v", err)
		}
		if err := os.RemoveAll(string(dir)); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-ready:
		return nil
	case err := <-ended:
		ended <- err
		return errors.Join(errors.New("the cluster did not start"), err)
	}
}

// simulated makes runtimes that simulate the command of a container: echo TEXT..., tell PIECES...,
// exit CODE, sleep DURATION, hold TEXT..., which writes it and runs on, copy CODE, which copies its
// input; any other command runs until it is stopped. Containers of some images end at once.
// The files of containers are below dir.
func simulated(dir string) dev.Runtimes {
	return func(string) (nodeagent.Runtime, error) {
		used := new(uses)
		conf := simruntime.Config{Script: behave, Exec: execute, Usage: used.Of, Root: func(id string) string { return filepath.Join(dir, "roots", id) }}
		return &writing{bare: bare{simruntime.New(conf)}, root: conf.Root, uses: used}, nil
	}
}

func behave(c nodeagent.Container) (simruntime.Behaviour, error) {
	c.Command = slices.Concat(c.Entrypoint, c.Command)
	if regexp.MustCompile(`(^|/)(train|trainer|sweep|python):`).MatchString(c.Image) {
		return simruntime.Behaviour{Output: []tasklog.Piece{{Stream: tasklog.Stdout, Text: []byte("epoch 3\n")}}}, nil
	}
	if strings.HasPrefix(c.Image, "web:") {
		return simruntime.Behaviour{Output: []tasklog.Piece{{Stream: tasklog.Stdout, Text: []byte("ready\n")}}, Forever: true, StopCode: 143}, nil
	}
	if len(c.Command) < 2 {
		return simruntime.Behaviour{Forever: true, StopCode: 143}, nil
	}
	switch c.Command[0] {
	case "echo":
		return simruntime.Behaviour{Output: echoed(c)}, nil
	case "secrets":
		return simruntime.Behaviour{Output: received(c)}, nil
	case "hold":
		return simruntime.Behaviour{Output: echoed(c), Forever: true, StopCode: 143}, nil
	case "tell":
		output, err := told(c.Command[1:])
		return simruntime.Behaviour{Output: output}, err
	case "deaf":
		return simruntime.Behaviour{Forever: true, Deaf: true}, nil
	case "exit":
		code, err := strconv.Atoi(c.Command[1])
		return simruntime.Behaviour{Code: code}, err
	case "copy":
		code, err := strconv.Atoi(c.Command[1])
		return simruntime.Behaviour{Copy: true, Code: code}, err
	case "sleep":
		d, err := time.ParseDuration(c.Command[1])
		return simruntime.Behaviour{Run: d, StopCode: 143}, err
	}
	return simruntime.Behaviour{}, types.Errorf(types.NotFound, "run %s: no such command", c.Command[0])
}

// echoed is the output of echo and hold.
func echoed(c nodeagent.Container) []tasklog.Piece {
	return []tasklog.Piece{{Stream: tasklog.Stdout, Text: []byte(strings.Join(c.Command[1:], " ") + "\n")}}
}

// told parses the output of tell: pieces like out:SECONDS:TEXT and err:SECONDS:TEXT, that many seconds
// after noon. In the text, ; is the end of a line.
func told(args []string) (pieces []tasklog.Piece, err error) {
	for _, arg := range args {
		fields := strings.SplitN(arg, ":", 3)
		seconds, err := strconv.Atoi(fields[1])
		if err != nil {
			return nil, err
		}
		at := time.Date(2026, 1, 31, 12, 0, seconds, 0, time.UTC)
		stream := map[string]tasklog.Stream{"out": tasklog.Stdout, "err": tasklog.Stderr}[fields[0]]
		pieces = append(pieces, tasklog.Piece{Stream: stream, At: at, Text: []byte(strings.ReplaceAll(fields[2], ";", "\n"))})
	}
	return pieces, nil
}

// bare is a simulated runtime, whose images writing replaces.
type bare struct{ *simruntime.Runtime }

// writing is a runtime whose containers write what they echo, and have files.
type writing struct {
	bare
	root func(id string) string
	uses *uses
	imageStore
}

// Load keeps what is sent by --workdir apart from other images.
func (w *writing) Load(ctx context.Context, archive io.Reader) ([]nodeagent.Image, error) {
	buffered := bufio.NewReader(archive)
	if begin, _ := buffered.Peek(len("oci-layout")); string(begin) != "oci-layout" {
		return w.imageStore.Load(ctx, buffered)
	}
	return w.Runtime.Load(ctx, buffered)
}

func (w *writing) Start(ctx context.Context, c nodeagent.Container) (nodeagent.Started, error) {
	w.uses.begin(c.ID)
	for _, dir := range []string{"tmp", "data", "models"} {
		if err := os.MkdirAll(filepath.Join(w.root(c.ID), dir), 0o755); err != nil {
			return nodeagent.Started{}, err
		}
	}
	if err := os.WriteFile(filepath.Join(w.root(c.ID), "data/result.csv"), []byte("loss\n0.5\n"), 0o644); err != nil {
		return nodeagent.Started{}, err
	}
	return w.Runtime.Start(ctx, c)
}
