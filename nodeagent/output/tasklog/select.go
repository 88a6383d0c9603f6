package tasklog

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"

	"github.com/escher-sched/escher/types"
)

// Selection selects pieces of a log. The zero value selects all. Output of Unknown origin counts as
// standard output; the time of its file decides whether it is too old, and it is never too new.
type Selection struct {
	// Since and Until bound the time of a piece; the zero value means no bound.
	Since, Until time.Time
	// Stream is the only stream, and Unknown means both. Notes are always selected.
	Stream Stream
}

// All reports whether s selects everything.
func (s Selection) All() bool { return s == Selection{} }

// Has reports whether a piece is of the selected stream.
func (s Selection) Has(p Piece) bool {
	if s.Stream == Unknown || p.Stream == Note {
		return true
	}
	return p.Stream == s.Stream || p.Stream == Unknown && s.Stream == Stdout
}

// Over reports whether a piece, and all later ones, come after the selection.
func (s Selection) Over(p Piece) bool {
	return !s.Until.IsZero() && !p.At.IsZero() && p.At.After(s.Until)
}

// errOver ends reading at the end of a selection.
var errOver = errors.New("the rest is not selected")

// Since seeks to the first output that was read at a time or later.
func (r *Reader) Since(t time.Time) error {
	for _, path := range []string{Previous(r.path), r.path} {
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		info, err := f.Stat()
		if err != nil {
			f.Close()
			return types.Errorf(types.Unavailable, "read log %s: %w", path, err)
		}
		offset := int64(0)
		if info.ModTime().Before(t) {
			offset = info.Size()
		} else if marks := readMarks(r.path, f, 0); marks != nil {
			offset = marks.first(t, info.Size())
			marks.close()
		}
		if _, err := f.Seek(offset, io.SeekStart); err != nil {
			f.Close()
			return types.Errorf(types.Unavailable, "read log %s: %w", path, err)
		}
		r.use(f)
		if offset < info.Size() {
			return nil
		}
	}
	return nil
}

// TailOf seeks, from the current position, to the start of the last selected lines. It reads the
// log twice instead of remembering where lines begin: a log may have millions of lines.
func (r *Reader) TailOf(s Selection, lines int) error {
	start, err := r.Position()
	if err != nil || r.file == nil {
		return err
	}
	skip, open := -lines, false
	err = r.eachSelected(s, func(p Piece) error {
		skip += bytes.Count(p.Text, []byte{'\n'})
		open = p.Text[len(p.Text)-1] != '\n'
		return nil
	})
	if err != nil || lines <= 0 {
		return err
	}
	if open {
		skip++ // The last line has no end yet.
	}
	if _, err := r.Resume(start, 0); err != nil || skip <= 0 {
		return err
	}
	return r.eachSelected(s, func(p Piece) error {
		for rest := p.Text; ; {
			i := bytes.IndexByte(rest, '\n')
			if i < 0 {
				return nil
			}
			rest = rest[i+1:]
			if skip--; skip == 0 {
				if err := r.seekTo(p.offset + int64(len(p.Text)-len(rest))); err != nil {
					return err
				}
				return errOver
			}
		}
	})
}

// eachSelected calls each for the selected output since the last call. errOver ends it.
func (r *Reader) eachSelected(s Selection, each func(Piece) error) error {
	err := r.EachNew(func(p Piece) error {
		switch {
		case s.Over(p):
			return errOver
		case s.Has(p):
			return each(p)
		}
		return nil
	})
	if err == errOver {
		return nil
	}
	return err
}

// seekTo continues at an offset of the open file.
func (r *Reader) seekTo(offset int64) error {
	r.marks.close()
	r.marks = nil
	if _, err := r.file.Seek(offset, io.SeekStart); err != nil {
		return types.Errorf(types.Unavailable, "read log %s: %w", r.path, err)
	}
	return nil
}
