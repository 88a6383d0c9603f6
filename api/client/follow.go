package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/types"
)

const (
	// EventStream is the media type of server-sent events.
	EventStream = "text/event-stream"
	// maxEvent bounds an event in bytes.
	maxEvent = 64 << 20
)

// errCut is why an answer with events ended too early.
var errCut = errors.New("the server ended the answer")

// Follow sends a request that is answered with events, and calls each with every one until the answer ends,
// or each returns an error. An event error ends it with that error. Unavailable: the answer broke off.
func (c *Client) Follow(ctx context.Context, method, path, contentType string, body io.Reader, each func(Event) error) error {
	res, err := c.send(ctx, method, path, http.Header{"Content-Type": {contentType}, "Accept": {EventStream}}, body)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	err = Events(res.Body, each)
	if _, ours := errors.AsType[*types.Error](err); err == nil || ours {
		return err
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return types.Errorf(types.Unavailable, "ask %s: %w: try again", c.server, err)
}

// Event is a server-sent event.
type Event struct {
	Kind string
	// ID is what a client sends to resume after it; 0 if it cannot.
	ID   int64
	Data json.RawMessage
}

// Events calls each with the events in a stream, until it ends, or each returns an error. An event without its
// end is none: the stream broke off in it.
func Events(from io.Reader, each func(Event) error) error {
	in := bufio.NewReader(from)
	var e Event
	for {
		line, err := readLine(in)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		switch name, value, _ := strings.Cut(line, ": "); {
		case line == "" && e.Kind == "error":
			return Problem(e.Data)
		case line == "":
			if e.Data != nil {
				err = each(e)
			}
			e = Event{}
		case name == "id":
			if e.ID, err = strconv.ParseInt(value, 10, 64); err != nil {
				err = types.Errorf(types.Internal, "read event: id %q is no number", types.Cut(value, types.MaxName))
			}
		case name == "event":
			e.Kind = value
		case name == "data" && e.Data != nil:
			e.Data = append(append(e.Data, '\n'), value...)
		case name == "data":
			e.Data = json.RawMessage(value)
		}
		if err != nil {
			return err
		}
	}
}

// readLine reads a line of at most maxEvent bytes, without its end. A line without an end is io.EOF.
func readLine(in *bufio.Reader) (string, error) {
	var line []byte
	for {
		part, err := in.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxEvent:
			return "", types.Errorf(types.Internal, "read event: it has more than %d bytes", maxEvent)
		case err == nil:
			return strings.TrimSuffix(strings.TrimSuffix(string(line), "\n"), "\r"), nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return "", err
		}
	}
}

// Long performs an operation that takes long: it calls tell with each step, and returns the result.
func Long[T, E any](ctx context.Context, c *Client, method, path, contentType string, body io.Reader, tell func(E)) (out T, err error) {
	done := false
	err = c.Follow(ctx, method, path, contentType, body, func(e Event) error {
		var err error
		if e.Kind == "result" {
			done, err = true, json.Unmarshal(e.Data, &out)
		} else {
			var step E
			if err = json.Unmarshal(e.Data, &step); err == nil {
				tell(step)
			}
		}
		if err != nil {
			return types.Errorf(types.Internal, "read the answer of %s: %w", c.server, err)
		}
		return nil
	})
	if err == nil && !done {
		class := types.Unknown
		if method == http.MethodGet {
			class = types.Unavailable
		}
		err = types.Errorf(class, "ask %s: %w", c.server, errCut)
	}
	return out, err
}
