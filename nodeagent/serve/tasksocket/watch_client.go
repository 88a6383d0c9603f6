package tasksocket

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

// Watch selects what to watch.
type Watch struct {
	// Of is "tasks", "resources", "peers", or "" for tasks.
	Of string
	// IDs are full ids of tasks; empty means all of the namespace.
	IDs []string
	// After resumes a watch of tasks: it is the last ID of an event above 0.
	After int64
}

// Event is an event of a watch.
type Event struct {
	// Kind is "task", "resource", "peers" or "synced".
	Kind string
	// ID is the revision up to which everything was sent; 0 if more of it follows.
	ID int64
	// Data is a Status or a Removed, a ResourceChange, Peers, or a Synced.
	Data json.RawMessage
}

// Watch calls handle with the current state, an event "synced", and then every change. It ends when
// ctx is done, or handle returns an error, which it returns. Unavailable: the socket is gone, or
// never existed.
func (c *Client) Watch(ctx context.Context, w Watch, handle func(Event) error) error {
	if len(w.IDs) > maxIDs {
		w.IDs, handle = nil, onlyTasks(w.IDs, handle)
	}
	query := url.Values{"of": {w.Of}, "id": w.IDs}
	if w.After != 0 {
		query.Set("after", strconv.FormatInt(w.After, 10))
	}
	if err := c.follow(ctx, "/v1/watch?"+query.Encode(), handle); err != nil {
		return err
	}
	return types.Errorf(types.Unavailable, "watch by the task socket %s: it was ended: watch again, after the last id", c.path)
}

// follow calls handle with the events of a request until its answer ends.
func (c *Client) follow(ctx context.Context, path string, handle func(Event) error) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://escher"+path, nil)
	if err != nil {
		return types.Errorf(types.Invalid, "write request: %w", err)
	}
	res, err := c.http.Do(req)
	if err != nil {
		return c.unanswered(http.MethodGet, err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		text, err := io.ReadAll(res.Body)
		if err != nil {
			return c.unanswered(http.MethodGet, err)
		}
		return answer.Refused("the task socket", res.StatusCode, bytes.TrimSpace(text))
	}
	return readEvents(res.Body, handle)
}

// onlyTasks returns a handler that leaves out the events of other tasks.
func onlyTasks(ids []string, handle func(Event) error) func(Event) error {
	wanted := make(map[string]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	return func(e Event) error {
		if e.Kind != "task" {
			return handle(e)
		}
		var task struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(e.Data, &task); err != nil {
			return types.Errorf(types.Internal, "read event: %w", err)
		}
		if !wanted[task.ID] {
			return nil
		}
		return handle(e)
	}
}

// readEvents reads server-sent events to the end, or until the connection breaks.
func readEvents(r io.Reader, handle func(Event) error) error {
	var e Event
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return nil
		}
		field, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
		switch field {
		case "id":
			e.ID, err = strconv.ParseInt(value, 10, 64)
		case "event":
			e.Kind = value
		case "data":
			e.Data = json.RawMessage(value)
		case "":
			err = e.deliver(handle)
			e = Event{}
		}
		if err != nil {
			return err
		}
	}
}

// deliver passes an event to handle, unless it is only a comment.
func (e Event) deliver(handle func(Event) error) error {
	switch e.Kind {
	case "":
		return nil
	case "error":
		if err := answer.Error(e.Data); err != nil {
			return err
		}
	}
	return handle(e)
}
