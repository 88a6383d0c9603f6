package tasklog

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/types"
)

// Reader reads a log while a logger writes and rotates it.
type Reader struct {
	path string
	file *os.File
	// marks are those of file; nil if none were found yet.
	marks *markReader
}

// NewReader returns a Reader at the beginning of the log. A log that does not exist yet is empty.
func NewReader(path string) *Reader {
	r := &Reader{path: path}
	if f, err := os.Open(Previous(path)); err == nil {
		r.file = f
	}
	return r
}

// Exists reports whether there is a log.
func (r *Reader) Exists() bool {
	if r.file != nil {
		return true
	}
	_, err := os.Stat(r.path)
	return err == nil
}

// Close ends reading.
func (r *Reader) Close() {
	r.use(nil)
}

// use continues with another file, from its present offset.
func (r *Reader) use(f *os.File) {
	if r.file != nil {
		r.file.Close()
	}
	r.marks.close()
	r.file, r.marks = f, nil
}

// CopyNew writes to w the output since the last call.
func (r *Reader) CopyNew(w io.Writer) error {
	return r.eachFile(func() error {
		if _, err := io.Copy(w, r.file); err != nil {
			return types.Errorf(types.Unavailable, "copy log %s: %w", r.path, err)
		}
		return nil
	})
}

// EachNew calls each for the output since the last call, in pieces of one origin. It ends with the
// first error that each returns. A piece is valid until each returns.
func (r *Reader) EachNew(each func(Piece) error) error {
	chunk := make([]byte, chunkBytes)
	return r.eachFile(func() error {
		offset, err := r.file.Seek(0, io.SeekCurrent)
		for err == nil {
			var n int
			if n, err = r.file.Read(chunk); err != nil {
				break
			}
			if err := r.split(offset, chunk[:n], each); err != nil {
				return err
			}
			offset += int64(n)
		}
		if err != io.EOF {
			return types.Errorf(types.Unavailable, "read log %s: %w", r.path, err)
		}
		return nil
	})
}

// split calls each with the pieces of a text at an offset of the file.
func (r *Reader) split(offset int64, text []byte, each func(Piece) error) error {
	if r.marks == nil {
		r.marks = readMarks(r.path, r.file, offset)
	}
	for len(text) > 0 {
		m, n := r.marks.of(offset, int64(len(text)))
		p := Piece{Stream: m.stream, Text: text[:n], offset: offset}
		if m.stream != Unknown {
			p.At = time.Unix(0, m.at)
		}
		if err := each(p); err != nil {
			return err
		}
		offset, text = offset+n, text[n:]
	}
	return nil
}

// eachFile calls do for the open file and the files after it. do reads to the end of the file.
func (r *Reader) eachFile(do func() error) error {
	for {
		if err := r.open(); err != nil || r.file == nil {
			return err
		}
		// Check for a rotation before the copy: nothing is written to the file after its rotation.
		next := r.next()
		if err := do(); err != nil || next == nil {
			if next != nil {
				next.Close()
			}
			return err
		}
		r.use(next)
	}
}

// open opens the log if it exists and is not open.
func (r *Reader) open() error {
	if r.file != nil {
		return nil
	}
	f, err := os.Open(r.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return types.Errorf(types.Unavailable, "read log: %w", err)
	}
	r.file = f
	return nil
}

// next opens the file after the open one if that was rotated; nil if not.
func (r *Reader) next() *os.File {
	mine, err := r.file.Stat()
	if err != nil {
		return nil
	}
	current, err := os.Open(r.path)
	if err != nil {
		return nil
	}
	if info, err := current.Stat(); err != nil || os.SameFile(mine, info) {
		current.Close()
		return nil
	}
	// A slow reader may be more than one file behind.
	if previous, err := os.Open(Previous(r.path)); err == nil {
		if info, err := previous.Stat(); err == nil && !os.SameFile(mine, info) {
			current.Close()
			return previous
		}
		previous.Close()
	}
	return current
}

// Written reports whether the log is complete: no logger has it open.
func (r *Reader) Written() bool {
	f, err := os.Open(r.path)
	if err != nil {
		return true
	}
	defer f.Close()
	return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil
}

// Position is a position in a log: an offset in a file. It stays valid when the file is rotated.
type Position struct {
	File   string
	Offset int64
}

// Position returns the current position; the zero value for a log that does not exist yet.
func (r *Reader) Position() (Position, error) {
	if err := r.open(); err != nil || r.file == nil {
		return Position{}, err
	}
	offset, err := r.file.Seek(0, io.SeekCurrent)
	if err != nil {
		return Position{}, types.Errorf(types.Internal, "read log %s: %w", r.path, err)
	}
	return Position{File: identity(r.file), Offset: offset}, nil
}

// Resume continues skip bytes after a position. It reports whether that position still exists; if
// not, reading starts at the beginning of the log.
func (r *Reader) Resume(from Position, skip int64) (kept bool, err error) {
	skip += from.Offset
	for _, path := range []string{Previous(r.path), r.path} {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		if from.File != "" && identity(f) != from.File {
			f.Close()
			continue
		}
		r.use(f)
		return true, r.skip(skip)
	}
	return from.File == "" && skip == 0, nil
}

// skip seeks to n bytes after the start of the open file.
func (r *Reader) skip(n int64) error {
	for {
		info, err := r.file.Stat()
		if err != nil {
			return types.Errorf(types.Unavailable, "read log %s: %w", r.path, err)
		}
		next := r.next()
		if n <= info.Size() || next == nil {
			if next != nil {
				next.Close()
			}
			_, err = r.file.Seek(n, io.SeekStart)
			return err
		}
		n -= info.Size()
		r.use(next)
	}
}

// Tail seeks to the start of the last lines.
func (r *Reader) Tail(lines int) error {
	for _, path := range []string{r.path, Previous(r.path)} {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		r.use(f)
		offset, found, err := tailOf(f, lines, path == r.path)
		if err != nil {
			return types.Errorf(types.Unavailable, "read log %s: %w", path, err)
		}
		if _, err := f.Seek(offset, io.SeekStart); err != nil {
			return types.Errorf(types.Unavailable, "read log %s: %w", path, err)
		}
		lines -= found
		if offset > 0 || lines <= 0 {
			return nil
		}
	}
	return nil
}

// tailOf returns the offset of the last lines of a file, and their number. If last is set, the end
// of the file also ends a line without a newline.
func tailOf(f *os.File, lines int, last bool) (offset int64, found int, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	end := info.Size()
	if lines <= 0 {
		return end, 0, nil
	}
	block := make([]byte, chunkBytes)
	for at := end; at > 0; {
		n := min(at, int64(len(block)))
		at -= n
		if _, err := f.ReadAt(block[:n], at); err != nil && !errors.Is(err, io.EOF) {
			return 0, 0, err
		}
		for i := n - 1; i >= 0; i-- {
			if block[i] != '\n' || at+i == end-1 {
				continue
			}
			if found++; found == lines {
				return at + i + 1, found, nil
			}
		}
	}
	if end > 0 && last {
		found++
	}
	return 0, found, nil
}
