package cmdutil

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"github.com/escher-sched/escher/cmd/escher/internal/table"
	"github.com/escher-sched/escher/types"
)

// Sink is the output of a command. It remembers the first write error, because many writers ignore
// it.
type Sink struct {
	To io.Writer

	mu  sync.Mutex
	err error
	// Full is closed when err is set.
	Full chan struct{}
}

// Write writes, unless a write has failed before. Precondition: it cannot write.
func (s *Sink) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.To.Write(text)
	if err != nil {
		if file, ok := errors.AsType[*fs.PathError](err); ok {
			err = file.Err
		}
		s.err = types.Errorf(types.Precondition, "write output: %w: make room there, or write it elsewhere", err)
		close(s.Full)
	}
	return n, s.err
}

// failed returns the write error; nil if there is none.
func (s *Sink) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Outcome returns the error of a command: a write error comes before the errors that follow from
// it.
func (s *Sink) Outcome(err error) error {
	failed := s.failed()
	_, isEnd := errors.AsType[Ended](err)
	if failed != nil && (err == nil || isEnd || errors.Is(err, failed) || IsInterruption(err)) {
		return failed
	}
	return err
}

// Plain escapes what a terminal would obey in a text: see table.Plain.
type Plain struct{ To *Sink }

// Write writes a text that ends with a whole character.
func (p Plain) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.To, table.Plain(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Raw is the output unchanged: for the output of tasks, and for what this program draws.
func (f *Factory) Raw() io.Writer {
	if p, ok := f.Out.(Plain); ok {
		return p.To
	}
	return f.Out
}

// behind returns the underlying stream.
func behind(stream any) any {
	if p, ok := stream.(Plain); ok {
		stream = p.To
	}
	if s, ok := stream.(*Sink); ok {
		stream = s.To
	}
	return stream
}

// WhileWritable returns a context that ends when output cannot be written any more: for endless
// output.
func (f *Factory) WhileWritable(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	if p, ok := f.Out.(Plain); ok {
		go func() {
			select {
			case <-p.To.Full:
				stop()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, stop
}

// Tell prints a line on the error output.
func (f *Factory) Tell(format string, args ...any) {
	fmt.Fprintf(f.Err, "escher: %s\n", table.Line(fmt.Sprintf(format, args...)))
}
