package tasklog

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// when returns a time that many seconds after a fixed one.
func when(seconds int) time.Time { return time.Unix(1_700_000_000+int64(seconds), 5) }

// piece is a piece of output at a time.
func piece(s Stream, seconds int, text string) Piece {
	return Piece{Stream: s, At: when(seconds), Text: []byte(text)}
}

// appended makes a log of pieces.
func appended(t *testing.T, pieces ...Piece) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "1.log")
	if err := Append(path, pieces...); err != nil {
		t.Fatal(err)
	}
	return path
}

// show formats pieces: the first letter of the stream, the seconds, and the text. It joins pieces of
// the same origin.
func show(pieces []Piece) string {
	var b strings.Builder
	last := ""
	for _, p := range pieces {
		origin := "?"
		if p.Stream != Unknown {
			origin = fmt.Sprintf("%c%d", "?oen"[p.Stream], p.At.Unix()-when(0).Unix())
		}
		if origin != last {
			fmt.Fprintf(&b, "|%s:", origin)
		}
		b.Write(p.Text)
		last = origin
	}
	return b.String()
}

// readNew returns the new output of a reader.
func readNew(t *testing.T, r *Reader) (pieces []Piece) {
	t.Helper()
	err := r.EachNew(func(p Piece) error {
		p.Text = bytes.Clone(p.Text)
		pieces = append(pieces, p)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return pieces
}

func shown(t *testing.T, path string) string {
	t.Helper()
	r := NewReader(path)
	defer r.Close()
	return show(readNew(t, r))
}

func TestMarksRoundTrip(t *testing.T) {
	for _, m := range []mark{
		{}, {offset: 1, length: 2, at: 3, stream: Stdout}, {offset: markLimit - 1, length: 1<<lengthBits - 1, at: -1, stream: Note}, {at: 1<<63 - 1, stream: Stderr},
	} {
		record := m.append(nil)
		if got := parseMark(record); got != m || len(record) != recordBytes {
			t.Errorf("%+v is read as %+v", m, got)
		}
	}
}

// TestLogsWithAndWithoutMarks reads logs of loggers of this version, of the one before, and of both
// in turn: the text is always whole, and the origin is known where it is stored.
func TestLogsWithAndWithoutMarks(t *testing.T) {
	both := []Piece{piece(Stdout, 1, "a"), piece(Stderr, 2, "b\n"), piece(Stdout, 3, "c\n")}
	path := appended(t, both...)
	if got := shown(t, path); got != "|o1:a|e2:b\n|o3:c\n" {
		t.Errorf("read %q", got)
	}
	// A logger of the version before continues it, then one of this version.
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("old\n"); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := Append(path, piece(Stderr, 9, "new\n")); err != nil {
		t.Fatal(err)
	}
	if got := shown(t, path); got != "|o1:a|e2:b\n|o3:c\n|?:old\n|e9:new\n" {
		t.Errorf("read %q", got)
	}
	if err := os.Remove(marksPath(path)); err != nil {
		t.Fatal(err)
	}
	if got := shown(t, path); got != "|?:ab\nc\nold\nnew\n" {
		t.Errorf("without marks read %q", got)
	}
	if got := logged(t, path); got != "ab\nc\nold\nnew\n" {
		t.Errorf("the file has %q", got)
	}
}

// TestMarksOfAnotherFile leaves marks beside a log that was made again.
func TestMarksOfAnotherFile(t *testing.T) {
	path := appended(t, piece(Stdout, 1, "first\n"))
	if err := errors.Join(os.Rename(path, path+".away"), os.WriteFile(path, []byte("other\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := shown(t, path); got != "|?:other\n" {
		t.Errorf("read %q", got)
	}
	if err := Append(path, piece(Stderr, 2, "more\n")); err != nil {
		t.Fatal(err)
	}
	if got := shown(t, path); got != "|?:other\n|e2:more\n" {
		t.Errorf("read %q", got)
	}
	Truncate(path)
	if err := Append(path, piece(Stderr, 3, "again\n")); err != nil {
		t.Fatal(err)
	}
	if got := shown(t, path); got != "|e3:again\n" {
		t.Errorf("read %q", got)
	}
}

// TestDamagedMarks cuts and overwrites the marks: the text is whole, and no origin is wrong that
// bytes do not say.
func TestDamagedMarks(t *testing.T) {
	var pieces []Piece
	for i := range 100 {
		pieces = append(pieces, piece(Stdout+Stream(i%2), i, fmt.Sprintln("line", i)))
	}
	path := appended(t, pieces...)
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	marks, err := os.ReadFile(marksPath(path))
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		damaged := bytes.Clone(marks[:random.IntN(len(marks)+1)])
		for range n % 8 {
			if len(damaged) > 0 {
				damaged[random.IntN(len(damaged))] = byte(random.Uint32())
			}
		}
		if err := os.WriteFile(marksPath(path), damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		r := NewReader(path)
		var got []byte
		for _, p := range readNew(t, r) {
			got = append(got, p.Text...)
		}
		r.Close()
		if !bytes.Equal(got, want) {
			t.Fatalf("with damage %d, %d bytes are read of %d", n, len(got), len(want))
		}
		if err := NewReader(path).Since(when(50)); err != nil {
			t.Fatal(err)
		}
	}
	// A logger that is started again cuts a part of a record off.
	if err := os.WriteFile(marksPath(path), marks[:len(marks)-recordBytes/2], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Append(path, piece(Stderr, 200, "last\n")); err != nil {
		t.Fatal(err)
	}
	if got := shown(t, path); !strings.HasSuffix(got, "|o98:line 98\n|?:line 99\n|e200:last\n") {
		t.Errorf("read %q", got[len(got)-60:])
	}
}

// TestDiskTooFullForMarks writes only the text: it is of Unknown origin, and what follows is not.
func TestDiskTooFullForMarks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1.log")
	full := false
	w := newWriter(Config{Path: path, MaxBytes: DefaultMaxBytes})
	w.open = func(path string) (opened, error) {
		o, err := openAppend(path)
		o.marks = halfDisk{o.marks, &full}
		return o, err
	}
	for i, text := range []string{"one\n", "two\n", "three\n"} {
		full = i == 1
		var p part
		p.add(Stderr, when(i), []byte(text))
		w.write(p)
	}
	w.close()
	if got := shown(t, path); got != "|e0:one\n|?:two\n|e2:three\n" {
		t.Errorf("read %q", got)
	}
}

// halfDisk is a file of a disk that has room for half of each write while full is set.
type halfDisk struct {
	file
	full *bool
}

func (f halfDisk) Write(p []byte) (int, error) {
	if !*f.full {
		return f.file.Write(p)
	}
	n, err := f.file.Write(p[:len(p)/2])
	return n, errors.Join(err, syscall.ENOSPC)
}

// TestTextOfAFullDisk writes a part of the text only: the marks of the rest are replaced.
func TestTextOfAFullDisk(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1.log")
	full := false
	w := newWriter(Config{Path: path, MaxBytes: DefaultMaxBytes})
	w.open = func(path string) (opened, error) {
		o, err := openAppend(path)
		o.file = halfDisk{o.file, &full}
		return o, err
	}
	for i, text := range []string{"one\n", "twotwo\n\n", "three\n"} {
		full = i == 1
		var p part
		p.add(Stdout+Stream(i%2), when(i), []byte(text))
		w.write(p)
	}
	w.close()
	got := shown(t, path)
	if !strings.HasPrefix(got, "|o0:one\n|e1:twot|n") || !strings.Contains(got, "4 bytes of output lost") || !strings.HasSuffix(got, "\n|o2:three\n") {
		t.Errorf("read %q", got)
	}
}

// TestManySmallWritesShareMarks writes single bytes: they have the mark of their millisecond.
func TestManySmallWritesShareMarks(t *testing.T) {
	var p part
	for i := range 1000 {
		p.add(Stdout, when(0).Add(time.Duration(i)*time.Microsecond), []byte("x"))
		p.add(Stdout, when(0).Add(time.Duration(i)*time.Microsecond), nil)
	}
	p.add(Stderr, when(0).Add(time.Millisecond), []byte("x"))
	p.add(Stderr, when(0), []byte("x")) // The clock was set back.
	if len(p.marks) != 3 || p.marks[0].length != 1000 || len(p.text) != 1002 {
		t.Errorf("marks are %+v", p.marks)
	}
}

// TestSelections reads parts of a log that was rotated.
func TestSelections(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1.log")
	first := []Piece{piece(Stdout, 0, "o0\n"), piece(Stderr, 1, "e1\n"), piece(Stdout, 2, "o2 ")}
	if err := Append(path, first...); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Rename(path, Previous(path)), os.Rename(marksPath(path), marksPath(Previous(path)))); err != nil {
		t.Fatal(err)
	}
	second := []Piece{piece(Stderr, 3, "e3\n"), piece(Stdout, 4, "o4\no4\n"), piece(Note, 5, "n5\n"), piece(Stderr, 6, "e6")}
	if err := Append(path, second...); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		since, until int // -1 means none
		stream       Stream
		tail         int
		want         string
	}{
		{-1, -1, Unknown, -1, "|o0:o0\n|e1:e1\n|o2:o2 |e3:e3\n|o4:o4\no4\n|n5:n5\n|e6:e6"},
		{2, -1, Unknown, -1, "|o2:o2 |e3:e3\n|o4:o4\no4\n|n5:n5\n|e6:e6"},
		{4, 4, Unknown, -1, "|o4:o4\no4\n"},
		{0, 1, Unknown, -1, "|o0:o0\n|e1:e1\n"},
		{7, -1, Unknown, -1, ""},
		{-1, -1, Stderr, -1, "|e1:e1\n|e3:e3\n|n5:n5\n|e6:e6"},
		{-1, -1, Stdout, -1, "|o0:o0\n|o2:o2 |o4:o4\no4\n|n5:n5\n"},
		{-1, -1, Stderr, 1, "|e6:e6"},
		{-1, -1, Stderr, 2, "|n5:n5\n|e6:e6"},
		{-1, -1, Stdout, 2, "|o4:o4\n|n5:n5\n"},
		{-1, -1, Stdout, 3, "|o2:o2 |o4:o4\no4\n|n5:n5\n"},
		{-1, 4, Stdout, 1, "|o4:o4\n"},
		{-1, 3, Unknown, 1, "|o2:o2 |e3:e3\n"},
		{-1, -1, Stdout, 4, "|o0:o0\n|o2:o2 |o4:o4\no4\n|n5:n5\n"},
		{3, -1, Unknown, 100, "|e3:e3\n|o4:o4\no4\n|n5:n5\n|e6:e6"},
		{3, -1, Unknown, 0, ""},
	} {
		s := Selection{Stream: c.stream}
		r := NewReader(path)
		if c.since >= 0 {
			s.Since = when(c.since)
			if err := r.Since(s.Since); err != nil {
				t.Fatal(err)
			}
		}
		if c.until >= 0 {
			s.Until = when(c.until)
		}
		if c.tail >= 0 {
			if err := r.TailOf(s, c.tail); err != nil {
				t.Fatal(err)
			}
		}
		var pieces []Piece
		err := r.eachSelected(s, func(p Piece) error {
			p.Text = bytes.Clone(p.Text)
			pieces = append(pieces, p)
			return nil
		})
		r.Close()
		if got := show(pieces); got != c.want || err != nil {
			t.Errorf("%+v: read %q, %v", c, got, err)
		}
	}
}

// TestSinceWithoutMarks reads a log of the version before: its file tells how old it is at least.
func TestSinceWithoutMarks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1.log")
	if err := errors.Join(os.WriteFile(path, []byte("old\n"), 0o600), os.Chtimes(path, when(10), when(10))); err != nil {
		t.Fatal(err)
	}
	for since, want := range map[int]string{9: "|?:old\n", 11: ""} {
		r := NewReader(path)
		if err := r.Since(when(since)); err != nil {
			t.Fatal(err)
		}
		if got := show(readNew(t, r)); got != want {
			t.Errorf("since %d: %q", since, got)
		}
		r.Close()
	}
}

// TestResumeHasMarks continues in the middle of a piece.
func TestResumeHasMarks(t *testing.T) {
	path := appended(t, piece(Stdout, 1, "one"), piece(Stderr, 2, "two"))
	r := NewReader(path)
	defer r.Close()
	start, err := r.Position()
	if err != nil {
		t.Fatal(err)
	}
	for skip, want := range map[int64]string{0: "|o1:one|e2:two", 1: "|o1:ne|e2:two", 3: "|e2:two", 5: "|e2:o", 6: ""} {
		if kept, err := r.Resume(start, skip); !kept || err != nil {
			t.Fatal(kept, err)
		}
		if got := show(readNew(t, r)); got != want {
			t.Errorf("after %d: %q", skip, got)
		}
	}
}

// TestReaderFollowsMarks reads while a logger writes to both streams and rotates: each byte has its
// origin.
func TestReaderFollowsMarks(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1.log")
	w := newWriter(Config{Path: path, MaxBytes: 200})
	r := NewReader(path)
	defer r.Close()
	for i := range 500 {
		var p part
		p.add(Stdout+Stream(i%2), when(i), []byte("x"))
		w.write(p)
		if want := fmt.Sprintf("|%c%d:x", "oe"[i%2], i); show(readNew(t, r)) != want {
			t.Fatalf("write %d is not read as %s", i, want)
		}
	}
	w.close()
}
