package cli

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

// sink is where the output of a command goes. It remembers why it could not be written:
// many texts are written without a look at the error.
type sink struct {
	to io.Writer

	mu  sync.Mutex
	err error
	// full is closed when err is set.
	full chan struct{}
}

// Write writes, unless that failed before. Precondition: it cannot be written.
func (s *sink) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.to.Write(text)
	if err != nil {
		if file, ok := errors.AsType[*fs.PathError](err); ok {
			err = file.Err
		}
		s.err = types.Errorf(types.Precondition, "write output: %w: make room there, or write it elsewhere", err)
		close(s.full)
	}
	return n, s.err
}

// failed returns why the output could not be written; nil if it was.
func (s *sink) failed() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// outcome returns the error that a command ends with: that the output could not be
// written goes before what follows from that.
func (s *sink) outcome(err error) error {
	failed := s.failed()
	_, isEnd := errors.AsType[ended](err)
	if failed != nil && (err == nil || isEnd || errors.Is(err, failed) || isInterruption(err)) {
		return failed
	}
	return err
}

// plain writes text that a terminal does not obey: see table.Plain.
type plain struct{ to *sink }

// Write writes a text, which ends with no part of a character.
func (p plain) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.to, table.Plain(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// raw is the output as it is: for what tasks write, which is theirs, and for what this
// program draws.
func (f *Factory) raw() io.Writer {
	if p, ok := f.Out.(plain); ok {
		return p.to
	}
	return f.Out
}

// behind returns the stream that text ends up in.
func behind(stream any) any {
	if p, ok := stream.(plain); ok {
		stream = p.to
	}
	if s, ok := stream.(*sink); ok {
		stream = s.to
	}
	return stream
}

// whileWritable returns a context that is done when output can no longer be written: for
// what goes on and on.
func (f *Factory) whileWritable(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, stop := context.WithCancel(ctx)
	if p, ok := f.Out.(plain); ok {
		go func() {
			select {
			case <-p.to.full:
				stop()
			case <-ctx.Done():
			}
		}()
	}
	return ctx, stop
}

// tell prints a line on the error output.
func (f *Factory) tell(format string, args ...any) {
	fmt.Fprintf(f.Err, "escher: %s\n", table.Line(fmt.Sprintf(format, args...)))
}
