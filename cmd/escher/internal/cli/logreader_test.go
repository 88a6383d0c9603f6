package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/escher-sched/escher/nodeagent/tasklog"
)

// TestLogReaderFollows reads a log as it grows and is put aside, each byte once.
func TestLogReaderFollows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "1.log")
	write := func(text string) {
		t.Helper()
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	aside := func() {
		t.Helper()
		if err := os.Rename(path, tasklog.Previous(path)); err != nil {
			t.Fatal(err)
		}
	}
	r := newLogReader(path)
	defer r.close()
	var all strings.Builder
	look := func(want string) {
		t.Helper()
		all.Reset()
		if err := r.copyNew(&all); err != nil || all.String() != want {
			t.Errorf("read %q, %v, want %q", all.String(), err, want)
		}
	}
	look("")
	write("one ")
	look("one ")
	look("")
	write("two ")
	aside()
	look("two ") // it is not known yet that there is another
	write("three ")
	look("three ")
	write("four ")
	aside()
	write("five")
	look("four five")

	late := newLogReader(path)
	defer late.close()
	all.Reset()
	if err := late.copyNew(&all); err != nil || all.String() != "three four five" {
		t.Errorf("a late reader reads %q, %v", all.String(), err)
	}
}

func TestPrefixed(t *testing.T) {
	var out strings.Builder
	p := &prefixed{to: &out, prefix: "a | "}
	for _, text := range []string{"on", "e\ntwo\nthr", "ee"} {
		if _, err := p.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.flush(); err != nil || out.String() != "a | one\na | two\na | three\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
