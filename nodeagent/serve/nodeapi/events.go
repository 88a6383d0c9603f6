package nodeapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
)

// Event is a step of an attempt on its node.
type Event struct {
	// Seq numbers the events of an attempt since the start of its agent, from 1.
	Seq     int            `json:"seq"`
	At      time.Time      `json:"at"`
	Restart int            `json:"restart,omitempty"`
	Step    nodeagent.Step `json:"step"`
	Text    string         `json:"text,omitempty"`
}

// events answers with the events of an attempt as lines of JSON. With follow, it also sends future
// events, until the attempt is over.
func (s *server) events(w http.ResponseWriter, r *http.Request) {
	a, err := attemptOf(r)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	follow, err := answer.Flag(r, "follow")
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	after, err := number(r, "after", 0)
	if err != nil {
		s.refuse(w, r, err)
		return
	}
	known, more := s.Agent.Events(a.ns, a.id, a.number, 0)
	if more == nil {
		s.refuse(w, r, types.Errorf(types.NotFound, "find the events of attempt %d of task %s: node %s remembers none: they are kept for its last attempts, while its agent runs", a.number, a.id, s.Agent.Node()))
		return
	}
	out := newLines(w)
	for {
		for _, e := range known {
			if int64(e.Seq) > after {
				after = int64(e.Seq)
				out.send(Event(e))
			}
		}
		over := len(known) > 0 && known[len(known)-1].Step == nodeagent.StepReleased
		if !follow || over || more == nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-more:
		}
		known, more = s.Agent.Events(a.ns, a.id, a.number, 0)
	}
}

// Events calls each with the events of an attempt after the event numbered after, oldest first.
// With follow, it also does so for future events, until the attempt is over. NotFound: the node has
// no events of it.
func (c *Client) Events(ctx context.Context, ns, id string, attempt, after int, follow bool, each func(Event) error) error {
	query := url.Values{"follow": {strconv.FormatBool(follow)}, "after": {strconv.Itoa(after)}}
	res, err := c.do(ctx, http.MethodGet, request("events", ns, id, attempt, query), nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return c.lines(res, func(text []byte) error {
		var e Event
		if err := json.Unmarshal(text, &e); err != nil {
			return c.garbled(err)
		}
		return each(e)
	})
}
