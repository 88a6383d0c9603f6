package controlplane

import (
	"context"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// Cordon keeps new tasks off a node. With want.Drain it also drains the node: a server makes the
// tasks there leave. It reports whether anything changed. A cordoned node keeps its reason unless
// want gives another, and its drain unless want begins another. NotFound: there is no such node.
func (c *Client) Cordon(ctx context.Context, node string, want types.Cordon) (changed bool, err error) {
	if err := validCordon(&want); err != nil {
		return false, err
	}
	want.Dead = false // only DeclareDead sets it
	e := &cordon{node: node, want: want}
	_, err = perform(ctx, c.store, nil, e)
	return e.changed, err
}

// DeclareDead cordons a node for good, on the caller's word that nothing runs on the machine any
// more. A scheduler then gives up the tasks bound there, kept ones included. If the machine does
// come back, its agent ends everything before the node is alive again. NotFound: there is no such
// node. Precondition: its agent is alive.
//
// If a task still runs there, cut off from etcd, it runs twice from then on: nothing but the
// caller's word prevents that.
func (c *Client) DeclareDead(ctx context.Context, node, reason string) error {
	_, err := perform(ctx, c.store, nil, &cordon{node: node, want: types.Cordon{Reason: reason, Dead: true}})
	return err
}

// Uncordon lets schedulers bind tasks to a node again, and ends its drain: tasks already told to
// leave still leave, and no others. It reports whether the node was cordoned. NotFound: there is no
// such node.
func (c *Client) Uncordon(ctx context.Context, node string) (changed bool, err error) {
	e := &cordon{node: node, off: true}
	_, err = perform(ctx, c.store, nil, e)
	return e.changed, err
}

// validCordon checks a requested cordon.
func validCordon(c *types.Cordon) error {
	switch c.Drain {
	case types.DrainNone, types.DrainFinish, types.DrainMove, types.DrainStop:
	default:
		return types.Errorf(types.Invalid, "mode: %q is unknown: use finish, move or stop", c.Drain)
	}
	switch {
	case c.DrainBy < 0:
		return types.Errorf(types.Invalid, "deadline: it is before 1970: give a later one")
	case c.DrainBy != 0 && c.Drain != types.DrainFinish:
		return types.Errorf(types.Invalid, "deadline: applies to mode finish only: leave it out, because the other modes do not wait")
	case c.Grace != 0 && c.Drain == types.DrainNone:
		return types.Errorf(types.Invalid, "grace: applies to a drain only: give a mode, or leave it out")
	}
	return StopOptions{Grace: c.Grace}.validate()
}

// cordon is an edit that cordons a node or, with off, uncordons it.
type cordon struct {
	node    string
	want    types.Cordon
	off     bool
	changed bool
}

func (e *cordon) verb() string {
	switch {
	case e.off:
		return "uncordon node " + e.node
	case e.want.Dead:
		return "declare node " + e.node + " dead"
	}
	return "cordon node " + e.node
}

func (e *cordon) draw(ctx context.Context, s Store, change *Change) error {
	e.changed = false
	node, err := Get(ctx, s, NodeKey(e.node))
	if err != nil {
		return err
	}
	if node.ModRevision == 0 {
		return types.Errorf(types.NotFound, "there is no node %s: %s", e.node, action.ListNodes.Of())
	}
	// CreateRevision, not ModRevision: the agent may update the node meanwhile, but not replace it.
	change.IfCreated(node.Key, node.CreateRevision)
	if e.want.Dead {
		alive, err := Get(ctx, s, AliveKey(e.node))
		if err != nil {
			return err
		}
		if alive.ModRevision != 0 {
			return types.Errorf(types.Precondition, "its agent is alive, so the machine is not dead: drain it, or end its agent first, and wait until the node is lost: %s", action.AwaitLost.Of())
		}
		change.IfUnchanged(alive.Key, 0)
	}
	kv, err := Get(ctx, s, CordonKey(e.node))
	if err != nil {
		return err
	}
	change.IfUnchanged(kv.Key, kv.ModRevision)
	if e.off {
		if e.changed = kv.ModRevision != 0; e.changed {
			change.Delete(kv.Key)
		}
		return nil
	}
	var is types.Cordon
	if kv.ModRevision != 0 && !Read(kv, &is) {
		is = types.Cordon{}
	}
	next := is
	if e.want.Reason != "" {
		next.Reason = e.want.Reason
	}
	if e.want.Drain != types.DrainNone {
		next.Drain, next.DrainBy, next.Grace = e.want.Drain, e.want.DrainBy, e.want.Grace
	}
	next.Dead = is.Dead || e.want.Dead
	e.changed = kv.ModRevision == 0 || next.Dead != is.Dead || next.Reason != is.Reason || next.Drain != is.Drain || next.DrainBy != is.DrainBy || next.Grace != is.Grace
	if e.changed {
		change.Put(kv.Key, &next)
	}
	return next.Validate()
}

func (e *cordon) refused(context.Context, Store, []KV) error { return nil }
func (e *cordon) once() bool                                 { return false }
func (e *cordon) done(int64)                                 {}
