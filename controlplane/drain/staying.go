package drain

import (
	"context"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Staying is what does not leave a node by itself.
type Staying struct {
	// Tied are the tasks that can run nowhere else, and wait until the node takes tasks again.
	Tied []Tied `json:"tied,omitempty"`
	// Granted are the reservations, as namespace/id, that keep what they were granted on the node.
	Granted []string `json:"granted,omitempty"`
}

// Tied is a task that can run on one node alone.
type Tied struct {
	// Task is namespace/id.
	Task string `json:"task"`
	Why  string `json:"why"`
}

// String returns the task with the reason.
func (t Tied) String() string { return t.Task + " (" + t.Why + ")" }

// WhatStays returns what does not leave a node by a drain. Tasks that are stopped are not tied.
func WhatStays(ctx context.Context, store controlplane.Store, node string, mode types.DrainMode) (out Staying, err error) {
	if mode != types.DrainStop {
		if out.Tied, err = tiedTo(ctx, store, node); err != nil {
			return out, err
		}
	}
	kvs, _, err := controlplane.ListAll(ctx, store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Grants)})
	for _, kv := range kvs {
		k, ok := controlplane.Parse(kv.Key)
		var g types.Grant
		if ok && controlplane.Read(kv, &g) && slices.ContainsFunc(g.Nodes, func(n types.GrantNode) bool { return n.Node == node }) {
			out.Granted = append(out.Granted, k.Namespace+"/"+k.ID)
		}
	}
	return out, err
}

// tiedTo returns the tasks bound to a node whose requests allow no other node, with the reason.
func tiedTo(ctx context.Context, store controlplane.Store, node string) ([]Tied, error) {
	kvs, _, err := controlplane.ListAll(ctx, store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Bindings, node)})
	if err != nil {
		return nil, err
	}
	var tied []Tied
	only := make(map[types.ResourceID]bool)
	for _, kv := range kvs {
		k, ok := controlplane.Parse(kv.Key)
		var b types.Binding
		if !controlplane.Read(kv, &b) {
			continue
		}
		page, err := store.List(ctx, controlplane.ListOptions{Key: controlplane.TaskKey(k.Namespace, k.ID)})
		if err != nil {
			return nil, err
		}
		if !ok || len(page.KVs) == 0 {
			continue
		}
		var t types.Task
		if !controlplane.Read(page.KVs[0], &t) {
			continue
		}
		reason, err := tie(ctx, store, node, &t, &b, only)
		if err != nil {
			return nil, err
		}
		if reason != "" {
			tied = append(tied, Tied{k.Namespace + "/" + k.ID, reason})
		}
	}
	return tied, nil
}

// tie says what ties a task to a node, empty if nothing known does. only caches which resources are
// on this node alone.
func tie(ctx context.Context, store controlplane.Store, node string, t *types.Task, b *types.Binding, only map[types.ResourceID]bool) (string, error) {
	if len(t.Alternatives) > 0 {
		return "", nil // another alternative may fit elsewhere
	}
	if t.Requests.Get("node/"+node) > 0 {
		return "it names the node", nil
	}
	for _, h := range b.Holds {
		_, name, reservation := h.Resource.Split()
		switch {
		case reservation != "":
			here, err := onlyGranted(ctx, store, h.Resource, node)
			if err != nil {
				return "", err
			}
			if here {
				return "it draws on reservation " + reservation, nil
			}
		case h.Resource.Physical() || h.Cluster:
		default:
			here, known := only[h.Resource]
			if !known {
				var err error
				if here, err = onlyThere(ctx, store, h.Resource, node); err != nil {
					return "", err
				}
				only[h.Resource] = here
			}
			if here {
				return name + " is there alone", nil
			}
		}
	}
	return "", nil
}

// onlyGranted reports whether the reservation of a scoped resource has been granted on
// this node alone.
func onlyGranted(ctx context.Context, store controlplane.Store, rid types.ResourceID, node string) (bool, error) {
	ns, _, reservation := rid.Split()
	page, err := store.List(ctx, controlplane.ListOptions{Key: controlplane.GrantKey(ns, reservation)})
	if err != nil || len(page.KVs) == 0 {
		return false, err
	}
	var g types.Grant
	return controlplane.Read(page.KVs[0], &g) && !slices.ContainsFunc(g.Nodes, func(n types.GrantNode) bool { return n.Node != node }), nil
}

// onlyThere reports whether an ephemeral resource was created on this node alone.
func onlyThere(ctx context.Context, store controlplane.Store, rid types.ResourceID, node string) (bool, error) {
	ns, name, _ := rid.Split()
	kvs, _, err := controlplane.ListAll(ctx, store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Resources, ns, name), KeysOnly: true})
	if err != nil || len(kvs) == 0 {
		return false, err // tasks provide it
	}
	return !slices.ContainsFunc(kvs, func(kv controlplane.KV) bool {
		k, ok := controlplane.Parse(kv.Key)
		return ok && k.Where != node
	}), nil
}
