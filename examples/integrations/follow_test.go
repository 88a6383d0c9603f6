package integrations_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/types"
)

// rounds is how often a program is killed.
const rounds = 8

// told has the changes that a program has printed.
type told map[change]string

// next reads the next line of a program.
func (s told) next(w *world, p *process) {
	w.t.Helper()
	line, ok := next(w, p.lines)
	if !ok {
		w.t.Fatal("the program has ended")
	}
	s.read(w.t, line)
}

// read reads a line.
func (s told) read(t *testing.T, line string) {
	t.Helper()
	var c change
	var phase string
	if _, err := fmt.Sscan(line, &c.revision, &c.task, &phase); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if before := s[c]; before != "" && before != phase {
		t.Errorf("%q: it was %s", line, before)
	}
	s[c] = phase
}

// ended returns the ends among the changes.
func (s told) ended() told {
	out := maps.Clone(s)
	maps.DeleteFunc(out, func(_ change, phase string) bool { return !types.Phase(phase).Ended() })
	return out
}

// removed returns the tasks of which it was told that they are removed.
func (s told) removed() map[string]bool {
	out := make(map[string]bool)
	for c, phase := range s {
		if phase == "removed" {
			out[c.task] = true
		}
	}
	return out
}

// followed kills a program while tasks run, and starts it again, until it has told all ends and removals. It compares
// these with the store. away is called with the ends that it has told, while it does not run. It returns a task that it
// removed, or "".
func (w *world) followed(start func() *process, away func(stored *record, told told) string) {
	const each = 4
	ended, all, last := w.record(rounds*each), make(told), []string(nil)
	removed := make(map[string]bool)
	for round := range rounds {
		if round%2 == 1 { // it misses some
			w.wait(last)
			if task := away(ended, all.ended()); task != "" {
				removed[task] = true
			}
			last = w.launch(each)
		}
		p := start()
		if round%2 == 0 {
			last = w.launch(each)
		}
		for range w.random.IntN(each + 1) {
			all.next(w, p)
		}
		p.kill()
		for _, line := range p.rest() {
			all.read(w.t, line)
		}
	}
	next(w, ended.enough)
	want := told(ended.all)
	p := start()
	for len(all.ended()) < len(want) || len(all.removed()) < len(removed) {
		all.next(w, p)
	}
	p.kill()
	for _, line := range p.rest() {
		all.read(w.t, line)
	}
	if got := all.ended(); !maps.Equal(got, want) {
		w.t.Errorf("it told\n%v\nthe store has\n%v", got, want)
	}
	if got := all.removed(); !maps.Equal(got, removed) {
		w.t.Errorf("removed are %v, it told %v", removed, got)
	}
}

// TestFollow follows tasks by server-sent events.
func TestFollow(t *testing.T) {
	w := newWorld(t, nil)
	w.followed(func() *process {
		return w.start("", "follow/follow.py", w.socket, namespace, filepath.Join(w.dir, "position"))
	}, func(*record, told) string { return "" })
}

// TestKeys follows keys by etcd's watch, in Go and in Python. What it misses is compacted.
func TestKeys(t *testing.T) {
	bin := t.TempDir()
	if text, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./keys").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	protoc := exec.CommandContext(t.Context(), "protoc", "-I", "../../types/schema", "-I", "keys", "--python_out", bin, "escher.proto", "etcd.proto")
	if text, err := protoc.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, file := range []string{"keys/main.go", "keys/etcd.proto", "../../types/schema/escher.proto"} {
		if _, err := os.Stat(file); err != nil { // the result of the test depends on it
			t.Fatal(err)
		}
	}
	for _, language := range []string{"go", "python"} {
		t.Run(language, func(t *testing.T) {
			etcd := etcdtest.Start(t)
			store, err := etcdstore.Dial(t.Context(), etcdstore.Config{Endpoints: []string{etcd.Endpoint}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = store.Close() }) // nothing is left to send
			w := newWorld(t, store)
			file := filepath.Join(w.dir, "position")
			start := func() *process {
				return w.start("ESCHER_ENDPOINTS="+etcd.Endpoint, filepath.Join(bin, "keys"), namespace, file)
			}
			if language == "python" {
				start = func() *process { return w.start("PYTHONPATH="+bin, "keys/keys.py", etcd.Endpoint, namespace, file) }
			}
			w.followed(start, func(stored *record, before told) (removed string) {
				known, err := os.ReadFile(file)
				if err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Fatal(err)
				}
				for c := range before { // any of these that it remembers
					if !stored.has(c) || !strings.Contains(string(known), "/"+c.task+`"`) {
						continue
					}
					if err := w.client.Remove(t.Context(), c.task); err != nil {
						t.Fatal(err)
					}
					removed = c.task
					break
				}
				answer, err := etcd.Client.Get(t.Context(), "none")
				if err == nil {
					_, err = etcd.Client.Compact(t.Context(), answer.Header.Revision)
				}
				if err != nil {
					t.Fatal(err)
				}
				return removed
			})
		})
	}
}
