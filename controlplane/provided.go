package controlplane

import (
	"context"
	"slices"

	"github.com/escher-sched/escher/types"
)

// RemoveProvided deletes what succeeded tasks left behind of a resource, on the named nodes or on
// every node. Tasks that succeed later leave it behind again. A large removal takes several
// transactions; an empty one is a success.
func (c *Client) RemoveProvided(ctx context.Context, name string, nodes ...string) error {
	if err := types.ValidateEphemeral("name", name); err != nil {
		return types.Errorf(types.Invalid, "remove provided resource: %w", err)
	}
	e := &unprovide{ns: c.ns, name: name, nodes: nodes}
	for e.more = true; e.more; {
		if _, err := perform(ctx, c.store, nil, e); err != nil {
			return err
		}
	}
	return nil
}

// unprovide is an edit that deletes provided keys, as many as fit.
type unprovide struct {
	ns, name string
	nodes    []string
	// more reports whether keys remain that the latest draft lacks.
	more bool
}

func (e *unprovide) verb() string { return "remove provided resource " + e.name }

func (e *unprovide) draw(ctx context.Context, s Store, change *Change) error {
	e.more = false
	left, _, err := ListAll(ctx, s, ListOptions{Prefix: Prefix(Provided, e.ns, e.name), KeysOnly: true})
	if err != nil {
		return err
	}
	for _, kv := range left {
		k, ok := Parse(kv.Key)
		if !ok || len(e.nodes) > 0 && !slices.Contains(e.nodes, k.Node) {
			continue
		}
		limits := s.Limits()
		if compares, ops := change.Size(); max(compares, ops)+1 > limits.Ops || change.bytes > limits.Bytes/4*3 {
			e.more = true
			break
		}
		change.IfUnchanged(kv.Key, kv.ModRevision)
		change.Delete(kv.Key)
	}
	return nil
}

func (e *unprovide) refused(context.Context, Store, []KV) error { return nil }
func (e *unprovide) once() bool                                 { return false }
func (e *unprovide) done(int64)                                 {}
