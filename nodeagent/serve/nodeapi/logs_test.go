package nodeapi_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

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

// read copies the unread output of an attempt. gap reports whether some is lost.
func read(t *testing.T, w *world, log *nodeapi.Log, out io.Writer, follow bool) (gap bool, err error) {
	answer, err := readEach(t, w.Client, log, follow, func(p tasklog.Piece) error {
		_, err := out.Write(p.Text)
		return err
	})
	return answer.Gap, err
}

// readEach calls each with the unread output of an attempt.
func readEach(t *testing.T, c *nodeapi.Client, log *nodeapi.Log, follow bool, each func(tasklog.Piece) error) (answer nodeapi.Answer, err error) {
	err = log.Read(t.Context(), c, follow, nodeapi.Sink{Begin: func(a nodeapi.Answer) { answer = a }, Each: each})
	return answer, err
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
	if gap, err := read(t, w, &log, out, true); err != nil || gap || out.got.String() != "one two three" {
		t.Errorf("%q, %v, %v", out.got.String(), gap, err)
	}
	logged, err := w.Logged(t.Context(), "x", "t")
	if err != nil || len(logged) != 1 || logged[0].Bytes != 13 {
		t.Errorf("%+v, %v", logged, err)
	}
	none := nodeapi.Log{Namespace: "x", Task: "t", Attempt: 7, Tail: -1}
	for _, follow := range []bool{false, true} {
		if _, err := read(t, w, &none, out, follow); !types.Is(err, types.NotFound) {
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
	if _, err := read(t, w, &log, out, true); !types.Is(err, types.Unavailable) {
		t.Errorf("it is said to be whole: %v", err)
	}
	if _, err := read(t, w, &log, out, true); !types.Is(err, types.Unavailable) {
		t.Errorf("the agent does not know whether it is over: %v", err)
	}
	say(t, f, "two ")
	aside(t, w, 1)
	say(t, w.writes(t, 1), "three")
	fail(false)()
	if gap, err := read(t, w, &log, out, false); err != nil || gap || out.got.String() != "one two three" {
		t.Errorf("%q, %v, %v", out.got.String(), gap, err)
	}
	say(t, w.writes(t, 1), " four")
	aside(t, w, 1)
	say(t, w.writes(t, 1), "five")
	aside(t, w, 1)
	say(t, w.writes(t, 1), "six")
	if gap, err := read(t, w, &log, out, false); err != nil || !gap || out.got.String() != "one two threefivesix" {
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
		if _, err := read(t, w, &log, &out, false); err != nil || out.String() != want {
			t.Errorf("tail %d: %d bytes, %v", tail, out.Len(), err)
		}
	}
}

// at returns a time that many seconds after a fixed one.
func at(seconds int) time.Time { return time.Unix(1_700_000_000+int64(seconds), 5).UTC() }

// append appends a piece to the log of the first attempt.
func (w *world) append(t *testing.T, stream tasklog.Stream, seconds int, text string) {
	t.Helper()
	if err := tasklog.Append(w.agent.LogPath("x", "t", 1), tasklog.Piece{Stream: stream, At: at(seconds), Text: []byte(text)}); err != nil {
		t.Fatal(err)
	}
}

// TestStreamsAndTimes selects output by stream, time and lines.
func TestStreamsAndTimes(t *testing.T) {
	w := newWorld(t)
	for i := range 6 {
		w.append(t, tasklog.Stdout+tasklog.Stream(i%2), i, fmt.Sprintln(i))
	}
	for _, c := range []struct {
		tasklog.Selection
		tail int
		want string
	}{
		{tasklog.Selection{}, -1, "o0 e1 o2 e3 o4 e5"},
		{tasklog.Selection{}, 2, "o4 e5"},
		{tasklog.Selection{Stream: tasklog.Stderr}, -1, "e1 e3 e5"},
		{tasklog.Selection{Stream: tasklog.Stdout}, 2, "o2 o4"},
		{tasklog.Selection{Since: at(2), Until: at(4)}, -1, "o2 e3 o4"},
		{tasklog.Selection{Since: at(2), Until: at(4), Stream: tasklog.Stdout}, 1, "o4"},
		{tasklog.Selection{Since: at(9)}, -1, ""},
		{tasklog.Selection{Until: at(-1)}, -1, ""},
	} {
		log := nodeapi.Log{Namespace: "x", Task: "t", Attempt: 1, Tail: c.tail, Selection: c.Selection}
		var got []string
		answer, err := readEach(t, w.Client, &log, false, func(p tasklog.Piece) error {
			n := strings.TrimSpace(string(p.Text))
			got = append(got, fmt.Sprintf("%c%s", "?oe"[p.Stream], n))
			if fmt.Sprint(p.At.Unix()-at(0).Unix()) != n {
				t.Errorf("%s was written at %s", n, p.At)
			}
			return nil
		})
		if all := strings.Join(got, " "); all != c.want || err != nil || answer != (nodeapi.Answer{}) {
			t.Errorf("%+v: read %s, %+v, %v", c, all, answer, err)
		}
	}
}

// TestSelectedLogGoesOn reads one stream, breaking off after each piece: what is left out counts
// for the position.
func TestSelectedLogGoesOn(t *testing.T) {
	w := newWorld(t)
	log := nodeapi.Log{Namespace: "x", Task: "t", Attempt: 1, Tail: -1, Selection: tasklog.Selection{Stream: tasklog.Stderr}}
	enough := errors.New("enough")
	var got strings.Builder
	for i := range 20 {
		w.append(t, tasklog.Stdout+tasklog.Stream(i%2), i, fmt.Sprint(i, " "))
		_, err := readEach(t, w.Client, &log, false, func(p tasklog.Piece) error {
			got.Write(p.Text)
			if i%3 == 0 {
				return enough // so that the piece comes again
			}
			return nil
		})
		if err != nil && err != enough {
			t.Fatal(err)
		}
	}
	if want := "1 3 3 5 7 9 9 11 13 15 15 17 19 "; got.String() != want {
		t.Errorf("read %q, want %q", got.String(), want)
	}
}

// TestFollowsUntilATime ends although the attempt goes on.
func TestFollowsUntilATime(t *testing.T) {
	w := newWorld(t)
	f := w.writes(t, 1)
	say(t, f, "old\n")
	log := nodeapi.Log{Namespace: "x", Task: "t", Attempt: 1, Tail: -1, Selection: tasklog.Selection{Until: time.Now().Add(100 * time.Millisecond)}}
	var out strings.Builder
	if _, err := read(t, w, &log, &out, true); err != nil || out.String() != "old\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

// TestAgentWithoutMarks reads the answer of an agent of the version before.
func TestAgentWithoutMarks(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Escher-Log-Position", "f:0")
		if _, err := io.WriteString(w, "all of it\n"); err != nil {
			t.Error(err)
		}
	}))
	defer srv.Close()
	c, err := nodeapi.New("n", srv.URL, token, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := nodeapi.Log{Namespace: "x", Task: "t", Attempt: 1, Tail: -1, Selection: tasklog.Selection{Stream: tasklog.Stderr}}
	var out strings.Builder
	answer, err := readEach(t, c, &log, false, func(p tasklog.Piece) error {
		out.Write(p.Text)
		if p.Stream != tasklog.Unknown || !p.At.IsZero() {
			t.Errorf("%+v", p)
		}
		return nil
	})
	if err != nil || !answer.Plain || out.String() != "all of it\n" {
		t.Errorf("%q, %+v, %v", out.String(), answer, err)
	}
}

// TestClientWithoutMarks asks as clients of the version before do, and wrongly.
func TestClientWithoutMarks(t *testing.T) {
	w := newWorld(t)
	w.append(t, tasklog.Stdout, 1, "out ")
	w.append(t, tasklog.Stderr, 2, "err")
	for query, want := range map[string]string{
		"": "out err", "?tail=1": "out err",
		"?marks=true": frame(1, 0, 1, "out ") + frame(2, 0, 2, "err"), "?marks=true&stream=stderr": frame(0, 1, -1, "....")[:16] + frame(2, 0, 2, "err"),
		"?stream=stderr": "marks: is false", "?since=2026-01-31T12:00:00Z": "marks: is false", "?marks=1&since=5m": `since: "5m" is not a time`,
		"?marks=1&until=x": `until: "x" is not a time`, "?marks=1&stream=both": `stream: "both" is unknown`, "?marks=maybe": "marks: ",
	} {
		req, err := http.NewRequest(http.MethodGet, w.url+"/v1/logs/x/t/1"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if ok := res.StatusCode == http.StatusOK; err != nil || ok && string(text) != want || !ok && !strings.Contains(strings.ReplaceAll(string(text), `\"`, `"`), want) {
			t.Errorf("%s: %d %q, %v; want %q", query, res.StatusCode, text, err, want)
		}
	}
}

// frame is a frame as docs/node-api.md describes it. Before the first second the time is unknown.
func frame(stream, flags byte, seconds int, text string) string {
	head := binary.BigEndian.AppendUint32([]byte{stream, flags, 0, 0}, uint32(len(text)))
	nanoseconds := uint64(0)
	if seconds >= 0 {
		nanoseconds = uint64(at(seconds).UnixNano())
	}
	return string(binary.BigEndian.AppendUint64(head, nanoseconds)) + text
}
