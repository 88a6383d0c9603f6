package runtimetest

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
	"github.com/escher-sched/escher/types"
)

func attachTests() []namedTest {
	return []namedTest{
		{"AttachCopiesTheInput", testAttach},
		{"AttachIsForOne", testAttachOne},
		{"AttachNeedsAnInput", testAttachNeedsOne},
		{"AttachAgain", testAttachAgain},
		{"AttachToOneThatDoesNotRead", testAttachUnread},
		{"InputWithoutClientEnds", testInputEnds},
	}
}

// copies starts a container that copies its input to its output, and exits with code 7 at its end.
func (s *suite) copies() nodeagent.Container {
	s.Helper()
	c := s.container("copy", "7")
	c.Stdin = true
	s.must(s.Start(s.ctx(), c))
	return c
}

// total is the number of bytes that a process was given.
type total struct {
	sync.Mutex
	now    int64
	change *sync.Cond
}

func newTotal() *total {
	t := new(total)
	t.change = sync.NewCond(t)
	return t
}

func (t *total) taken(n int64) {
	t.Lock()
	defer t.Unlock()
	t.now = n
	t.change.Broadcast()
}

// await waits for that many bytes.
func (t *total) await(n int64) {
	t.Lock()
	defer t.Unlock()
	for t.now < n {
		t.change.Wait()
	}
}

// output returns the standard output in the log of an ended container.
func (s *suite) output(c nodeagent.Container) string {
	s.Helper()
	s.must(s.Remove(s.ctx(), c.ID))
	r := tasklog.NewReader(c.LogPath)
	defer r.Close()
	var out bytes.Buffer
	s.must(r.EachNew(func(p tasklog.Piece) error {
		if p.Stream == tasklog.Stdout {
			out.Write(p.Text)
		}
		return nil
	}))
	return out.String()
}

func testAttach(s *suite) {
	c := s.copies()
	text := strings.Repeat("a line of some length, to fill pipes with\n", 20_000)
	taken := newTotal()
	s.must(s.Attach(s.ctx(), c.ID, nodeagent.Attachment{Stdin: strings.NewReader(text), Taken: taken.taken}))
	if exit := s.wait(c.ID); exit.Code != 7 {
		s.Errorf("exit %+v, want code 7", exit)
	}
	if got := s.output(c); got != text || taken.now != int64(len(text)) {
		s.Errorf("%d bytes came, %d were taken; want %d, the same", len(got), taken.now, len(text))
	}
}

func testAttachOne(s *suite) {
	c := s.copies()
	in, write := io.Pipe()
	taken, done := newTotal(), make(chan error, 1)
	go func() { done <- s.Attach(s.ctx(), c.ID, nodeagent.Attachment{Stdin: in, Taken: taken.taken}) }()
	_, _ = write.Write([]byte("first"))
	taken.await(5)
	s.wants(s.Attach(s.ctx(), c.ID, nodeagent.Attachment{Stdin: strings.NewReader("second"), Taken: func(int64) {}}), types.Conflict)
	s.must(write.Close())
	s.must(<-done)
	s.wait(c.ID)
	if got := s.output(c); got != "first" {
		s.Errorf("it got %q", got)
	}
}

func testAttachNeedsOne(s *suite) {
	none := nodeagent.Attachment{Stdin: strings.NewReader("x"), Taken: func(int64) {}}
	s.wants(s.Attach(s.ctx(), s.Cluster+"-none", none), types.NotFound)
	c := s.start("block")
	s.wants(s.Attach(s.ctx(), c.ID, none), types.Conflict)
	// Without one, Attach waits for the end of the process.
	done := make(chan error, 1)
	begun := make(chan nodeagent.Size)
	go func() { done <- s.Attach(s.ctx(), c.ID, nodeagent.Attachment{Resize: begun}) }()
	select {
	case begun <- nodeagent.Size{Width: 80, Height: 24}:
	case err := <-done:
		s.Fatalf("it did not wait: %v", err)
	}
	s.terminate(c)
	s.must(<-done)
	s.wants(s.Attach(s.ctx(), c.ID, none), types.Precondition)
}

// testAttachAgain continues after a call, and an agent, that ended in between.
func testAttachAgain(s *suite) {
	c := s.copies()
	s.find(s.Runtime, c.ID)
	runtime := s.Runtime
	so := int64(0)
	for _, text := range []string{"one ", "two ", "three "} {
		ctx, cancel := context.WithCancel(s.ctx())
		in, write := io.Pipe()
		taken, done := newTotal(), make(chan error, 1)
		before := make(chan int64, 1)
		go func() {
			done <- runtime.Attach(ctx, c.ID, nodeagent.Attachment{Stdin: in, Taken: func(n int64) {
				select {
				case before <- n:
				default:
				}
				taken.taken(n)
			}})
		}()
		from := <-before
		if from != so {
			s.Errorf("%d bytes were taken, want %d", from, so)
		}
		so += int64(len(text))
		_, _ = write.Write([]byte(text))
		taken.await(from + int64(len(text)))
		cancel()
		s.wants(<-done, types.Unavailable)
		_ = write.CloseWithError(io.ErrUnexpectedEOF) // after ctx: it ends no input
		runtime = s.Open(s.T, s.node)
		s.find(runtime, c.ID)
	}
	s.must(runtime.Attach(s.ctx(), c.ID, nodeagent.Attachment{Stdin: strings.NewReader("four"), Taken: func(int64) {}}))
	if exit := s.wait(c.ID); exit.Code != 7 {
		s.Errorf("exit %+v, want code 7", exit)
	}
	if got := s.output(c); got != "one two three four" {
		s.Errorf("it got %q", got)
	}
}

// testAttachUnread gives a process that reads nothing more than fits: the rest is not read from the
// client.
func testAttachUnread(s *suite) {
	c := s.container("block")
	c.Stdin = true
	s.must(s.Start(s.ctx(), c))
	endless := &counting{}
	done := make(chan error, 1)
	taken := newTotal()
	go func() { done <- s.Attach(s.ctx(), c.ID, nodeagent.Attachment{Stdin: endless, Taken: taken.taken}) }()
	taken.await(64 << 10)
	s.terminate(c)
	s.must(<-done)
	if most := int64(1 << 20); endless.read() > most {
		s.Errorf("%d bytes were read for a process that reads none, want at most %d", endless.read(), most)
	}
}

// counting is an endless input.
type counting struct {
	mu sync.Mutex
	n  int64
}

func (c *counting) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.n += int64(len(p))
	return len(p), nil
}

func (c *counting) read() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n
}

// testInputEnds waits for the end of an input that no client passes.
func testInputEnds(s *suite) {
	if s.Impatient == nil {
		s.Fatal("the fixture has no impatient runtime")
	}
	s.Runtime = s.Impatient(s.T, s.node)
	c := s.copies()
	if exit := s.wait(c.ID); exit.Code != 7 {
		s.Errorf("exit %+v, want code 7", exit)
	}
	if got := s.output(c); got != "" {
		s.Errorf("it got %q, want nothing", got)
	}
}
