package containerd_test

import (
	"context"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd"
	"github.com/escher-sched/escher/nodeagent/runtime/runtimetest"
	"github.com/escher-sched/escher/types"
)

func attachTests() map[string]func(*bench) {
	return map[string]func(*bench){
		"Terminal":            testTerminal,
		"TerminalAlone":       testTerminalAlone,
		"TerminalGoesAway":    testTerminalGoesAway,
		"InputNeedsLog":       testInputNeedsLog,
		"InputLogWhole":       testInputLogWhole,
		"InputLoggerKilled":   testInputLoggerKilled,
		"InputAgentKilled":    testInputAgentKilled,
		"InputLeavesNothing":  testInputLeavesNothing,
		"InputOfStartResumed": testInputOfStartResumed,
	}
}

// attached passes an input in a goroutine.
func (b *bench) attached(c nodeagent.Container, a nodeagent.Attachment) (done chan error) {
	if a.Taken == nil {
		a.Taken = func(int64) {}
	}
	done = make(chan error, 1)
	go func() { done <- b.Attach(b.ctx(), c.ID, a) }()
	return done
}

func testTerminal(b *bench) {
	c := b.container("terminal")
	c.Stdin, c.TTY = true, true
	b.start(c)
	in, write := io.Pipe()
	sizes := make(chan nodeagent.Size)
	done := b.attached(c, nodeagent.Attachment{Stdin: in, Resize: sizes})
	runtimetest.AwaitLog(b.T, c.LogPath, "80x24 xterm\r\n")
	sizes <- nodeagent.Size{Width: 100, Height: 50}
	runtimetest.AwaitLog(b.T, c.LogPath, "100x50 xterm\r\n")
	_, err := write.Write([]byte{4}) // Ctrl-D
	b.must(err)
	if exit := b.wait(c.ID); exit.Code != 0 {
		b.Errorf("exit %+v, want code 0", exit)
	}
	b.must(<-done)

	// Ctrl-C of the terminal.
	c = b.container("block")
	c.Stdin, c.TTY, c.Env = true, true, []string{"TERM=vt100"}
	b.start(c)
	runtimetest.AwaitLog(b.T, c.LogPath, "ready\r\n")
	done = b.attached(c, nodeagent.Attachment{Stdin: io.MultiReader(strings.NewReader("\x03"), in)})
	if exit := b.wait(c.ID); exit.Code != 0 {
		b.Errorf("exit %+v after Ctrl-C, want code 0", exit)
	}
	b.must(<-done)
}

// testTerminalAlone has a terminal without an input, which hangs up only at its end.
func testTerminalAlone(b *bench) {
	c := b.container("terminal")
	c.TTY = true
	b.start(c)
	sizes := make(chan nodeagent.Size)
	done := b.attached(c, nodeagent.Attachment{Resize: sizes})
	sizes <- nodeagent.Size{Width: 99, Height: 33}
	runtimetest.AwaitLog(b.T, c.LogPath, "99x33 xterm\r\n")
	b.wants(b.Attach(b.ctx(), c.ID, nodeagent.Attachment{Stdin: strings.NewReader("x"), Taken: func(int64) {}}), types.Conflict)
	b.must(b.Signal(b.ctx(), c.ID, syscall.SIGKILL))
	b.must(<-done)
}

// testTerminalGoesAway ends the input of a terminal: the process gets SIGHUP.
func testTerminalGoesAway(b *bench) {
	c := b.container("deaf")
	c.Stdin, c.TTY, c.Init = true, true, false
	b.start(c)
	runtimetest.AwaitLog(b.T, c.LogPath, "ready\r\n")
	b.must(<-b.attached(c, nodeagent.Attachment{Stdin: strings.NewReader("")}))
	if exit := b.wait(c.ID); exit.Code == 0 {
		b.Errorf("exit %+v, want that of SIGHUP", exit)
	}
}

func testInputNeedsLog(b *bench) {
	c := b.container("copy", "0")
	c.Stdin, c.LogPath = true, ""
	b.wants(b.Start(b.ctx(), c), types.Invalid)
}

// testInputLogWhole expects the whole log after Remove, of a process that ends at once.
func testInputLogWhole(b *bench) {
	c := b.container("bytes")
	c.Stdin = true
	if got := b.output(c, 0); !strings.HasSuffix(got, "\nthe end") || len(got) < 320_000 {
		b.Errorf("%d bytes are logged", len(got))
	}
	c = b.container("print", "hello")
	c.Stdin = true
	logger := 0
	c.MayStart = func() error {
		logger = b.logger(c)
		return syscall.Kill(logger, syscall.SIGSTOP)
	}
	b.start(c)
	b.wait(c.ID)
	removed := make(chan error, 1)
	go func() { removed <- b.Remove(b.ctx(), c.ID) }()
	select {
	case err := <-removed:
		b.Error("it was removed before its output was logged")
		removed <- err
	case <-time.After(100 * time.Millisecond):
	}
	b.must(syscall.Kill(logger, syscall.SIGCONT))
	b.must(<-removed)
	if text := b.read(c.LogPath); text != "hello\nwarning: hello\n" && text != "warning: hello\nhello\n" {
		b.Errorf("the log is %q", text)
	}
}

// testInputLoggerKilled kills loggers of named pipes: of this agent's, and of an earlier one's.
func testInputLoggerKilled(b *bench) {
	first, err := containerd.New(b.host.Config(b.cluster, "n1"))
	b.must(err)
	c := b.container("chat")
	c.Stdin = true
	_, err = first.Start(b.ctx(), c)
	b.must(err)
	b.must(first.Close())
	for range 2 {
		b.goesOn(c) // which lists it
		b.kill(b.logger(c))
	}
	b.goesOn(c)
	b.endsInOrder(c)
}

// testInputAgentKilled pretends that an agent was killed during a write: which bytes arrived is not
// known, and the input ends.
func testInputAgentKilled(b *bench) {
	c := b.container("copy", "7")
	c.Stdin = true
	b.start(c)
	record := binary.LittleEndian.AppendUint64(nil, 10)
	b.must(os.WriteFile(b.pipe(c, "taken"), binary.LittleEndian.AppendUint64(record, 20), 0o600))
	err := <-b.attached(c, nodeagent.Attachment{Stdin: strings.NewReader("x")})
	b.wants(err, types.Conflict)
	if err == nil || !strings.Contains(err.Error(), "bytes 10 to 20") {
		b.Errorf("got %v, want the bytes", err)
	}
	if exit := b.wait(c.ID); exit.Code != 7 {
		b.Errorf("exit %+v, want code 7", exit)
	}
}

// pipe returns the path of a file next to a container's pipes.
func (b *bench) pipe(c nodeagent.Container, name string) string {
	return filepath.Join(b.host.Dir, "fifo", b.host.Namespace+"-"+c.ID, name)
}

func testInputLeavesNothing(b *bench) {
	for range 3 {
		c := b.container("copy", "0")
		c.Stdin = true
		b.start(c)
		b.must(<-b.attached(c, nodeagent.Attachment{Stdin: strings.NewReader("x")}))
		b.wait(c.ID)
		b.must(b.Remove(b.ctx(), c.ID))
	}
	c := b.container("exit", "0")
	c.Stdin, c.Command = true, []string{"there-is-none"}
	b.wants(b.Start(b.ctx(), c), types.NotFound)
	if left, err := filepath.Glob(filepath.Join(b.host.Dir, "fifo", "*")); err != nil || len(left) > 0 {
		b.Errorf("pipes are left: %v, %v", left, err)
	}
}

// testInputOfStartResumed lets another agent start what one created and did not start.
func testInputOfStartResumed(b *bench) {
	c := b.container("copy", "7")
	c.Stdin = true
	c.MayStart = func() error { return types.Errorf(types.Unavailable, "not now") }
	b.wants(b.Start(b.ctx(), c), types.Unavailable)
	c.MayStart = nil
	other := b.host.Open(b.T, b.cluster, "n1")
	_, err := other.Start(b.ctx(), c)
	b.must(err)
	b.must(other.Attach(b.ctx(), c.ID, nodeagent.Attachment{Stdin: strings.NewReader("hello"), Taken: func(int64) {}}))
	if exit := b.wait(c.ID); exit.Code != 7 {
		b.Errorf("exit %+v, want code 7", exit)
	}
	b.must(other.Remove(context.Background(), c.ID))
	if text := b.read(c.LogPath); !strings.Contains(text, "hello") || strings.Contains(text, "started again") {
		b.Errorf("the log is %q", text)
	}
}
