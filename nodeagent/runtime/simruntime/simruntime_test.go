package simruntime_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
	"github.com/escher-sched/escher/nodeagent/runtime/runtimetest"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// pinned is the image of the suite by digest.
const pinned = "escher.local/runtimetest@sha256:5eed"

// exec runs the test program in a container.
func exec(ctx context.Context, _ string, p nodeagent.Process) (int, error) {
	switch {
	case p.Command[0] != runtimetest.Program:
		return 0, types.Errorf(types.NotFound, "find command %s: there is none", p.Command[0])
	case p.Command[1] == "deaf":
		<-ctx.Done()
		return 0, types.Errorf(types.Unavailable, "run %s: %w", p.Command, ctx.Err())
	}
	return strconv.Atoi(p.Command[2])
}

// program is the test program of the suite.
func program(c nodeagent.Container) (simruntime.Behaviour, error) {
	none := simruntime.Behaviour{}
	command := slices.Concat(c.Entrypoint, c.Command)
	switch c.Image {
	case runtimetest.Image, pinned:
	case runtimetest.EntryImage:
		if len(command) == 0 {
			command = []string{"exit", "6"}
		}
		if len(c.Entrypoint) == 0 {
			command = append([]string{runtimetest.Program}, command...)
		}
	default:
		return none, types.Errorf(types.NotFound, "find image %s: there is none", c.Image)
	}
	if command[0] != runtimetest.Program {
		return none, types.Errorf(types.NotFound, "find command %s: there is none", command[0])
	}
	switch command[1] {
	case "exit":
		code, err := strconv.Atoi(command[2])
		return simruntime.Behaviour{Run: 5 * time.Millisecond, Code: code}, err
	case "block", "usr1":
		return simruntime.Behaviour{Forever: true, StopAfter: time.Millisecond}, nil
	case "deaf":
		return simruntime.Behaviour{Forever: true, Deaf: true}, nil
	case "copy":
		code, err := strconv.Atoi(command[2])
		return simruntime.Behaviour{Copy: true, Code: code}, err
	case "alternate":
		b := simruntime.Behaviour{Run: 5 * time.Millisecond}
		for i := range runtimetest.Alternations {
			b.Output = append(b.Output, tasklog.Piece{Stream: tasklog.Stdout, Text: fmt.Appendln(nil, "out", i)},
				tasklog.Piece{Stream: tasklog.Stderr, Text: fmt.Appendln(nil, "err", i)})
		}
		b.Output = append(b.Output, tasklog.Piece{Stream: tasklog.Stdout, Text: []byte("the end")})
		return b, nil
	}
	return none, fmt.Errorf("unknown verb %s", command[1])
}

func TestConformance(t *testing.T) {
	nodes := make(map[string]*simruntime.Runtime)
	root := t.TempDir()
	if err := errors.Join(os.Mkdir(filepath.Join(root, "bin"), 0o700), os.WriteFile(filepath.Join(root, runtimetest.Program), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	open := func(wait time.Duration) func(*testing.T, string) nodeagent.Runtime {
		return func(_ *testing.T, node string) nodeagent.Runtime {
			if wait > 0 {
				node += "-impatient"
			}
			if nodes[node] == nil {
				nodes[node] = simruntime.New(simruntime.Config{
					Script: program, Exec: exec, AttachWait: wait,
					Resolve: func(string) string { return pinned },
					Root:    func(string) string { return root },
					Check: func(image string) *types.Check {
						if image == runtimetest.EntryImage {
							return runtimetest.Check()
						}
						return nil
					},
				})
			}
			return nodes[node]
		}
	}
	runtimetest.Run(t, runtimetest.Fixture{
		Cluster: "sim", Ready: func(*testing.T, nodeagent.Container) {}, Open: open(0), Impatient: open(time.Millisecond),
	})
}

func start(t *testing.T, r *simruntime.Runtime, id string) {
	t.Helper()
	if _, err := r.Start(t.Context(), nodeagent.Container{ID: id}); err != nil {
		t.Fatal(err)
	}
}

func TestDurationsPassInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := simruntime.New(simruntime.Config{Script: func(nodeagent.Container) (simruntime.Behaviour, error) {
			return simruntime.Behaviour{Run: time.Hour, Code: 3}, nil
		}})
		begin := time.Now()
		start(t, r, "a")
		exit, err := r.Wait(t.Context(), "a")
		if err != nil || exit.Code != 3 || exit.At.Sub(begin) != time.Hour {
			t.Errorf("exit %+v, %v; want code 3 after an hour", exit, err)
		}
	})
}

func TestStopTakesItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := simruntime.New(simruntime.Config{Script: func(nodeagent.Container) (simruntime.Behaviour, error) {
			return simruntime.Behaviour{Run: time.Hour, StopAfter: time.Minute, StopCode: 4}, nil
		}})
		begin := time.Now()
		start(t, r, "a")
		if err := r.Signal(t.Context(), "a", syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		exit, err := r.Wait(t.Context(), "a")
		if err != nil || exit.Code != 4 || exit.At.Sub(begin) != time.Minute {
			t.Errorf("exit %+v, %v; want code 4 after a minute", exit, err)
		}
	})
}

func TestFinishIsAtOnce(t *testing.T) {
	at := time.Unix(1000, 0)
	r := simruntime.New(simruntime.Config{Now: func() time.Time { return at }})
	start(t, r, "a")
	if err := r.Finish("a", 5); err != nil {
		t.Fatal(err)
	}
	list, err := r.List(t.Context())
	if err != nil || len(list) != 1 || list[0].Running || *list[0].Exit != (nodeagent.Exit{Code: 5, At: at}) {
		t.Errorf("listed %+v, %v; want it ended with 5", list, err)
	}
	if err := r.Finish("b", 0); !types.Is(err, types.NotFound) {
		t.Errorf("finish of nothing: %v, want NotFound", err)
	}
}

func TestFaults(t *testing.T) {
	next := simruntime.NoFault
	r := simruntime.New(simruntime.Config{Fault: func(simruntime.Op, string) simruntime.Fault {
		fault := next
		next = simruntime.NoFault
		return fault
	}})
	next = simruntime.Refused
	if _, err := r.Start(t.Context(), nodeagent.Container{ID: "a"}); !types.Is(err, types.Unavailable) || len(r.Running()) != 0 {
		t.Errorf("refused start: %v, running %v; want Unavailable and nothing", err, r.Running())
	}
	next = simruntime.Unanswered
	if _, err := r.Start(t.Context(), nodeagent.Container{ID: "a"}); !types.Is(err, types.Unavailable) || len(r.Running()) != 1 {
		t.Errorf("unanswered start: %v, running %v; want Unavailable and a container", err, r.Running())
	}
	start(t, r, "a")
	if runs := r.Runs()["a"]; runs != 1 {
		t.Errorf("it ran %d times, want once", runs)
	}
}

func TestDownIsNotAnEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := simruntime.New(simruntime.Config{})
		start(t, r, "a")
		changes := r.Changes(t.Context())
		failed := make(chan error)
		go func() {
			_, err := r.Wait(t.Context(), "a")
			failed <- err
		}()
		synctest.Wait()
		r.SetDown(true)
		if err := <-failed; !types.Is(err, types.Unavailable) {
			t.Errorf("wait while it goes down: %v, want Unavailable", err)
		}
		for range changes { // It ends.
		}
		if _, err := r.List(t.Context()); !types.Is(err, types.Unavailable) {
			t.Errorf("list while it is down: %v, want Unavailable", err)
		}
		r.SetDown(false)
		if list, err := r.List(t.Context()); err != nil || len(list) != 1 || !list[0].Running {
			t.Errorf("listed %+v, %v; want it running", list, err)
		}
	})
}

func TestRebootAndLose(t *testing.T) {
	r := simruntime.New(simruntime.Config{})
	start(t, r, "a")
	start(t, r, "b")
	if err := r.Lose("a"); err != nil {
		t.Fatal(err)
	}
	if got := r.Running(); len(got) != 1 || got[0] != "b" {
		t.Errorf("running %v, want b alone", got)
	}
	r.Reboot()
	for _, id := range []string{"a", "b"} {
		exit, err := r.Wait(context.Background(), id)
		if err != nil || exit.Code != 137 || exit.Reason == "" {
			t.Errorf("exit of %s %+v, %v; want 137 with a reason", id, exit, err)
		}
	}
}
