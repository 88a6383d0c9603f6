package cmdutil

import (
	"context"
	"time"

	"github.com/escher-sched/escher/api/reasons"
	"github.com/escher-sched/escher/cmd/escher/internal/howto"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/scheduler/explain"
	"github.com/escher-sched/escher/types"
)

// visible is a store in which what its caller may not see is absent, once it has said its revision.
type visible struct{ controlplane.Store }

// List reads what the caller may see.
func (v visible) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	page, err := v.Store.List(ctx, opts)
	if opts.Revision != 0 && types.Is(err, types.Denied) {
		return controlplane.Page{Revision: opts.Revision}, nil
	}
	return page, err
}

// Explain explains the state of an object, and returns the view with what was read for it. By the HTTP API
// the server explains it, because it knows what other namespaces hold: the view lacks that.
func (f *Factory) Explain(ctx context.Context, client *controlplane.Client, of Named, now time.Time) (reasons.Explained, *cluster.View, error) {
	store := client.Store()
	if f.Served() {
		store = visible{store}
	}
	e, view, err := explain.Why(ctx, store, explain.Subject{Kind: kindsToExplain()[of.Kind], Namespace: client.Namespace(), ID: of.ID}, now)
	if err != nil {
		return reasons.Explained{}, view, err
	}
	if f.Served() {
		said, err := f.explained(ctx, of)
		return said, view, err
	}
	said, err := reasons.Explain(ctx, client, e, view, now, howto.Say)
	if err == nil && of.Kind != controlplane.Nodes {
		said.Closed, err = reasons.ClosedText(ctx, client, howto.Say)
	}
	return said, view, err
}

// kindsToExplain are the kinds of objects that can be explained.
func kindsToExplain() map[controlplane.Kind]why.Kind {
	return map[controlplane.Kind]why.Kind{
		controlplane.Tasks: why.KindTask, controlplane.Jobs: why.KindJob,
		controlplane.Reservations: why.KindReservation, controlplane.Nodes: why.KindNode,
	}
}

// explained returns the explanation of a server.
func (f *Factory) explained(ctx context.Context, of Named) (e reasons.Explained, err error) {
	c, err := f.API(ctx)
	if err != nil {
		return e, err
	}
	path := f.Path(string(of.Kind), of.ID)
	if of.Kind == controlplane.Nodes {
		path = NodePath(of.ID)
	}
	err = c.Get(ctx, path+"/why", nil, &e)
	e.At(time.Now())
	return e, err
}

// WhyWait says why tasks wait: see reasons.WhyWait.
func (f *Factory) WhyWait(ctx context.Context, client *controlplane.Client, now time.Time, tasks ...string) ([]reasons.Waiting, error) {
	if !f.Served() {
		return reasons.WhyWait(ctx, client, now, howto.Say, tasks...)
	}
	out := make([]reasons.Waiting, len(tasks))
	for i, id := range tasks {
		e, err := f.explained(ctx, Named{Kind: controlplane.Tasks, ID: id})
		if err != nil {
			return nil, err
		}
		out[i] = e.Waiting(howto.Say)
	}
	return out, nil
}
