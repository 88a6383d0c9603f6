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
	Truncate(size int64) error
	Close() error
}

// writer appends to a file and rotates it when it is full. It never fails: it counts the bytes that
// cannot be written, and writes the count once it can. It is for one goroutine.
type writer struct {
	conf Config
	open func(path string) (opened, error)
	// progress is called when marks have been written, before their text.
	progress func()

	opened
	lost int64 // bytes dropped since the last success
	why  error // of the last failure
	// looked is when the writer last checked whether the file was removed.
	looked time.Time
	// records is the memory of the last records.
	records []byte
}

// opened is an open log.
type opened struct {
	file file // nil if it could not be opened
	// marks are those of file; nil if they cannot be written.
	marks           file
	size, marksSize int64
}

func newWriter(conf Config) *writer {
	return &writer{conf: conf, open: openAppend, progress: func() {}}
}

func openAppend(path string) (opened, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, fileMode)
	if os.IsNotExist(err) {
		makeDirs(filepath.Dir(path), removedDirs)
		f, err = os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, fileMode)
	}
	if err != nil {
		return opened{}, err
	}
	// The lock tells readers that more output may follow. If locks are not possible, logging goes
	// on.
	_ = unix.Flock(int(f.Fd()), unix.LOCK_SH)
	info, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return opened{}, err
	}
	o := opened{file: f, size: info.Size()}
	o.marks, o.marksSize = openMarks(path, f)
	return o, nil
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
func (w *writer) write(p part) {
	n, err := w.append(p)
	if err != nil {
		w.lost += int64(len(p.text) - n)
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

func (w *writer) append(p part) (int, error) {
	if err := w.room(int64(len(p.text) + len(p.marks)*recordBytes)); err != nil {
		return 0, err
	}
	if w.lost > 0 {
		var note part
		note.add(Note, time.Now(), fmt.Appendf(nil, "\nescher: %d bytes of output lost: %v\n", w.lost, w.why))
		if _, err := w.put(note); err != nil {
			return 0, err
		}
		w.lost = 0
	}
	return w.put(p)
}

// put appends p to the open file, after its marks.
func (w *writer) put(p part) (int, error) {
	before := w.marksSize
	w.mark(p.marks)
	n, err := w.file.Write(p.text)
	w.size += int64(n)
	if err != nil && n == 0 {
		w.cutMarks(before)
	}
	return n, err
}

// mark appends the marks of the next bytes. Without them, these are of Unknown origin.
func (w *writer) mark(marks []mark) {
	if w.marks == nil || len(marks) == 0 || w.size >= markLimit {
		return
	}
	w.records = w.records[:0]
	offset := w.size
	for _, m := range marks {
		m.offset = offset
		offset += m.length
		w.records = m.append(w.records)
	}
	n, err := w.marks.Write(w.records)
	w.marksSize += int64(n)
	w.progress()
	if err != nil {
		// A part of a record would put all later ones out of place.
		w.cutMarks(w.marksSize - w.marksSize%recordBytes)
	}
}

// cutMarks removes the marks after a size.
func (w *writer) cutMarks(size int64) {
	if w.marks == nil || w.marksSize == size {
		return
	}
	w.marksSize = size
	if err := w.marks.Truncate(size); err != nil {
		_ = w.marks.Close()
		w.marks = nil // until the file is opened again
	}
}

// room opens the file if it is not open, and rotates it if n more bytes would exceed the limit.
func (w *writer) room(n int64) error {
	if w.file != nil && time.Since(w.looked) > lookEvery {
		w.looked = time.Now()
		if removed(w.file) {
			w.close()
		}
	}
	if w.file != nil && w.size > 0 && w.size+w.marksSize+n > w.conf.MaxBytes {
		w.close()
		// Without its marks, a log is as before: there may be none.
		_ = os.Rename(marksPath(w.conf.Path), marksPath(Previous(w.conf.Path)))
		if err := os.Rename(w.conf.Path, Previous(w.conf.Path)); err != nil && !os.IsNotExist(err) {
			return err
		}
	}
	if w.file != nil {
		return nil
	}
	var err error
	w.opened, err = w.open(w.conf.Path)
	return err
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
	// Nothing more can be done for the content.
	if w.marks != nil {
		_ = w.marks.Close()
	}
	if w.file != nil {
		_ = w.file.Close()
	}
	w.opened = opened{}
}
