package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/escher-sched/escher/nodeagent/tasklog"
	"github.com/escher-sched/escher/types"
)

// logReader reads a log that is still being written, and put aside when it is full.
type logReader struct {
	path string
	file *os.File
}

// newLogReader reads from the beginning of what is kept.
func newLogReader(path string) *logReader {
	r := &logReader{path: path}
	if f, err := os.Open(tasklog.Previous(path)); err == nil {
		r.file = f
	}
	return r
}

// copyNew writes to w what has been written since it was called last. A log that
// is not there yet is empty.
func (r *logReader) copyNew(w io.Writer) error {
	for {
		if r.file == nil {
			f, err := os.Open(r.path)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return types.Errorf(types.Precondition, "read log: %w", err)
			}
			r.file = f
		}
		// Whether it was put aside is asked first: nothing is written to it
		// after that.
		aside := r.aside()
		if _, err := io.Copy(w, r.file); err != nil {
			return types.Errorf(types.Precondition, "copy log %s: %w", r.path, err)
		}
		if !aside {
			return nil
		}
		r.close()
	}
}

// aside reports whether the open file is no longer the one that is written to.
func (r *logReader) aside() bool {
	mine, err := r.file.Stat()
	if err != nil {
		return false
	}
	now, err := os.Stat(r.path)
	return err == nil && !os.SameFile(mine, now)
}

func (r *logReader) close() {
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
}
