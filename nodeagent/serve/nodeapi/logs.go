package nodeapi

import (
	"context"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/nodeagent/output/tasklog"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

const (
	// lookEvery is the interval of reads of a followed log.
	lookEvery = 50 * time.Millisecond
	// settle limits how long the end of a log waits for its logger after the attempt is over: only
	// a fault makes it wait.
	settle = 5 * time.Second

	// positionHeader has the position in the log at which an answer begins. gapHeader reports that
	// it is later than requested, because earlier output is no longer kept.
	positionHeader = "Escher-Log-Position"
	gapHeader      = "Escher-Log-Gap"
)

// Logged describes the output of one attempt.
type Logged struct {
	Attempt int       `json:"attempt"`
	Bytes   int64     `json:"bytes"`
	Changed time.Time `json:"changed"`
}

// listLogs lists the attempts of a task whose output is on this node.
func (s *server) listLogs(w http.ResponseWriter, r *http.Request) {
	a, err := attemptOf(r)
	var numbers []int
	if err == nil {
		numbers, err = s.Agent.Logged(a.ns, a.id)
	}
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	all := make([]Logged, 0, len(numbers))
	for _, n := range numbers {
		path := s.Agent.LogPath(a.ns, a.id, n)
		info, err := os.Stat(path)
		if err != nil {
			continue // It has just been deleted.
		}
		l := Logged{Attempt: n, Bytes: info.Size(), Changed: info.ModTime()}
		if before, err := os.Stat(tasklog.Previous(path)); err == nil {
			l.Bytes += before.Size()
		}
		all = append(all, l)
	}
	answer.JSON(w, http.StatusOK, all)
}

// logQuery is the requested part of a log.
type logQuery struct {
	follow bool
	// tail is the number of lines; -1 means all.
	tail int64
	from tasklog.Position
	skip int64
	// resumed reports whether from and skip are given.
	resumed bool
	// marks requests frames instead of plain output. Only they can leave anything out.
	marks bool
	tasklog.Selection
}

func logQueryOf(r *http.Request) (q logQuery, err error) {
	if q.follow, err = answer.Flag(r, "follow"); err != nil {
		return q, err
	}
	if q.tail, err = number(r, "tail", -1); err != nil {
		return q, err
	}
	if q.skip, err = number(r, "skip", 0); err != nil {
		return q, err
	}
	if text := r.URL.Query().Get("from"); text != "" {
		q.resumed = true
		if q.from, err = parsePosition(text); err != nil {
			return q, err
		}
	}
	if q.marks, err = answer.Flag(r, "marks"); err != nil {
		return q, err
	}
	q.Selection, err = selectionOf(r)
	if err == nil && !q.marks && !q.All() {
		err = types.Errorf(types.Invalid, "marks: is false, and plain output has neither times nor streams: add marks=true")
	}
	return q, err
}

// selectionOf parses the parameters that select output.
func selectionOf(r *http.Request) (s tasklog.Selection, err error) {
	if s.Since, err = timeOf(r, "since"); err != nil {
		return s, err
	}
	if s.Until, err = timeOf(r, "until"); err != nil {
		return s, err
	}
	if name := r.URL.Query().Get("stream"); name != "" {
		if s.Stream = tasklog.Streams()[name]; s.Stream == tasklog.Unknown {
			return s, types.Errorf(types.Invalid, "stream: %q is unknown: give stdout or stderr", name)
		}
	}
	return s, nil
}

// timeOf parses a time; a missing one is zero.
func timeOf(r *http.Request, name string) (time.Time, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, types.Errorf(types.Invalid, "%s: %q is not a time: give one such as 2026-01-31T12:00:00Z", name, text)
	}
	return at, nil
}

// formatPosition formats a position as FILE:OFFSET.
func formatPosition(p tasklog.Position) string {
	return p.File + ":" + strconv.FormatInt(p.Offset, 10)
}

// parsePosition is the inverse of formatPosition.
func parsePosition(text string) (tasklog.Position, error) {
	file, offset, ok := strings.Cut(text, ":")
	n, err := strconv.ParseInt(offset, 10, 64)
	if !ok || err != nil || n < 0 {
		return tasklog.Position{}, types.Errorf(types.Invalid, "from: %q is no position: give what %s had", text, positionHeader)
	}
	return tasklog.Position{File: file, Offset: n}, nil
}

// log sends the output of an attempt and, with follow, its future output.
func (s *server) log(w http.ResponseWriter, r *http.Request) {
	a, err := attemptOf(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	q, err := logQueryOf(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	path := s.Agent.LogPath(a.ns, a.id, a.number)
	bound, err := s.Agent.Bound(a.ns, a.id, a.number)
	if err != nil && q.follow {
		s.refuse(w, r, err) // Without this, the end is not known.
		return
	}
	reader := tasklog.NewReader(path)
	defer reader.Close()
	if path == "" || !reader.Exists() && (!bound || !q.follow) {
		s.refuse(w, r, types.Errorf(types.NotFound, "find the output of attempt %d of task %s: node %s has none", a.number, a.id, s.Agent.Node()))
		return
	}
	if err := begin(w, reader, q); err != nil {
		s.refuse(w, r, err)
		return
	}
	copyNew := plainly(w, reader)
	if q.marks {
		copyNew = framed(w, reader, q.Selection)
	}
	if !q.follow {
		err = copyNew()
	} else {
		err = s.followLog(r.Context(), a, reader, q.Until, copyNew)
	}
	if err != nil && err != errOver {
		// The client must not take it for the end of the log.
		panic(http.ErrAbortHandler)
	}
}

// begin seeks to the start of the requested part, and sends its position.
func begin(w http.ResponseWriter, reader *tasklog.Reader, q logQuery) error {
	switch {
	case q.resumed:
		kept, err := reader.Resume(q.from, q.skip)
		if err != nil {
			return err
		}
		if !kept {
			w.Header().Set(gapHeader, "true")
		}
	case q.All() && q.tail >= 0:
		if err := reader.Tail(int(q.tail)); err != nil {
			return err
		}
	case !q.All():
		if err := seek(reader, q); err != nil {
			return err
		}
	}
	at, err := reader.Position()
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if q.marks {
		w.Header().Set("Content-Type", framesType)
	}
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set(positionHeader, formatPosition(at))
	w.WriteHeader(http.StatusOK)
	return http.NewResponseController(w).Flush()
}

// seek seeks to the first selected output, or to its last lines.
func seek(reader *tasklog.Reader, q logQuery) error {
	if !q.Since.IsZero() {
		if err := reader.Since(q.Since); err != nil {
			return err
		}
	}
	if q.tail < 0 {
		return nil
	}
	return reader.TailOf(q.Selection, int(q.tail))
}

// followLog copies a log until the attempt is over and no logger writes to it, or until a time if
// that is not zero.
func (s *server) followLog(ctx context.Context, a attempt, reader *tasklog.Reader, until time.Time, copyNew func() error) error {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	var over time.Time
	for {
		// Read after this check, so as not to miss earlier output.
		bound, err := s.Agent.Bound(a.ns, a.id, a.number)
		if err != nil {
			return err
		}
		done := !until.IsZero() && time.Now().After(until)
		if !bound {
			if over.IsZero() {
				over = time.Now()
			}
			done = done || reader.Written() || time.Since(over) > settle
		}
		if err := copyNew(); err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// plainly returns a function that sends new output as it is.
func plainly(w http.ResponseWriter, reader *tasklog.Reader) func() error {
	out := flusher{w, http.NewResponseController(w)}
	return func() error { return reader.CopyNew(out) }
}

// flusher sends each write at once.
type flusher struct {
	w http.ResponseWriter
	c *http.ResponseController
}

// Write sends text.
func (f flusher) Write(text []byte) (int, error) {
	n, err := f.w.Write(text)
	if err == nil {
		err = f.c.Flush()
	}
	return n, err
}
