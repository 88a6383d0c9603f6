package nodeapi_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

// attachable runs container-1, which has an input and copies it to the returned log.
func attachable(t *testing.T, w *world, copies bool) (log string) {
	t.Helper()
	w.runtime.Runtime = simruntime.New(simruntime.Config{Script: func(nodeagent.Container) (simruntime.Behaviour, error) {
		return simruntime.Behaviour{Copy: copies, Forever: true, Code: 5}, nil
	}})
	log = filepath.Join(t.TempDir(), "log")
	if _, err := w.runtime.Start(t.Context(), nodeagent.Container{ID: "container-1", LogPath: log, Stdin: true, TTY: true}); err != nil {
		t.Fatal(err)
	}
	return log
}

// ended waits for the end of container-1, and checks what it copied.
func ended(t *testing.T, w *world, log string, want []byte) {
	t.Helper()
	exit, err := w.runtime.Wait(t.Context(), "container-1")
	if err != nil || exit.Code != 5 {
		t.Errorf("exit %+v, %v; want code 5", exit, err)
	}
	if got, err := os.ReadFile(log); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes came, %v; want %d, the same", len(got), err, len(want))
	}
}

func TestAttachPassesInputAndSize(t *testing.T) {
	w := newWorld(t)
	log := attachable(t, w, true)
	// Several times what may be on its way.
	in := bytes.Repeat([]byte("0123456789abcde\n"), 100_000)
	sizes := make(chan nodeagent.Size, 1)
	sizes <- nodeagent.Size{Width: 99, Height: 33}
	if err := w.Attach(t.Context(), "x", "t", 1, nodeapi.NewInput(bytes.NewReader(in)), sizes); err != nil {
		t.Fatal(err)
	}
	ended(t, w, log, in)
}

// TestAttachResizes has no input, and ends with the process.
func TestAttachResizes(t *testing.T) {
	w := newWorld(t)
	attachable(t, w, true)
	sizes := make(chan nodeagent.Size)
	done := make(chan error, 1)
	go func() { done <- w.Attach(t.Context(), "x", "t", 1, nil, sizes) }()
	sizes <- nodeagent.Size{Width: 99, Height: 33}
	sizes <- nodeagent.Size{Width: 99, Height: 34} // after the first was sent
	for w.runtime.Size("container-1").Width != 99 {
		if t.Context().Err() != nil {
			t.Fatal("the size does not arrive")
		}
	}
	if err := w.runtime.Finish("container-1", 0); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestAttachEndsWithItsClient disconnects a client: the input ends after what has arrived.
func TestAttachEndsWithItsClient(t *testing.T) {
	w := newWorld(t)
	log := attachable(t, w, true)
	ctx, gone := context.WithCancel(t.Context())
	in, write := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- w.Attach(ctx, "x", "t", 1, nodeapi.NewInput(in), nil) }()
	_, _ = write.Write([]byte("arrives"))
	for text := ""; text != "arrives"; {
		got, _ := os.ReadFile(log) // not there at first
		text = string(got)
	}
	gone()
	if err := <-done; !types.Is(err, types.Unavailable) {
		t.Errorf("%v", err)
	}
	ended(t, w, log, []byte("arrives"))
	_ = write.Close()
}

// TestAttachOutlivesAgent ends the API in the middle of an input, again and again: the process gets
// each byte once.
func TestAttachOutlivesAgent(t *testing.T) {
	w := newWorld(t)
	log := attachable(t, w, true)
	want := bytes.Repeat([]byte("0123456789abcde\n"), 50_000)
	from := &stepping{data: want, every: len(want) / 5, steps: make(chan struct{})}
	in := nodeapi.NewInput(from)
	for last := false; !last; {
		ctx, stop := context.WithCancel(t.Context())
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		over := make(chan error, 1)
		go func() { over <- nodeapi.Serve(ctx, l, nodeapi.Config{Agent: w.agent, Runtime: w.runtime}) }()
		c, err := nodeapi.New("n", "http://"+l.Addr().String(), token, nil)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- c.Attach(t.Context(), "x", "t", 1, in, nil) }()
		select {
		case <-from.steps:
			stop()
			if err := <-done; !types.Is(err, types.Unavailable) {
				t.Fatalf("the agent has ended: %v", err)
			}
		case err := <-done:
			if last = true; err != nil {
				t.Fatal(err)
			}
		}
		stop()
		if err := <-over; ctx.Err() == nil {
			t.Fatal(err)
		}
		c.Close()
	}
	ended(t, w, log, want)
}

// stepping is an input that reports every so many bytes.
type stepping struct {
	data  []byte
	every int
	steps chan struct{}
	since int
}

func (s *stepping) Read(p []byte) (int, error) {
	if s.since >= s.every {
		s.since = 0
		s.steps <- struct{}{}
	}
	n := copy(p, s.data)
	s.data = s.data[n:]
	if s.since += n; n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// TestAttachIsBounded passes an endless input to a process that reads nothing.
func TestAttachIsBounded(t *testing.T) {
	w := newWorld(t)
	attachable(t, w, false)
	in := &counted{full: make(chan struct{})}
	done := make(chan error, 1)
	go func() { done <- w.Attach(t.Context(), "x", "t", 1, nodeapi.NewInput(in), nil) }()
	<-in.full // more than fits into the pipe was read
	if err := w.runtime.Finish("container-1", 0); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if n := in.n.Load(); n > 1<<20 {
		t.Errorf("%d bytes were read for a process that reads nothing", n)
	}
}

// counted is an endless input; full is closed after 256 KiB.
type counted struct {
	n    atomic.Int64
	full chan struct{}
}

func (c *counted) Read(p []byte) (int, error) {
	before := c.n.Load()
	if c.n.Add(int64(len(p))) >= 256<<10 && before < 256<<10 {
		close(c.full)
	}
	return len(p), nil
}

func TestAttachSaysWhyNot(t *testing.T) {
	w := newWorld(t)
	attachable(t, w, true)
	empty := func() *nodeapi.Input { return nodeapi.NewInput(strings.NewReader("")) }
	if err := w.Attach(t.Context(), "x", "t", 2, empty(), nil); !types.Is(err, types.NotFound) {
		t.Errorf("no container: %v", err)
	}
	if err := w.Attach(t.Context(), "x", "t", 1, empty(), nil); err != nil {
		t.Fatal(err)
	}
	if err := w.Attach(t.Context(), "x", "t", 1, empty(), nil); !types.Is(err, types.Precondition) {
		t.Errorf("it has ended: %v", err)
	}
	w.agent.set(func() { w.agent.bound = false })
	if err := w.Attach(t.Context(), "x", "t", 1, empty(), nil); !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), "does not run") {
		t.Errorf("it is not bound: %v", err)
	}

	// An agent of an older version.
	old := httptest.NewServer(http.HandlerFunc(answer.Missing("docs/node-api.md")))
	defer old.Close()
	c, err := nodeapi.New("n", old.URL, token, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Attach(t.Context(), "x", "t", 1, empty(), nil); !types.Is(err, types.NotFound) {
		t.Errorf("an older agent: %v", err)
	}
}
