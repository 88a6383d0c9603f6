package cli_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/escher-sched/escher/cmd/escher/internal/cli"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/dev"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/devices"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// TestScripts runs the scripts of testdata, each against a cluster of its own: two nodes of two
// cores and 1 GiB, with the simulated runtime; those of scripts named …gpus have eight GPUs each.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"escher": escher, "lines": lines, "until": until, "full": full, "clean": clean, "poison": poison},
		Setup: func(env *testscript.Env) error {
			dir, err := os.MkdirTemp("/tmp", "esc-") // paths of sockets must be short
			if err != nil {
				return err
			}
			env.Setenv("ESCHER_DIR", dir)
			gpus := "0"
			if strings.HasSuffix(env.WorkDir, "gpus") {
				gpus = "8,model=Simulated H100,memory=80Gi,links=pairs,numa=2"
			}
			return startDev(env, dev.Dir(dir), gpus)
		},
	})
}

// escher ARGS... is the command line, within this process.
func escher(ts *testscript.TestScript, neg bool, args []string) {
	code := cli.Main(args, cmdutil.Outside{
		In: strings.NewReader(""), Out: ts.Stdout(), Err: ts.Stderr(), Getenv: ts.Getenv, Executable: os.Executable,
	})
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
	if code != types.Precondition.ExitCode() || !strings.Contains(said.String(), "write output: no space left on device: ") || strings.Contains(said.String(), "should not happen") {
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
	client, err := controlplane.New(store, dev.DefaultNamespace)
	ts.Check(err)
	tasks, _, err := client.Tasks(ctx)
	ts.Check(err)
	for _, t := range tasks {
		if t.Task.Name == args[0] {
			ts.Check(client.Stop(ctx, t.ID, controlplane.StopOptions{Reason: "\x1b]0;evil\x07\x1b[31m\rred\u009b2J\u202e\nforged: yes"}))
		}
	}
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
func startDev(env *testscript.Env, dir dev.Dir, gpus string) error {
	t := env.T().(testing.TB)
	simulatedGPUs, err := devices.ParseSimulated(gpus)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error, 1)
	capacity := types.NewRequests(map[string]types.Quantity{"cpu": 2000, "memory": 1 << 30})
	go func() {
		ended <- dev.Run(ctx, dev.Config{
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

// simulated makes runtimes that simulate the command of a container: echo TEXT..., exit CODE, sleep
// DURATION, hold TEXT..., which writes it and runs on; any other command runs until it is stopped.
// The files of containers are below dir.
func simulated(dir string) dev.Runtimes {
	return func(string) (nodeagent.Runtime, error) {
		used := new(uses)
		conf := simruntime.Config{Script: behave, Exec: execute, Usage: used.Of, Root: func(id string) string { return filepath.Join(dir, "roots", id) }}
		return &writing{bare: bare{simruntime.New(conf)}, root: conf.Root, uses: used}, nil
	}
}

func behave(c nodeagent.Container) (simruntime.Behaviour, error) {
	if len(c.Command) < 2 {
		return simruntime.Behaviour{Forever: true, StopCode: 143}, nil
	}
	switch c.Command[0] {
	case "echo":
		return simruntime.Behaviour{}, nil
	case "hold":
		return simruntime.Behaviour{Forever: true, StopCode: 143}, nil
	case "deaf":
		return simruntime.Behaviour{Forever: true, Deaf: true}, nil
	case "exit":
		code, err := strconv.Atoi(c.Command[1])
		return simruntime.Behaviour{Code: code}, err
	case "sleep":
		d, err := time.ParseDuration(c.Command[1])
		return simruntime.Behaviour{Run: d, StopCode: 143}, err
	}
	return simruntime.Behaviour{}, types.Errorf(types.NotFound, "run %s: no such command", c.Command[0])
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

func (w *writing) Start(ctx context.Context, c nodeagent.Container) (nodeagent.Started, error) {
	w.uses.begin(c.ID)
	if err := os.MkdirAll(filepath.Join(w.root(c.ID), "tmp"), 0o755); err != nil {
		return nodeagent.Started{}, err
	}
	if len(c.Command) > 1 && (c.Command[0] == "echo" || c.Command[0] == "hold") {
		if err := os.MkdirAll(filepath.Dir(c.LogPath), 0o700); err != nil {
			return nodeagent.Started{}, err
		}
		if err := os.WriteFile(c.LogPath, []byte(strings.Join(c.Command[1:], " ")+"\n"), 0o600); err != nil {
			return nodeagent.Started{}, err
		}
	}
	return w.Runtime.Start(ctx, c)
}
