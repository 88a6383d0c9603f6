// Package cmdutil is shared by all commands. It has the Factory, which makes clients from the
// global flags, the environment and the context in use. It also finds objects by name, and has
// lists and watches, progress and terminals.
package cmdutil

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/escher-sched/escher/cmd/escher/internal/dev"
	"github.com/escher-sched/escher/types"
)

// Outside is the environment of the process, which tests replace.
type Outside struct {
	In       io.Reader
	Out, Err io.Writer
	Getenv   func(string) string
	// Executable is the path of this program.
	Executable func() (string, error)
	// Runtimes makes the runtimes of escher dev; nil means containerd.
	Runtimes dev.Runtimes
	// Terminal returns the size of the terminal behind a stream; nil asks the
	// operating system.
	Terminal func(stream any) (width, height int, ok bool)
}

// System returns the environment of this process.
func System() Outside {
	return Outside{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Getenv: os.Getenv, Executable: os.Executable}
}

// IsInterruption reports whether an error says only that the command was interrupted.
func IsInterruption(err error) bool {
	if errors.Is(err, context.Canceled) {
		return true
	}
	class := types.ClassOf(err)
	_, isEnd := errors.AsType[Ended](err)
	return err != nil && !isEnd && (class == types.Unavailable || class == types.Unknown)
}

// Ended makes a command exit with the exit code of a task. It prints nothing, because the outcome
// is known or printed already.
type Ended struct{ Code int }

func (e Ended) Error() string { return fmt.Sprintf("exit code %d", e.Code) }
