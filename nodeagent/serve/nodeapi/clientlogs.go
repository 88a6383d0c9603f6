package nodeapi

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// Logged lists the attempts of a task whose output the node has, in order.
func (c *Client) Logged(ctx context.Context, ns, id string) ([]Logged, error) {
	var all []Logged
	return all, c.get(ctx, request("logs", ns, id, 0, nil), &all)
}

// Log is the output of one attempt, read from where it was left when it is read again,
// also with another client.
type Log struct {
	Namespace, Task string
	Attempt         int
	// Tail is how many lines to begin with; negative is all.
	Tail int

	// position is where the first answer began, read how much came since.
	position string
	read     int64
}

// Read copies to w what the attempt wrote and has not been read before; with follow
// also what it is going to write, until the attempt is over. gap tells that some of it
// is lost, as the node no longer keeps it. NotFound: it has not written anything on
// that node. Unavailable: not all of it came; it may be read again.
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
	// Where an answer begins may be in another file than where the one before did.
	l.position, l.read = res.Header.Get(positionHeader), 0
	from := &reading{r: res.Body}
	n, err := io.Copy(w, from)
	l.read += n
	if from.err != nil {
		return gap, c.broken(from.err)
	}
	return gap, err
}

// reading tells an error of what is read from one of what is written.
type reading struct {
	r   io.Reader
	err error
}

// Read reads.
func (r *reading) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}
