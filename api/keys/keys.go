// Package keys reads stored objects for callers of the HTTP API, as far as each may see them.
package keys

import (
	"context"
	"strings"
	"time"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/controlplane"
)

const (
	// mostBytes is about the most bytes of values in one answer.
	mostBytes = 4 << 20
	// pageKeys is the most keys that are read at once.
	pageKeys = 2000
	// tellEvery is how often a watch tells its progress while others change what it does not show.
	tellEvery = 200 * time.Millisecond
)

// StoredKey is a stored object, encoded.
type StoredKey struct {
	Key      string `json:"key"`
	Value    []byte `json:"value,omitempty" doc:"the object, as escher.proto describes it"`
	Created  int64  `json:"created,omitempty" doc:"the revision that created it"`
	Modified int64  `json:"modified" doc:"the revision that changed it; 0 if there is no such object"`
	Deleted  bool   `json:"deleted,omitempty" doc:"in a watch: it was deleted"`
}

// StoredKeys are stored objects at a revision or, in a watch, the changes of one.
type StoredKeys struct {
	Revision int64       `json:"revision"`
	Items    []StoredKey `json:"items" nullable:"false"`
	More     bool        `json:"more,omitempty" doc:"there are more: read on after the last one, at this revision"`
}

// List reads keys of all ranges that the caller may read. Denied: there are none, or it may not read a key
// that is named.
func List(ctx context.Context, store controlplane.Store, may access.Keys, in controlplane.ListOptions) (StoredKeys, error) {
	out := StoredKeys{Items: []StoredKey{}}
	if len(in.Keys) > 0 {
		return named(ctx, store, may, in)
	}
	ranges, err := may.Ranges(in.Prefix)
	if err != nil {
		return out, err
	}
	out.Revision = in.Revision
	size := 0
	for _, prefix := range ranges {
		opts := controlplane.ListOptions{Prefix: prefix, Limit: in.Limit + 1, KeysOnly: in.KeysOnly}
		for more := prefix > in.After || strings.HasPrefix(in.After, prefix); more; {
			opts.Revision, opts.After = out.Revision, max(opts.After, in.After)
			page, err := store.List(ctx, opts)
			if err != nil {
				return out, err
			}
			out.Revision = page.Revision
			for _, kv := range page.KVs {
				if opts.After = kv.Key; may.May(kv.Key) != nil {
					continue
				}
				if out.More = len(out.Items) >= in.Limit || size > mostBytes; out.More {
					return out, nil
				}
				item := stored(may, kv)
				size += len(item.Value)
				out.Items = append(out.Items, item)
			}
			more = page.More
			opts.Limit = min(2*opts.Limit, pageKeys) // most of the keys may be hidden
		}
	}
	return out, nil
}

// named reads single keys.
func named(ctx context.Context, store controlplane.Store, may access.Keys, in controlplane.ListOptions) (StoredKeys, error) {
	for _, key := range in.Keys {
		if err := may.May(key); err != nil {
			return StoredKeys{}, err
		}
	}
	page, err := store.List(ctx, controlplane.ListOptions{Keys: in.Keys, Revision: in.Revision})
	out := StoredKeys{Revision: page.Revision, Items: []StoredKey{}}
	for _, kv := range page.KVs {
		out.Items = append(out.Items, stored(may, kv))
	}
	return out, err
}

// stored returns a key as the caller may see it.
func stored(may access.Keys, kv controlplane.KV) StoredKey {
	return StoredKey{Key: kv.Key, Value: may.Value(kv.Key, kv.Value), Created: kv.CreateRevision, Modified: kv.ModRevision}
}

// Watch sends the changes that the caller may see, and how far they are if there are others. It returns an
// error of send, and nil when ctx is done.
func Watch(ctx context.Context, store controlplane.Store, may access.Keys, in controlplane.WatchOptions, send func(StoredKeys) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	prefix := in.Prefix
	if ranges, err := may.Ranges(in.Prefix); err == nil && len(ranges) == 1 {
		prefix = ranges[0]
	}
	batches := store.Watch(ctx, controlplane.WatchOptions{Prefix: prefix, From: in.From})
	tell := time.NewTicker(tellEvery)
	defer tell.Stop()
	told, reached := in.From-1, in.From-1
	for {
		select {
		case batch, open := <-batches:
			if !open || batch.Err != nil {
				return batch.Err
			}
			c := StoredKeys{Revision: batch.Revision, Items: []StoredKey{}}
			for _, e := range batch.Events {
				if may.May(e.Key) == nil {
					item := stored(may, e.KV)
					item.Deleted = e.Delete
					c.Items = append(c.Items, item)
				}
			}
			reached = max(reached, batch.Revision)
			if len(c.Items) == 0 && len(batch.Events) > 0 {
				continue
			}
			told = reached
			if err := send(c); err != nil {
				return err
			}
		case <-tell.C:
			if reached > told {
				told = reached
				if err := send(StoredKeys{Revision: reached, Items: []StoredKey{}}); err != nil {
					return err
				}
			}
		}
	}
}
