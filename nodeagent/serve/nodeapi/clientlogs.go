package nodeapi

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
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

	// position is where the last answer began, read the number of bytes since.
	position string
	read     int64
}

// Read copies the unread output of the attempt to w. With follow, it also copies future output,
// until the attempt is over. gap reports whether output is lost because the node no longer keeps
// it. NotFound: the attempt has no output on that node. Unavailable: the output is incomplete; call
// Read again.
func (l *Log) Read(ctx context.Context, c *Client, w io.Writer, follow bool) (gap bool, err error) {
	query := url.Values{"follow": {strconv.FormatBool(follow)}}
	if l.position != "" {
		query.Set("from", l.position)
		query.Set("skip", strconv.FormatInt(l.read, 10))
	} else if l.Tail >= 0 {
		query.Set("tail", strconv.Itoa(l.Tail))
	}
	res, err := c.do(ctx, http.MethodGet, request("logs", l.Namespace, l.Task, l.Attempt, query), nil)
	if err != nil {
		return false, err
	}
	defer res.Body.Close()
	gap = res.Header.Get(gapHeader) != ""
	// This answer may begin in another file than the last one.
	l.position, l.read = res.Header.Get(positionHeader), 0
	from := &reading{r: res.Body}
	n, err := io.Copy(w, from)
	l.read += n
	if from.err != nil {
		return gap, c.broken(from.err)
	}
	return gap, err
}

// reading distinguishes a read error from a write error.
type reading struct {
	r   io.Reader
	err error
}

// Read reads from r.
func (r *reading) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}
