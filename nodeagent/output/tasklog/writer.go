package tasklog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Only the owner of the agent may read a log.
const (
	fileMode fs.FileMode = 0o600
	dirMode  fs.FileMode = 0o700
)

const (
	// removedDirs is how many directories above a log are made again: logs/NAMESPACE/TASK.
	removedDirs = 3
	// lookEvery is how often the writer checks whether the file was removed.
	lookEvery = time.Second
)

// file is an open log.
type file interface {
	Write(p []byte) (int, error)
	Stat() (fs.FileInfo, error)
	Close() error
}

// writer appends to a file and rotates it when it is full. It never fails: it counts the bytes that
// cannot be written, and writes the count once it can. It is for one goroutine.
type writer struct {
	conf Config
	open func(path string) (file, int64, error)

	file file  // nil if it could not be opened
	size int64 // of file
	lost int64 // bytes dropped since the last success
	why  error // of the last failure
	// looked is when the writer last checked whether the file was removed.
	looked time.Time
}

func newWriter(conf Config) *writer {
	return &writer{conf: conf, open: openAppend}
}

func openAppend(path string) (file, int64, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, fileMode)
	if os.IsNotExist(err) {
		makeDirs(filepath.Dir(path), removedDirs)
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, fileMode)
	}
	if err != nil {
		return nil, 0, err
	}
	// The lock tells readers that more output may follow. If locks are not possible, logging goes
	// on.
	_ = unix.Flock(int(f.Fd()), unix.LOCK_SH)
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// makeDirs makes a directory and up to most-1 directories above it: the removed directories of a
// log, but not those of a removed node.
func makeDirs(path string, most int) {
	if err := os.Mkdir(path, dirMode); os.IsNotExist(err) && most > 1 {
		makeDirs(filepath.Dir(path), most-1)
		_ = os.Mkdir(path, dirMode) // opening the file will return the error
	}
}

// write appends p, or counts it as lost.
func (w *writer) write(p []byte) {
	n, err := w.append(p)
	if err != nil {
		w.lost += int64(len(p) - n)
		w.why = err
		// A reader of the log knows its path.
		if path, ok := errors.AsType[*fs.PathError](err); ok {
			w.why = path.Err
		}
	}
}

// drop counts n bytes as lost.
func (w *writer) drop(n int64, why error) {
	if n > 0 {
		w.lost += n
		w.why = why
	}
}

func (w *writer) append(p []byte) (int, error) {
	if err := w.room(int64(len(p))); err != nil {
		return 0, err
	}
	if w.lost > 0 {
		note := fmt.Sprintf("\nescher: %d bytes of output lost: %v\n", w.lost, w.why)
		n, err := w.file.Write([]byte(note))
		w.size += int64(n)
		if err != nil {
			return 0, err
		}
		w.lost = 0
	}
	n, err := w.file.Write(p)
	w.size += int64(n)
	return n, err
}

// room opens the file if it is not open, and rotates it if n more bytes would exceed the limit.
func (w *writer) room(n int64) error {
	if w.file != nil && time.Since(w.looked) > lookEvery {
		w.looked = time.Now()
		if removed(w.file) {
			w.close()
		}
	}
	if w.file != nil && w.size > 0 && w.size+n > w.conf.MaxBytes {
		w.close()
		if err := os.Rename(w.conf.Path, Previous(w.conf.Path)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	if w.file != nil {
		return nil
	}
	f, size, err := w.open(w.conf.Path)
	if err != nil {
		return err
	}
	w.file, w.size = f, size
	return nil
}

// removed reports whether a file was deleted.
func removed(f file) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && st.Nlink == 0
}

func (w *writer) close() {
	if w.file != nil {
		_ = w.file.Close() // Nothing more can be done for its content.
		w.file = nil
	}
}
