package library

import (
	"context"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// Decide compares documents with the cluster, and returns the changes to make and the view that it
// used. voice words what blocks a change. Invalid: the revision of the condition is in the future.
// Conflict: an object has changed since that revision.
func Decide(ctx context.Context, client *controlplane.Client, docs []manifest.Document, now time.Time, opts apply.Options, voice action.Renderer) (*apply.Decision, *cluster.View, error) {
	view, err := cluster.WholeView(ctx, client.Store())
	if err != nil {
		return nil, nil, err
	}
	if opts.If.Revision > view.Revision {
		return nil, nil, types.Errorf(types.Invalid, "if-revision: %d is in the future, as the cluster is at %d: give the revision that escher plan printed, or leave it out", opts.If.Revision, view.Revision)
	}
	specs := func(digest string) (*types.Spec, error) { return client.Spec(ctx, digest) }
	d, err := apply.Decide(view, client.Namespace(), specs, docs, now, opts)
	if err == nil {
		err = opts.If.Check(ctx, client.Store(), client.Namespace(), docs, view.Revision)
	}
	if err != nil {
		return nil, nil, err
	}
	if err := d.Expand(ctx, builtin.New(client)); err != nil {
		return nil, nil, err
	}
	for i := range d.Changes {
		d.Changes[i].Blocked = d.Changes[i].Blocked.In(voice)
	}
	return d, view, d.CheckSettings(ctx, client)
}
