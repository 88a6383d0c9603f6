package server

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/types"
)

// lockName is the file of a directory that whoever uses it has locked.
const lockName = "lock"

// Lock makes dir, readable by its owner alone, if it is missing, and takes it for
// this process until release is called or the process ends, however it ends.
// Precondition: it cannot be used, or another process has it; the error says
// which.
func Lock(dir string) (release func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, types.Errorf(types.Precondition, "make directory %s: %w", dir, err)
	}
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, types.Errorf(types.Precondition, "use directory %s: %w", dir, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, types.Errorf(types.Precondition, "lock directory %s: %w", dir, err)
		}
		return nil, types.Errorf(types.Precondition, "use directory %s: process %s is using it: stop that one, or choose another directory",
			dir, holder(f))
	}
	if err := sign(f); err != nil {
		return nil, errors.Join(types.Errorf(types.Precondition, "write %s: %w", f.Name(), err), f.Close())
	}
	return f.Close, nil
}

// sign writes into a lock file whose it is.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// holder reads from a lock file whose it is. Only a moment after it was taken the
// file may not say yet.
func holder(f *os.File) string {
	text, err := io.ReadAll(io.LimitReader(f, 32))
	if pid := strings.TrimSpace(string(text)); err == nil && pid != "" {
		return pid
	}
	return "(just started)"
}
