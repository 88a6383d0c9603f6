package nodeapi_test

import (
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/nodeagent/output/tasklog"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

// writes opens the log of an attempt like a logger, and returns the file.
func (w *world) writes(t *testing.T, attempt int) *os.File {
	t.Helper()
	f, err := os.OpenFile(w.agent.LogPath("x", "t", attempt), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func say(t *testing.T, f *os.File, text string) {
	t.Helper()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// gate collects what is written, and calls a function once it has all of a text.
type gate struct {
	mu    sync.Mutex
	got   strings.Builder
	after map[string]func()
}

func (g *gate) Write(p []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.got.Write(p)
	if then := g.after[g.got.String()]; then != nil {
		then()
	}
	return len(p), nil
}

func TestLogEndsWhenAllIsWritten(t *testing.T) {
	w := newWorld(t)
	f := w.writes(t, 1)
	say(t, f, "one ")
	out := &gate{after: map[string]func(){
		"one ": func() { w.agent.set(func() { w.agent.bound = false }) },
	}}
	// The attempt is over, and its output is not in the file yet.
	w.agent.unbound = func(times int) {
		switch times {
		case 2:
			say(t, f, "two ")
		case 4:
			say(t, f, "three")
			f.Close()
		}
	}
	log := nodeapi.Log{Namespace: "x", Task: "t", Attempt: 1, Tail: -1}
	if gap, err := log.Read(t.Context(), w.Client, out, true); err != nil || gap || out.got.String() != "one two three" {
		t.Errorf("%q, %v, %v", out.got.String(), gap, err)
	}
	logged, err := w.Logged(t.Context(), "x", "t")
	if err != nil || len(logged) != 1 || logged[0].Bytes != 13 {
		t.Errorf("%+v, %v", logged, err)
	}
	none := nodeapi.Log{Namespace: "x", Task: "t", Attempt: 7, Tail: -1}
	for _, follow := range []bool{false, true} {
		if _, err := none.Read(t.Context(), w.Client, out, follow); !types.Is(err, types.NotFound) {
			t.Errorf("of an attempt that wrote nothing: %v", err)
		}
	}
}

// TestLogGoesOnWhereItBroke loses the agent in the middle, while the log rotates.
func TestLogGoesOnWhereItBroke(t *testing.T) {
	w := newWorld(t)
	f := w.writes(t, 1)
	say(t, f, "one ")
	fail := func(broken bool) func() {
		return func() { w.agent.set(func() { w.agent.broken = broken }) }
	}
	out := &gate{after: map[string]func(){"one ": fail(true)}}
	log := nodeapi.Log{Namespace: "x", Task: "t", Attempt: 1, Tail: -1}
	if _, err := log.Read(t.Context(), w.Client, out, true); !types.Is(err, types.Unavailable) {
		t.Errorf("it is said to be whole: %v", err)
	}
	if _, err := log.Read(t.Context(), w.Client, out, true); !types.Is(err, types.Unavailable) {
		t.Errorf("the agent does not know whether it is over: %v", err)
	}
	say(t, f, "two ")
	aside(t, w, 1)
	say(t, w.writes(t, 1), "three")
	fail(false)()
	if gap, err := log.Read(t.Context(), w.Client, out, false); err != nil || gap || out.got.String() != "one two three" {
		t.Errorf("%q, %v, %v", out.got.String(), gap, err)
	}
	say(t, w.writes(t, 1), " four")
	aside(t, w, 1)
	say(t, w.writes(t, 1), "five")
	aside(t, w, 1)
	say(t, w.writes(t, 1), "six")
	if gap, err := log.Read(t.Context(), w.Client, out, false); err != nil || !gap || out.got.String() != "one two threefivesix" {
		t.Errorf("%q, %v, %v: what is lost must be told", out.got.String(), gap, err)
	}
}

func aside(t *testing.T, w *world, attempt int) {
	t.Helper()
	path := w.agent.LogPath("x", "t", attempt)
	if err := os.Rename(path, tasklog.Previous(path)); err != nil {
		t.Fatal(err)
	}
}

func TestTail(t *testing.T) {
	w := newWorld(t)
	say(t, w.writes(t, 1), "a\nb\n")
	aside(t, w, 1)
	say(t, w.writes(t, 1), "c\nd\n"+strings.Repeat("x", 100_000)+"\ne")
	for tail, want := range map[int]string{
		0: "", 1: "e", 2: strings.Repeat("x", 100_000) + "\ne", 3: "d\n" + strings.Repeat("x", 100_000) + "\ne",
		5: "b\nc\nd\n" + strings.Repeat("x", 100_000) + "\ne", 100: "a\nb\nc\nd\n" + strings.Repeat("x", 100_000) + "\ne",
	} {
		var out strings.Builder
		log := nodeapi.Log{Namespace: "x", Task: "t", Attempt: 1, Tail: tail}
		if _, err := log.Read(t.Context(), w.Client, &out, false); err != nil || out.String() != want {
			t.Errorf("tail %d: %d bytes, %v", tail, out.Len(), err)
		}
	}
}
