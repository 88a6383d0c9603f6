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

// lockName is the name of the lock file in a directory.
const lockName = "lock"

// Lock creates dir, if it is missing, readable by its owner alone. It locks dir for this process
// until release is called or the process ends in any way. Precondition: dir is unusable, or another
// process has locked it; the error names that process.
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
		return nil, types.Errorf(types.Precondition, "use directory %s: process %s is using it: stop that process, or choose another directory",
			dir, holder(f))
	}
	if err := sign(f); err != nil {
		return nil, errors.Join(types.Errorf(types.Precondition, "write %s: %w", f.Name(), err), f.Close())
	}
	return f.Close, nil
}

// sign writes the process id into a lock file.
func sign(f *os.File) error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

// holder reads the process id from a lock file. It may be missing for a moment after the lock.
func holder(f *os.File) string {
	text, err := io.ReadAll(io.LimitReader(f, 32))
	if pid := strings.TrimSpace(string(text)); err == nil && pid != "" {
		return pid
	}
	return "(just started)"
}
