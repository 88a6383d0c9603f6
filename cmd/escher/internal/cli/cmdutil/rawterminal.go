package cmdutil

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// InputIsTerminal returns an error unless the input is a terminal.
func (f *Factory) InputIsTerminal() error {
	if file, ok := f.In.(*os.File); !ok || !term.IsTerminal(int(file.Fd())) {
		return types.Errorf(types.Invalid, "tty: the input is no terminal: leave -t out")
	}
	return nil
}

// RawInput makes the terminal of the input pass on keys unchanged, until restore is called.
func (f *Factory) RawInput() (restore func(), err error) {
	if err := f.InputIsTerminal(); err != nil {
		return nil, err
	}
	fd := int(f.In.(*os.File).Fd())
	before, err := term.MakeRaw(fd)
	if err != nil {
		return nil, types.Errorf(types.Precondition, "tty: %w: leave -t out", err)
	}
	return func() { _ = term.Restore(fd, before) }, nil // There is no remedy.
}

// TerminalSizes returns a channel with the size of the terminal of the output, if it is one, and
// each new size until stop is called.
func (f *Factory) TerminalSizes() (sizes <-chan nodeagent.Size, stop func()) {
	size := make(chan nodeagent.Size, 1)
	if width, height, ok := f.TerminalSize(f.Out); ok {
		size <- nodeagent.Size{Width: uint16(width), Height: uint16(height)}
	}
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	done := make(chan struct{})
	go func() {
		defer close(size)
		for {
			select {
			case <-changed:
			case <-done:
				return
			}
			if width, height, ok := f.TerminalSize(f.Out); ok {
				select {
				case size <- nodeagent.Size{Width: uint16(width), Height: uint16(height)}:
				case <-done:
					return
				}
			}
		}
	}()
	return size, func() {
		signal.Stop(changed)
		close(done)
	}
}
