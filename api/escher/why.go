package escher

import (
	"context"
	"strings"
	"time"

	"github.com/escher-sched/escher/api/reasons"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/scheduler/explain"
	"github.com/escher-sched/escher/types/action"
)

// Why says why a task is in its state, above all why it waits: what the scheduler explains, with
// what the policies of its job say.
type Why struct{ reasons.Explained }

// String returns it in sentences, a line each.
func (w Why) String() string { return strings.Join(w.Sentences(false, action.Action.String), "\n") }

// Why explains the state of a task; id may be a unique prefix. NotFound: there is none. Precondition:
// the program is a task.
func (c *Client) Why(ctx context.Context, id string) (Why, error) {
	if c.jobs == nil {
		return Why{}, errInside("explain a task")
	}
	id, err := c.jobs.Resolve(ctx, id)
	if err != nil {
		return Why{}, err
	}
	return c.explain(ctx, why.KindTask, id)
}

// WhyJob is Why for a job, by its id in full.
func (c *Client) WhyJob(ctx context.Context, id string) (Why, error) {
	if c.jobs == nil {
		return Why{}, errInside("explain a job")
	}
	return c.explain(ctx, why.KindJob, id)
}

// explain explains an object outside of tasks.
func (c *Client) explain(ctx context.Context, kind why.Kind, id string) (Why, error) {
	store, now := c.jobs.Store(), clock()
	e, view, err := explain.Why(ctx, store, explain.Subject{Kind: kind, Namespace: c.namespace, ID: id}, now)
	if err != nil {
		return Why{}, err
	}
	w, err := reasons.Explain(ctx, c.jobs.Client, e, view, now, action.Action.String)
	if err == nil {
		w.Closed, err = reasons.ClosedText(ctx, c.jobs.Client, action.Action.String)
	}
	return Why{w}, err
}

// clock is the clock of programs.
func clock() time.Time { return time.Now() }
