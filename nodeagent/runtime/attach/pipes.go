package attach

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/types"
)

const (
	// stdinPipe, stdoutPipe and stderrPipe are the names of the pipes of a container in their
	// directory. The input has ended if the first is missing.
	stdinPipe  = "stdin"
	stdoutPipe = "stdout"
	stderrPipe = "stderr"
	// takenFile has the number of bytes written to the input: see Input.
	takenFile = "taken"
)

// Pipes are the paths of the named pipes of a container; "" means that there is none.
type Pipes struct{ Stdin, Stdout, Stderr string }

// MakePipes makes the named pipes of a container in a directory of their own, and removes those of
// an interrupted call. A terminal has one stream of output.
func MakePipes(dir string, stdin, tty bool) (p Pipes, err error) {
	p.Stdout = filepath.Join(dir, stdoutPipe)
	names := []string{p.Stdout}
	if !tty {
		p.Stderr = filepath.Join(dir, stderrPipe)
		names = append(names, p.Stderr)
	}
	if stdin {
		p.Stdin = filepath.Join(dir, stdinPipe)
		names = append(names, p.Stdin)
	}
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700)); err != nil {
		return p, err
	}
	for _, name := range names {
		if err := unix.Mkfifo(name, 0o600); err != nil {
			return p, &os.PathError{Op: "mkfifo", Path: name, Err: err}
		}
	}
	return p, os.WriteFile(filepath.Join(dir, takenFile), make([]byte, takenBytes), 0o600)
}

// OpenOutput opens the pipes of the output for reading.
func OpenOutput(dir string) []*os.File {
	var pipes []*os.File
	for _, name := range []string{stdoutPipe, stderrPipe} {
		path := filepath.Join(dir, name)
		if fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); err == nil {
			pipes = append(pipes, os.NewFile(uintptr(fd), path))
		}
	}
	return pipes
}

// HasInput reports whether the input in a directory has not ended.
func HasInput(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, stdinPipe))
	return err == nil
}

// EndInput notes for later agents that the input has ended.
func EndInput(dir string) {
	_ = os.Remove(filepath.Join(dir, stdinPipe)) // Another agent would only end it again.
}

// takenBytes is the size of the record of an input: two numbers.
const takenBytes = 16

// Input is the input of a process, by its named pipe. A record has the number of bytes written so far, which survives
// the agent. The second number is what the first will be after the write under way.
type Input struct {
	file, record *os.File
	taken        int64
}

// OpenInput opens an input. Conflict: it has ended, or an agent was killed during a write and the
// bytes are not known.
func OpenInput(dir string) (*Input, error) {
	record, err := os.OpenFile(filepath.Join(dir, takenFile), os.O_RDWR, 0)
	if err != nil {
		return nil, types.Errorf(types.Unavailable, "attach: %w", err)
	}
	path, numbers := filepath.Join(dir, stdinPipe), make([]byte, takenBytes)
	_, err = record.ReadAt(numbers, 0)
	taken, next := int64(binary.LittleEndian.Uint64(numbers)), int64(binary.LittleEndian.Uint64(numbers[8:]))
	if err == nil && taken != next {
		err = types.Errorf(types.Conflict, "attach: an agent was killed while it passed bytes %d to %d of the input, which may have arrived or not: run the task again", taken, next)
	}
	if err != nil {
		record.Close()
		return nil, err
	}
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil { // There is no reader, or no pipe.
		record.Close()
		return nil, types.Errorf(types.Conflict, "attach: the process has ended its input: %w", err)
	}
	return &Input{os.NewFile(uintptr(fd), path), record, taken}, nil
}

// Write writes some of the data, and waits until there is space or ctx is done.
func (s *Input) Write(ctx context.Context, data []byte) (n int, err error) {
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	defer context.AfterFunc(ctx, func() { _ = s.file.SetWriteDeadline(time.Unix(1, 0)) })()
	raw, err := s.file.SyscallConn()
	if err != nil {
		return 0, err
	}
	waited := raw.Write(func(fd uintptr) bool {
		n, err = s.put(int(fd), data)
		return !errors.Is(err, unix.EAGAIN)
	})
	switch {
	case waited != nil:
		return 0, waited
	case errors.Is(err, unix.EPIPE):
		return 0, io.ErrClosedPipe
	}
	return n, err
}

// put writes what fits, and records it.
func (s *Input) put(fd int, data []byte) (int, error) {
	if err := s.note(s.taken + int64(len(data))); err != nil {
		return 0, err
	}
	n, err := unix.Write(fd, data)
	for err == unix.EINTR {
		n, err = unix.Write(fd, data)
	}
	s.taken += int64(max(n, 0))
	return max(n, 0), errors.Join(err, s.note(s.taken))
}

// note writes the record.
func (s *Input) note(next int64) error {
	numbers := binary.LittleEndian.AppendUint64(nil, uint64(s.taken))
	_, err := s.record.WriteAt(binary.LittleEndian.AppendUint64(numbers, uint64(next)), 0)
	return err
}

// Taken returns the number of bytes written since the start of the process.
func (s *Input) Taken() int64 { return s.taken }

// Close closes the files; the input does not end by that.
func (s *Input) Close() error { return errors.Join(s.file.Close(), s.record.Close()) }
