package tasklog

import (
	"fmt"
	"io/fs"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// fileMode lets the owner of the agent read a log, and nobody else.
const fileMode fs.FileMode = 0o600

// file is what a writer needs of an open log.
type file interface {
	Write(p []byte) (int, error)
	Close() error
}

// writer appends to a file that it puts aside when it is full. It never fails:
// what cannot be written is counted, and the count is written once that works.
type writer struct {
	conf Config
	open func(path string) (file, int64, error)

	mu   sync.Mutex
	file file  // nil when it could not be opened
	size int64 // of file
	lost int64 // bytes dropped since the last success
	why  error // of the last failure
}

func newWriter(conf Config) *writer {
	return &writer{conf: conf, open: openAppend}
}

func openAppend(path string) (file, int64, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, fileMode)
	if err != nil {
		return nil, 0, err
	}
	// Whoever reads it knows by the lock that there may be more. Where locks are
	// not possible, there is a log still.
	_ = unix.Flock(int(f.Fd()), unix.LOCK_SH)
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return nil, 0, err
	}
	return f, info.Size(), nil
}

// write appends p, or counts it as lost.
func (w *writer) write(p []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.append(p)
	if err != nil {
		w.lost += int64(len(p) - n)
		w.why = err
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

// room opens the file if it is not open, and a new one when n more bytes would
// make it too long.
func (w *writer) room(n int64) error {
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

func (w *writer) close() {
	if w.file != nil {
		_ = w.file.Close() // Nothing more can be done for what it held.
		w.file = nil
	}
}
