package containerd_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd"
	"github.com/escher-sched/escher/nodeagent/runtime/runtimetest"
	"github.com/escher-sched/escher/types"
)

func outputTests() map[string]func(*bench) {
	return map[string]func(*bench){
		"LoggerKilled":        testLoggerKilled,
		"LoggerKilledLater":   testLoggerKilledAfterAgent,
		"LoggerEndsInOrder":   testLoggerEndsInOrder,
		"LogDirectoryRemoved": testLogDirectoryRemoved,
		"LogOfAnyBytes":       testLogOfAnyBytes,
	}
}

// logger returns the process id of a container's logger.
func (b *bench) logger(c nodeagent.Container) int {
	b.Helper()
	return runtimetest.Await(b.T, func(context.Context) (int, error) {
		for pid := range b.host.Processes(b.T, runtimetest.LogVerb+" {\"path\":\""+c.LogPath) {
			return strconv.Atoi(pid)
		}
		return 0, types.Errorf(types.NotFound, "container %s has no logger", c.ID)
	})
}

// lines returns the line numbers of chat in a log, and the number of its end, or 0.
func lines(b *bench, text string) (numbers []int, end int) {
	for line := range strings.Lines(text) {
		var n int
		if _, err := fmt.Sscanf(line, "line %d\n", &n); err == nil {
			numbers = append(numbers, n)
		} else if _, err := fmt.Sscanf(line, "end %d\n", &n); err == nil {
			end = n
		} else if strings.HasPrefix(line, "escher: ") && len(numbers) > 0 {
			numbers = numbers[:len(numbers)-1] // The last line before missing output may be incomplete.
		}
	}
	for i := range numbers[:max(0, len(numbers)-1)] {
		if numbers[i] >= numbers[i+1] {
			b.Errorf("line %d comes before line %d", numbers[i], numbers[i+1])
		}
	}
	return numbers, end
}

// goesOn waits until a log has a line written after the call.
func (b *bench) goesOn(c nodeagent.Container) {
	b.Helper()
	last := func() int {
		text, _ := os.ReadFile(c.LogPath) // which is rotated now and then
		numbers, _ := lines(b, string(text))
		if len(numbers) == 0 {
			return 0
		}
		return numbers[len(numbers)-1]
	}
	// More than fits into the pipe, so that it was read.
	from := last()
	runtimetest.Await(b.T, func(ctx context.Context) (struct{}, error) {
		if seen, err := b.find(ctx, c.ID); err != nil || !seen.Running {
			b.Fatalf("its logger was killed, and it is %+v, %v", seen.Exit, err)
		}
		if now := last(); now <= from {
			return struct{}{}, types.Errorf(types.NotFound, "line %d is the last", now)
		}
		return struct{}{}, nil
	})
}

// testLoggerKilled kills the logger of a program that writes constantly, and the logger's
// successor: the program and the log continue, and the log reports it.
func testLoggerKilled(b *bench) {
	c := b.container("chat")
	b.start(c)
	for range 2 {
		b.goesOn(c)
		b.kill(b.logger(c))
	}
	b.goesOn(c)
	b.endsInOrder(c)
}

// endsInOrder ends a program whose logger was killed, and checks its log.
func (b *bench) endsInOrder(c nodeagent.Container) {
	b.Helper()
	b.must(b.Signal(b.ctx(), c.ID, syscall.SIGTERM))
	if exit := b.wait(c.ID); exit.Code != 0 {
		b.Errorf("exit %+v, want that of the program", exit)
	}
	b.must(b.Remove(b.ctx(), c.ID))
	text := runtimetest.AwaitLog(b.T, c.LogPath, "\nend ")
	numbers, end := lines(b, text)
	if numbers[len(numbers)-1] != end || !strings.Contains(text, "was started again") {
		b.Errorf("the log ends with line %d of %d, or does not say that some are missing", numbers[len(numbers)-1], end)
	}
	runtimetest.Await(b.T, func(context.Context) (struct{}, error) {
		if left := b.host.Processes(b.T, c.LogPath); len(left) > 0 {
			return struct{}{}, types.Errorf(types.Unavailable, "loggers are left: %v", left)
		}
		return struct{}{}, nil
	})
}

// testLoggerKilledAfterAgent lets another agent adopt a container, and then kills its logger.
func testLoggerKilledAfterAgent(b *bench) {
	first, err := containerd.New(b.host.Config(b.cluster, "n1"))
	b.must(err)
	c := b.container("chat")
	_, err = first.Start(b.ctx(), c)
	b.must(err)
	b.must(first.Close())
	b.goesOn(c) // which lists it
	b.kill(b.logger(c))
	b.goesOn(c)
	b.endsInOrder(c)
}

// testLogDirectoryRemoved removes the log with its directory: the logger makes both again.
func testLogDirectoryRemoved(b *bench) {
	c := b.container("chat")
	b.start(c)
	b.goesOn(c)
	b.must(os.RemoveAll(filepath.Dir(c.LogPath)))
	b.goesOn(c)
}

// testLogOfAnyBytes writes bytes that are not text, a line longer than any buffer, and no final
// newline: a log has each byte as written.
func testLogOfAnyBytes(b *bench) {
	c := b.container("bytes")
	got := b.output(c, 0)
	// The same as in the program.
	want := strings.Repeat("0123456789abcdef", 20_000) + "\x1b[31mred\x1b[0m\r\n\x00\xff\xfe\nthe end"
	if got != want {
		b.Errorf("%d bytes are logged, want %d, the same", len(got), len(want))
	}
}

// testLoggerEndsInOrder ends a container and its shim: a logger that has read everything is not
// replaced.
func testLoggerEndsInOrder(b *bench) {
	c := b.container("print", "hello")
	b.start(c)
	b.wait(c.ID)
	logger := b.logger(c)
	b.kill(b.shim(c.ID))
	runtimetest.Await(b.T, func(context.Context) (struct{}, error) {
		if left := b.host.Processes(b.T, c.LogPath); len(left) > 0 {
			return struct{}{}, types.Errorf(types.Unavailable, "it reads: %v", left)
		}
		return struct{}{}, nil
	})
	// A running container's logger is replaced: by then the ended one would be too.
	other := b.container("chat")
	b.start(other)
	b.goesOn(other)
	b.kill(b.logger(other))
	b.goesOn(other)
	// The order in which the two pipes are read is undefined.
	if text := b.read(c.LogPath); text != "hello\nwarning: hello\n" && text != "warning: hello\nhello\n" {
		b.Errorf("after its logger %d ended, the log is %q", logger, text)
	}
}
