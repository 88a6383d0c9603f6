package controlplane

import (
	"context"
	"fmt"
	"strings"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// IfNoResource makes the transaction depend on the absence of an ephemeral resource of that name,
// in the cluster and on nodes. Only keys that end with the given policy may exist. A policy calls
// it before it creates a resource, so that it takes over no other owner's resource. AlreadyExists:
// the error describes the resource.
func (t *Transaction) IfNoResource(name, policy string) *Transaction {
	return t.add(&noResource{c: t.c, name: name, policy: policy}, types.ValidateEphemeral("name", name))
}

// noResource is the condition of IfNoResource.
type noResource struct {
	c            *Client
	name, policy string
}

func (e *noResource) verb() string { return "check resource " + e.name }

func (e *noResource) prefix() string { return Prefix(Resources, e.c.ns, e.name) }

func (e *noResource) draw(ctx context.Context, s Store, change *Change) error {
	newest, err := e.own(ctx, s)
	if err != nil {
		return err
	}
	change.IfNoneSince(e.prefix(), newest)
	return nil
}

// own returns the revision of the last change of the policy's own keys, which remain when a policy
// of its id has just ended; 0 if there are none. AlreadyExists: a key has another owner.
func (e *noResource) own(ctx context.Context, s Store) (newest int64, err error) {
	kvs, _, err := ListAll(ctx, s, ListOptions{Prefix: e.prefix()})
	for _, kv := range kvs {
		var r types.Resource
		if types.Decode(kv.Value, &r) != nil || r.Lifetime != types.OfPolicy || r.Owner != e.policy {
			return 0, e.taken(kv, &r)
		}
		newest = max(newest, kv.ModRevision)
	}
	return newest, err
}

// taken returns the error that describes the existing resource and how to remove it.
func (e *noResource) taken(kv KV, r *types.Resource) error {
	at, _ := Parse(kv.Key)
	where, remove := "on node "+at.Where, action.SetOnNode.Of(e.name, "0", at.Where)
	switch at.Where {
	case types.ClusterWide:
		where, remove = "in the cluster", action.SetInCluster.Of(e.name, "0")
	case types.EveryNode:
		where, remove = "on every node", action.SetOnEveryNode.Of(e.name, "0")
	}
	whose := "which would change its owner"
	if r.Owner != "" {
		whose = fmt.Sprintf("of %s %s, %s", r.Lifetime, r.Owner, whose)
	}
	return types.Errorf(types.AlreadyExists, "there is a resource %s already (%s %s), %s: remove it: %s, or choose another id",
		e.name, r.Capacity.Format(types.ResourceID(e.name)), where, whose, remove)
}

func (e *noResource) refused(ctx context.Context, s Store, keys []KV) error {
	for _, kv := range keys {
		if strings.HasPrefix(kv.Key, e.prefix()) && kv.ModRevision != 0 {
			_, err := e.own(ctx, s)
			return err
		}
	}
	return nil
}

func (e *noResource) done(int64) {}

// once reports true: noResource writes nothing.
func (e *noResource) once() bool { return true }
