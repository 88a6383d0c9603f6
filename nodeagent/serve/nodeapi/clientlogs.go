package nodeapi

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/escher-sched/escher/nodeagent/output/tasklog"
)

// Logged returns the attempts of a task whose output the node has, in order.
func (c *Client) Logged(ctx context.Context, ns, id string) ([]Logged, error) {
	var all []Logged
	return all, c.get(ctx, request("logs", ns, id, 0, nil), &all)
}

// Log is the output of one attempt. A further Read continues where the last one stopped, even with
// another client.
type Log struct {
	Namespace, Task string
	Attempt         int
	// Tail is the number of last lines to begin with; negative means everything.
	Tail int
	// Selection selects the output to read.
	tasklog.Selection

	// position is where the last answer began, read the number of bytes since.
	position string
	read     int64
}

// Answer describes an answer with output.
type Answer struct {
	// Gap reports whether output is lost because the node no longer keeps it.
	Gap bool
	// Plain reports whether the agent is of a version that knows neither times nor streams. The
	// answer then has everything.
	Plain bool
}

// Sink takes the output of an attempt.
type Sink struct {
	// Begin is called before any output.
	Begin func(Answer)
	// Each is called with each piece, which is valid until it returns.
	Each func(tasklog.Piece) error
}

// Read gives the unread selected output of the attempt to the sink. With follow, it goes on with
// future output, until the attempt is over. It ends with the first error of the sink. NotFound: the
// attempt has no output on that node. Unavailable: the output is incomplete; call Read again.
func (l *Log) Read(ctx context.Context, c *Client, follow bool, to Sink) error {
	res, err := c.do(ctx, http.MethodGet, request("logs", l.Namespace, l.Task, l.Attempt, l.query(follow)), nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer := Answer{Gap: res.Header.Get(gapHeader) != "", Plain: res.Header.Get("Content-Type") != framesType}
	// This answer may begin in another file than the last one.
	l.position, l.read = res.Header.Get(positionHeader), 0
	read := readFrames
	if answer.Plain {
		read = readPlain
	}
	to.Begin(answer)
	n, broken, failed := read(res.Body, to.Each)
	l.read += n
	if broken != nil {
		return c.broken(broken)
	}
	return failed
}

// query returns the parameters of the next request.
func (l *Log) query(follow bool) url.Values {
	query := url.Values{"follow": {strconv.FormatBool(follow)}, "marks": {"true"}}
	if l.position != "" {
		query.Set("from", l.position)
		query.Set("skip", strconv.FormatInt(l.read, 10))
	} else if l.Tail >= 0 {
		query.Set("tail", strconv.Itoa(l.Tail))
	}
	for name, at := range map[string]time.Time{"since": l.Since, "until": l.Until} {
		if !at.IsZero() {
			query.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tasklog.Streams())) {
		if tasklog.Streams()[name] == l.Stream {
			query.Set("stream", name)
		}
	}
	return query
}
