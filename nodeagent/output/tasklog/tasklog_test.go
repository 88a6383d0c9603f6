package tasklog

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/escher-sched/escher/types"
)

// pipeEnd records the message to the shim.
type pipeEnd struct {
	bytes.Buffer
	closed bool
}

func (p *pipeEnd) Close() error {
	p.closed = true
	return nil
}

// said is a part of standard output.
func said(text string) part {
	var p part
	p.add(Stdout, time.Now(), []byte(text))
	return p
}

func logged(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestArgRoundTrip(t *testing.T) {
	want := Config{Path: "/var/log/a b&c=d/1.log", MaxBytes: 17}
	got, err := ParseArg(want.Arg())
	if err != nil || got != want {
		t.Fatalf("got %+v, %v; want %+v", got, err, want)
	}
	for _, bad := range []string{"", "x", `{"path":"rel"}`, `{"path":"/a","maxBytes":-1}`} {
		if _, err := ParseArg(bad); !types.Is(err, types.Invalid) {
			t.Errorf("ParseArg(%q) = %v, want Invalid", bad, err)
		}
	}
}

func TestRunAppendsBothStreams(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("before\n"), fileMode); err != nil {
		t.Fatal(err)
	}
	var ready pipeEnd
	err := run(Config{Path: path}.Arg(), strings.NewReader("out\n"), strings.NewReader("err\n"), &ready)
	if err != nil {
		t.Fatal(err)
	}
	if !ready.closed || ready.Len() != 1 {
		t.Errorf("ready: closed %v after %d bytes, want one byte and closed", ready.closed, ready.Len())
	}
	got := logged(t, path)
	if !strings.HasPrefix(got, "before\n") || !strings.Contains(got, "out\n") || !strings.Contains(got, "err\n") {
		t.Errorf("log is %q", got)
	}
}

func TestRotatesBySize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	// Two lines, with their marks.
	w := newWriter(Config{Path: path, MaxBytes: 2*len64("1234\n") + 3*recordBytes})
	for _, line := range []string{"1234\n", "5678\n", "9\n"} {
		w.write(said(line))
	}
	w.close()
	if got := logged(t, path); got != "9\n" {
		t.Errorf("log is %q, want the last line", got)
	}
	if got := logged(t, Previous(path)); got != "1234\n5678\n" {
		t.Errorf("log before is %q, want the first two lines", got)
	}
	for _, file := range Files(path) {
		if _, err := os.Stat(file); err != nil || PathOf(file) != path {
			t.Errorf("%s is a file of %s, %v", file, PathOf(file), err)
		}
	}
}

func len64(text string) int64 { return int64(len(text)) }

// fullDisk is a file of a disk that is full while full is set.
type fullDisk struct {
	file
	full *bool
}

func (f fullDisk) Write(p []byte) (int, error) {
	if *f.full {
		return 0, &os.PathError{Op: "write", Path: "log", Err: syscall.ENOSPC}
	}
	return f.file.Write(p)
}

func TestSaysWhatAFullDiskCost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	full := true
	w := newWriter(Config{Path: path, MaxBytes: DefaultMaxBytes})
	w.open = func(path string) (opened, error) {
		o, err := openAppend(path)
		o.file = fullDisk{o.file, &full}
		return o, err
	}
	w.write(said("lost"))
	full = false
	w.write(said("kept\n"))
	w.close()
	want := "\nescher: 4 bytes of output lost: no space left on device\nkept\n"
	if got := logged(t, path); got != want {
		t.Errorf("log is %q, want %q", got, want)
	}
}

func TestDrainsWithoutADirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "all", "of", "this", "is", "gone", "log")
	r := strings.NewReader("lost")
	var ready pipeEnd
	if err := run(Config{Path: path}.Arg(), r, strings.NewReader(""), &ready); err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(r); len(rest) > 0 || !ready.closed {
		t.Errorf("left %q unread, ready %v", rest, ready.closed)
	}
}

// TestMakesAnewWhatWasRemoved removes the log with its directories.
func TestMakesAnewWhatWasRemoved(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "logs")
	path := filepath.Join(dir, "default", "task", "1.log")
	w := newWriter(Config{Path: path, MaxBytes: DefaultMaxBytes})
	defer w.close()
	w.write(said("before\n"))
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	w.looked = w.looked.Add(-2 * lookEvery)
	w.write(said("after\n"))
	if got := logged(t, path); got != "after\n" {
		t.Errorf("log is %q", got)
	}
}

// TestSaysThatALoggerEnded starts after another logger was killed.
func TestSaysThatALoggerEnded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	var ready pipeEnd
	err := run(Config{Path: path, Again: true}.Arg(), strings.NewReader("out\n"), strings.NewReader(""), &ready)
	if got := logged(t, path); err != nil || got != againNote+"out\n" {
		t.Errorf("log is %q, %v", got, err)
	}
}
