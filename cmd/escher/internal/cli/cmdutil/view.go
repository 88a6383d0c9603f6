package cmdutil

import (
	"cmp"
	"context"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/writers"
)

// ReadView reads ranges of keys, all at one revision.
func ReadView(ctx context.Context, store controlplane.Store, prefixes ...string) (*cluster.View, error) {
	view := cluster.New()
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
func WholeView(ctx context.Context, store controlplane.Store) (*cluster.View, error) {
	var prefixes []string
	for _, a := range writers.Table() {
		if a.Kind != controlplane.Specs {
			prefixes = append(prefixes, controlplane.Prefix(a.Kind))
		}
	}
	return ReadView(ctx, store, prefixes...)
}

// SortBy sorts rows by a key of each.
func SortBy[T any, K cmp.Ordered](rows []T, key func(T) K) {
	slices.SortStableFunc(rows, func(a, b T) int { return cmp.Compare(key(a), key(b)) })
}
