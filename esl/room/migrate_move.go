package room

import (
	"context"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// Move moves the tasks of a job that has Migrate onto one node, even if that is not better. It
// reserves the capacity for tasks on other nodes, and returns. Migrate does the rest, as with a
// move of its own: if the reservation is not granted within Within, nothing moves.
//
// Precondition: the job has no Migrate, all its tasks are there already, or it is being moved, or
// was a moment ago.
func Move(ctx context.Context, c *esl.Client, job, node string) error {
	fail := func(err error) error { return types.Errorf(types.ClassOf(err), "move job %s: %w", job, err) }
	r, err := roomOn(ctx, c, job, node)
	if err != nil {
		return fail(err)
	}
	prefix := esl.OwnName(job, kindMigrate, "") + "."
	const places = 4
	var taken []string
	for _, kind := range []controlplane.Kind{controlplane.Reservations, controlplane.Grants} {
		ids, err := c.IDs(ctx, kind, prefix, places)
		if err != nil {
			return fail(err)
		}
		if kind == controlplane.Reservations && len(ids) > 0 {
			return fail(types.Errorf(types.Precondition, "it is being moved: wait until that is over"))
		}
		taken = append(taken, ids...)
	}
	for _, slot := range migrateTo() {
		if id := prefix + slot; !slices.Contains(taken, id) {
			return c.Reserve(ctx, id, r)
		}
	}
	return fail(types.Errorf(types.Precondition, "some of it are still about to leave its former place: try again"))
}

// roomOn returns the reservation on a node that lets all tasks of a job be there.
func roomOn(ctx context.Context, c *esl.Client, job, node string) (types.Reservation, error) {
	var r types.Reservation
	if err := c.FindKind(ctx, controlplane.Nodes, node); err != nil {
		return r, err
	}
	if err := c.FindKind(ctx, controlplane.Jobs, job); err != nil {
		return r, err
	}
	moves := true
	_, err := c.EachTask(ctx, func(t controlplane.TaskState) error {
		if t.Task.Job != job || t.Phase().Ended() {
			return nil
		}
		asked := askedAnywhere(t.Task.Alternatives, esl.OwnName(job, kindMigrate, migrateAnywhere))
		moves = moves && len(asked) > 0
		if !t.Phase().Held() || t.Status.Node != node {
			r.Bundles = append(r.Bundles, types.Bundle{Requests: asked, Node: node})
		}
		r.Priority, r.Session, r.Job = t.Task.Priority, t.Task.Session, job
		return nil
	})
	switch {
	case err != nil:
		return r, err
	case !moves:
		return r, types.Errorf(types.Precondition, "it has not the policy migrate: submit it with that")
	case len(r.Bundles) == 0:
		return r, types.Errorf(types.Precondition, "none of its tasks is elsewhere than on %s: there is nothing to move", node)
	}
	return r, nil
}
