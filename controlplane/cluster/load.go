package cluster

import (
	"context"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/writers"
)

// ReadView reads ranges of keys, all at one revision.
func ReadView(ctx context.Context, store controlplane.Store, prefixes ...string) (*View, error) {
	view := New()
	var revision int64
	for _, prefix := range prefixes {
		kvs, at, err := controlplane.ListAll(ctx, store, controlplane.ListOptions{Prefix: prefix, Revision: revision})
		if err != nil {
			return nil, err
		}
		revision = at
		for _, kv := range kvs {
			_, _, _ = view.Apply(controlplane.Event{KV: kv}) // unreadable values count as absent
		}
	}
	view.Reached(revision)
	return view, nil
}

// WholeView reads everything except the specs, which are large.
func WholeView(ctx context.Context, store controlplane.Store) (*View, error) {
	var prefixes []string
	for _, a := range writers.Table() {
		if a.Kind != controlplane.Specs {
			prefixes = append(prefixes, controlplane.Prefix(a.Kind))
		}
	}
	return ReadView(ctx, store, prefixes...)
}
