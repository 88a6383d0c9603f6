package controlplane

import (
	"context"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// Forget deletes all keys of a node that is gone for good, its cordon included. If its agent
// returns, it is a new node. NotFound: there is no such node. Precondition: its agent is alive, or
// a task is bound there or a reservation holds capacity there. A scheduler releases such tasks once
// the node is lost.
func (c *Client) Forget(ctx context.Context, node string) error {
	_, err := perform(ctx, c.store, nil, &forget{node: node})
	return err
}

// forget is an edit that removes a node.
type forget struct{ node string }

func (e *forget) verb() string { return "remove node " + e.node }

func (e *forget) draw(ctx context.Context, s Store, change *Change) error {
	kv, err := Get(ctx, s, NodeKey(e.node))
	if err != nil {
		return err
	}
	if kv.ModRevision == 0 {
		return types.Errorf(types.NotFound, "there is no node %s: %s", e.node, action.ListNodes.Of())
	}
	change.IfUnchanged(kv.Key, kv.ModRevision)
	change.Delete(kv.Key)
	if kv, err = Get(ctx, s, AliveKey(e.node)); err != nil {
		return err
	}
	if kv.ModRevision != 0 {
		return types.Errorf(types.Precondition, "its agent is alive: end it first, and wait until the node is lost: %s", action.AwaitLost.Of())
	}
	change.IfUnchanged(kv.Key, 0)
	if err := e.unheld(ctx, s, change); err != nil {
		return err
	}
	for _, key := range []string{DevicesKey(e.node), CordonKey(e.node), AllocatedKey(e.node)} {
		if kv, err = Get(ctx, s, key); err != nil {
			return err
		}
		change.IfUnchanged(key, kv.ModRevision)
		if kv.ModRevision != 0 {
			change.Delete(key)
		}
	}
	return nil
}

// unheld makes the change depend on the node having no binding and no hold of a reservation. The
// allocated key lists all holds, and is compared.
func (e *forget) unheld(ctx context.Context, s Store, change *Change) error {
	page, err := s.List(ctx, ListOptions{Prefix: Prefix(Bindings, e.node), KeysOnly: true, Limit: candidates})
	if err != nil {
		return err
	}
	if len(page.KVs) > 0 {
		var tasks []string
		for _, kv := range page.KVs {
			if k, ok := Parse(kv.Key); ok {
				tasks = append(tasks, k.Namespace+"/"+k.ID)
			}
		}
		return types.Errorf(types.Precondition, "tasks are bound there, such as %s: a scheduler gives them a new attempt elsewhere once the node is lost: wait for that; a task with on-disconnect keep stays until its node is declared dead: %s", listing(tasks), action.DeclareDead.Of(e.node))
	}
	change.IfNoneSince(Prefix(Bindings, e.node), 0)
	kv, err := Get(ctx, s, AllocatedKey(e.node))
	if err != nil || kv.ModRevision == 0 {
		return err
	}
	var a types.Allocated
	if !Read(kv, &a) {
		return types.Errorf(types.Precondition, "its allocated key is unreadable: %s", action.RepairKey.Of(kv.Key))
	}
	if len(a.Holds) > 0 {
		return types.Errorf(types.Precondition, "reservations hold capacity there: delete them: %s", action.ListReservations.Of())
	}
	return nil
}

func (e *forget) refused(context.Context, Store, []KV) error { return nil }
func (e *forget) once() bool                                 { return false }
func (e *forget) done(int64)                                 {}
