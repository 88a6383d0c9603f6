package tasklog

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// TestReaderFollows reads a log as it grows and rotates, each byte once.
func TestReaderFollows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1.log")
	r := NewReader(path)
	defer r.Close()
	if !r.Written() || r.Exists() {
		t.Error("there is a log before there is one")
	}
	w := newWriter(Config{Path: path, MaxBytes: 8 + 3*recordBytes})
	var all strings.Builder
	look := func(r *Reader, want string) {
		t.Helper()
		all.Reset()
		if err := r.CopyNew(&all); err != nil || all.String() != want {
			t.Errorf("read %q, %v, want %q", all.String(), err, want)
		}
	}
	look(r, "")
	w.write(said("one "))
	look(r, "one ")
	look(r, "")
	w.write(said("two "))
	w.write(said("three ")) // the first file is full
	look(r, "two three ")
	w.write(said("four "))
	w.write(said("five"))
	w.write(said(" six"))
	look(r, "four five six") // one file was skipped meanwhile
	if r.Written() {
		t.Error("it is written while its logger has it open")
	}
	w.close()
	if !r.Written() {
		t.Error("it is not written when its logger has closed it")
	}
	late := NewReader(path)
	defer late.Close()
	look(late, "four five six")
}

// TestReaderKeepsUp reads a log while it is written and rotated: no line is missing, and none comes
// twice, wherever within a write it reads.
func TestReaderKeepsUp(t *testing.T) {
	const lines, most = 20_000, 1000
	path := filepath.Join(t.TempDir(), "1.log")
	w := newWriter(Config{Path: path, MaxBytes: 4 * most}) // with marks, most of it are lines
	// The writer is at most as far ahead as the kept output.
	ahead, written := make(chan int, most), make(chan struct{})
	go func() {
		defer close(written)
		for n := range lines {
			line := fmt.Sprintf("line %d\n", n)
			for range line {
				ahead <- n
			}
			w.write(said(line))
		}
		w.close()
	}()
	r := NewReader(path)
	defer r.Close()
	var all strings.Builder
	for done := false; !done; {
		select {
		case <-written:
			done = true
		default:
		}
		before := all.Len()
		if err := r.CopyNew(&all); err != nil {
			t.Fatal(err)
		}
		for range all.Len() - before {
			<-ahead
		}
	}
	n := 0
	for line := range strings.Lines(all.String()) {
		if want := fmt.Sprintf("line %d\n", n); line != want {
			t.Fatalf("read %q, want %q", line, want)
		}
		n++
	}
	if n != lines {
		t.Errorf("read %d lines of %d", n, lines)
	}
}
