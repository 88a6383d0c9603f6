// Package relabel changes the labels of nodes for administrators.
package relabel

import (
	"context"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// Change is a change of the labels of a node: see Apply.
type Change struct {
	Add    []types.Label
	Remove []string
	// Overwrite allows to change the value of a label.
	Overwrite bool
}

// maxDrafts bounds the drafts: each one more lost to another writer of the node.
const maxDrafts = 100

// Node changes the labels of a node, and returns those from before. Schedulers then see the new set of
// labels at once, and the next registration by the node's agent keeps it. NotFound: there is no such
// node. The other errors are those of Apply.
func Node(ctx context.Context, store controlplane.Store, name string, c Change) (was []types.Label, changed bool, err error) {
	retry := controlplane.RetryPolicy()
	for range maxDrafts {
		node, done, err := try(ctx, store, name, c)
		if done || err != nil {
			return node.before, node.changed, failed(name, err)
		}
		if err := supervise.Pause(ctx, retry.NextBackOff()); err != nil {
			return nil, false, failed(name, types.Errorf(types.Unavailable, "other writers keep changing the node: %w", err))
		}
	}
	return nil, false, failed(name, types.Errorf(types.Conflict, "other writers changed the node %d times in a row: try again later", maxDrafts))
}

// failed adds the action to an error; nil for nil.
func failed(name string, err error) error {
	if err == nil {
		return nil
	}
	return types.Errorf(types.ClassOf(err), "label node %s: %w", name, err)
}

// relabelled is a node with new labels.
type relabelled struct {
	types.Node
	before  []types.Label
	changed bool
}

// try makes one attempt. done is false if another writer changed the node meanwhile.
func try(ctx context.Context, store controlplane.Store, name string, c Change) (node relabelled, done bool, err error) {
	kv, err := controlplane.Get(ctx, store, controlplane.NodeKey(name))
	if err != nil {
		return node, false, err
	}
	if kv.ModRevision == 0 {
		return node, false, types.Errorf(types.NotFound, "there is no such node: %s", action.ListNodes.Of())
	}
	if !controlplane.Read(kv, &node.Node) {
		return node, false, controlplane.Unreadable(kv.Key)
	}
	node.before = node.Labels
	if node.changed, err = Apply(&node.Node, c); err != nil || !node.changed {
		return node, true, err
	}
	change := controlplane.NewChange(controlplane.NewBatch())
	change.IfUnchanged(kv.Key, kv.ModRevision)
	change.Put(kv.Key, &node.Node)
	res, err := controlplane.Commit(ctx, store, change.Txn())
	return node, res.Committed, err
}
