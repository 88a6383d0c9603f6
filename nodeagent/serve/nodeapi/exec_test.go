package nodeapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

func TestExecPassesStreams(t *testing.T) {
	w := newWorld(t)
	w.runtime.exec = func(_ context.Context, id string, p nodeagent.Process) (int, error) {
		if id != "container-3" || p.User != "me" || p.Dir != "/d" || !p.TTY || len(p.Env) != 1 {
			t.Errorf("%s: %+v", id, p)
		}
		size := <-p.Resize
		fmt.Fprintf(p.Stderr, "%dx%d", size.Width, size.Height)
		_, err := io.Copy(p.Stdout, p.Stdin)
		return 42, err
	}
	// Several times the credit.
	in := bytes.Repeat([]byte("0123456789abcde\n"), 100_000)
	sizes := make(chan nodeagent.Size, 1)
	sizes <- nodeagent.Size{Width: 80, Height: 24}
	var out, errs bytes.Buffer
	code, err := w.Exec(t.Context(), "x", "t", 3, nodeagent.Process{
		Command: []string{"cat"}, Env: []string{"A=b"}, Dir: "/d", User: "me", TTY: true,
		Stdin: bytes.NewReader(in), Stdout: &out, Stderr: &errs, Resize: sizes,
	})
	if err != nil || code != 42 || !bytes.Equal(out.Bytes(), in) || errs.String() != "80x24" {
		t.Errorf("%d, %v: %d of %d bytes, %q", code, err, out.Len(), len(in), errs.String())
	}
}

// TestExecEndsBeforeItsInput runs a command that reads nothing of an endless input.
func TestExecEndsBeforeItsInput(t *testing.T) {
	w := newWorld(t)
	w.runtime.exec = func(context.Context, string, nodeagent.Process) (int, error) { return 3, nil }
	in, feed := io.Pipe()
	t.Cleanup(func() { _ = feed.Close() }) // It never fails.
	code, err := w.Exec(t.Context(), "x", "t", 1, nodeagent.Process{Command: []string{"true"}, Stdin: in})
	if err != nil || code != 3 {
		t.Errorf("%d, %v", code, err)
	}
}

// TestExecIsKilledWithItsClient disconnects a client whose input is full and unread.
func TestExecIsKilledWithItsClient(t *testing.T) {
	w := newWorld(t)
	ctx, gone := context.WithCancel(t.Context())
	killed := make(chan struct{})
	w.runtime.exec = func(wanted context.Context, _ string, p nodeagent.Process) (int, error) {
		_, _ = p.Stdin.Read(make([]byte, 1))
		gone()
		<-wanted.Done()
		close(killed)
		return 0, wanted.Err()
	}
	if _, err := w.Exec(ctx, "x", "t", 1, nodeagent.Process{Command: []string{"sleep"}, Stdin: endless{}}); !types.Is(err, types.Unavailable) {
		t.Errorf("%v", err)
	}
	<-killed
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func TestExecSaysWhyNot(t *testing.T) {
	w := newWorld(t)
	w.runtime.exec = func(context.Context, string, nodeagent.Process) (int, error) {
		return 0, types.Errorf(types.NotFound, "there is no such command")
	}
	if _, err := w.Exec(t.Context(), "x", "t", 1, nodeagent.Process{Command: []string{"none"}}); !types.Is(err, types.NotFound) {
		t.Errorf("%v", err)
	}
	if _, err := w.Exec(t.Context(), "x", "t", 1, nodeagent.Process{}); !types.Is(err, types.Invalid) {
		t.Errorf("no command: %v", err)
	}
	w.agent.set(func() { w.agent.bound = false })
	_, err := w.Exec(t.Context(), "x", "t", 1, nodeagent.Process{Command: []string{"true"}})
	if !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("%v", err)
	}
}
