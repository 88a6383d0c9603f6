package nodeapi

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
	"github.com/escher-sched/escher/types/measured"
)

// sampler is the part of a usage.Sampler that the API needs. since is the start of the history;
// zero means no history.
type sampler interface {
	Tasks(ctx context.Context, since time.Time) []measured.Task
	Node(ctx context.Context, since time.Time) measured.Node
}

// sampled answers with the result of f for the parameter since.
func (s *server) sampled(f func(r *http.Request, since time.Time) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		since, err := Since(r.URL.Query().Get("since"), time.Now())
		if err == nil && s.Usage == nil {
			err = types.Errorf(types.Precondition, "ask node %s what is used: nothing is sampled there", s.Agent.Node())
		}
		var found any
		if err == nil {
			found, err = f(r, since)
		}
		if err != nil {
			s.refuse(w, r, err)
			return
		}
		answer.JSON(w, http.StatusOK, found)
	}
}

// Since parses a time or a duration ago; zero if text is empty.
func Since(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago > 0 {
		return now.Add(-ago), nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, types.Errorf(types.Invalid, "since: %q is not a time: give how long ago, such as 2m, or a time such as 2026-01-31T12:00:00Z", text)
	}
	return at, nil
}

// usageOfTasks returns the usage of each running attempt.
func (s *server) usageOfTasks(r *http.Request, since time.Time) (any, error) {
	return s.Usage.Tasks(r.Context(), since), nil
}

// usageOfTask returns the usage of one attempt.
func (s *server) usageOfTask(r *http.Request, since time.Time) (any, error) {
	a, err := attemptOf(r)
	if err != nil {
		return nil, err
	}
	all := s.Usage.Tasks(r.Context(), since)
	i := slices.IndexFunc(all, func(t measured.Task) bool { return t.Namespace == a.ns && t.Task == a.id && t.Attempt == a.number })
	if i < 0 {
		return nil, types.Errorf(types.NotFound, "ask what attempt %d of task %s uses: it does not run on node %s: to find it: %s",
			a.number, a.id, s.Agent.Node(), action.Describe.Of(a.id))
	}
	return all[i], nil
}

// usageOfNode returns the usage of the machine.
func (s *server) usageOfNode(r *http.Request, since time.Time) (any, error) {
	return s.Usage.Node(r.Context(), since), nil
}

// Usage returns the usage of each running attempt of the node, by namespace, task and attempt, with
// its history after since; a zero since means no history.
func (c *Client) Usage(ctx context.Context, since time.Time) ([]measured.Task, error) {
	var all []measured.Task
	return all, c.get(ctx, "/v1/usage"+sinceQuery(since), &all)
}

// UsageOf returns the usage of one attempt. NotFound: it does not run there.
func (c *Client) UsageOf(ctx context.Context, ns, id string, attempt int, since time.Time) (measured.Task, error) {
	var one measured.Task
	return one, c.get(ctx, request("usage", ns, id, attempt, nil)+sinceQuery(since), &one)
}

// NodeUsage returns the usage of the machine, and of all its attempts together. NotFound: the
// agent's version does not support it.
func (c *Client) NodeUsage(ctx context.Context, since time.Time) (measured.Node, error) {
	var n measured.Node
	return n, c.get(ctx, "/v1/usage/node"+sinceQuery(since), &n)
}

// Measured returns the usage of the node's attempts and of its machine; see Usage.
func (c *Client) Measured(ctx context.Context, since time.Time) (measured.Answer, error) {
	tasks, err := c.Usage(ctx, since)
	if err != nil {
		return measured.Answer{}, err
	}
	machine, err := c.NodeUsage(ctx, since)
	if types.Is(err, types.NotFound) {
		return measured.Answer{Tasks: tasks}, nil
	}
	return measured.Answer{Tasks: tasks, Machine: &machine}, err
}

func sinceQuery(since time.Time) string {
	if since.IsZero() {
		return ""
	}
	return "?since=" + url.QueryEscape(since.UTC().Format(time.RFC3339Nano))
}
