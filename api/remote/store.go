// Package remote reaches a cluster by the HTTP API of a server: its stored objects as a store that can
// only be read, and its nodes as if they were dialed.
package remote

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

const (
	// keysAtOnce is how many keys one request names: they must fit into its head.
	keysAtOnce = 50
	// maxOps and maxBytes are the limits of a transaction of the store of a server.
	maxOps, maxBytes = 4096, 8 << 20
)

// Store is the stored objects that a namespace sees. Changes are refused: operations make them.
type Store struct {
	c    *client.Client
	path string
	// keys are those that the namespace may see with all rights: servers record requests for others.
	keys access.Keys
}

// NewStore returns the store of a namespace.
func NewStore(c *client.Client, ns string) *Store {
	return &Store{c, "/v1/namespaces/" + url.PathEscape(ns) + "/keys", access.KeysOf(access.From(context.Background()), ns)}
}

// stored is an object in an answer: see rest.StoredKey.
type stored struct {
	Key               string
	Value             []byte
	Created, Modified int64
	Deleted           bool
}

func (s *stored) kv() controlplane.KV {
	return controlplane.KV{Key: s.Key, Value: s.Value, CreateRevision: s.Created, ModRevision: s.Modified}
}

// page is an answer: see rest.StoredKeys.
type page struct {
	Revision int64
	Items    []stored
	More     bool
}

// List reads keys. Denied: no right gives them.
func (s *Store) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	switch {
	case opts.Key != "":
		found, err := s.named(ctx, []string{opts.Key}, opts.Revision)
		found.KVs = slices.DeleteFunc(found.KVs, func(kv controlplane.KV) bool { return kv.ModRevision == 0 })
		return found, err
	case len(opts.Keys) > 0:
		return s.named(ctx, opts.Keys, opts.Revision)
	}
	if _, err := s.keys.Ranges(opts.Prefix); err != nil {
		return controlplane.Page{Revision: opts.Revision}, err
	}
	query := url.Values{"prefix": {opts.Prefix}, "keysOnly": {strconv.FormatBool(opts.KeysOnly)}}
	out := controlplane.Page{Revision: opts.Revision}
	for {
		if opts.After != "" {
			query.Set("after", opts.After)
		}
		if out.Revision != 0 {
			query.Set("revision", strconv.FormatInt(out.Revision, 10))
		}
		if opts.Limit > 0 {
			query.Set("limit", strconv.Itoa(min(opts.Limit-len(out.KVs), 10_000)))
		}
		var p page
		if err := s.c.Get(ctx, s.path, query, &p); err != nil {
			return out, err
		}
		out.Revision, out.More = p.Revision, p.More
		for i := range p.Items {
			out.KVs = append(out.KVs, p.Items[i].kv())
			opts.After = p.Items[i].Key
		}
		if !p.More || len(p.Items) == 0 || opts.Limit > 0 && len(out.KVs) >= opts.Limit {
			return out, nil
		}
	}
}

// named reads single keys, all at one revision.
func (s *Store) named(ctx context.Context, keys []string, revision int64) (controlplane.Page, error) {
	out := controlplane.Page{Revision: revision}
	for _, key := range keys {
		if err := s.keys.May(key); err != nil {
			return out, err
		}
	}
	for some := range slices.Chunk(keys, keysAtOnce) {
		query := url.Values{"key": some}
		if out.Revision != 0 {
			query.Set("revision", strconv.FormatInt(out.Revision, 10))
		}
		var p page
		if err := s.c.Get(ctx, s.path, query, &p); err != nil {
			return out, err
		}
		out.Revision = p.Revision
		for i := range p.Items {
			out.KVs = append(out.KVs, p.Items[i].kv())
		}
	}
	return out, nil
}

// Watch follows the changes of keys.
func (s *Store) Watch(ctx context.Context, opts controlplane.WatchOptions) <-chan controlplane.Batch {
	out := make(chan controlplane.Batch)
	go func() {
		defer close(out)
		err := s.watch(ctx, opts, func(b controlplane.Batch) {
			select {
			case out <- b:
			case <-ctx.Done():
			}
		})
		if ctx.Err() != nil {
			return
		}
		select {
		case out <- controlplane.Batch{Err: err}:
		case <-ctx.Done():
		}
	}()
	return out
}

// watch calls each with changes, until the watch is lost.
func (s *Store) watch(ctx context.Context, opts controlplane.WatchOptions, each func(controlplane.Batch)) error {
	query := url.Values{"prefix": {opts.Prefix}, "after": {strconv.FormatInt(max(opts.From-1, 0), 10)}}
	err := s.c.Follow(ctx, http.MethodGet, s.path+"/watch?"+query.Encode(), "", nil, func(e client.Event) error {
		var p page
		if err := json.Unmarshal(e.Data, &p); err != nil {
			return types.Errorf(types.Internal, "watch %s: %w", opts.Prefix, err)
		}
		b := controlplane.Batch{Revision: p.Revision}
		for i := range p.Items {
			b.Events = append(b.Events, controlplane.Event{KV: p.Items[i].kv(), Delete: p.Items[i].Deleted})
		}
		each(b)
		return nil
	})
	if err == nil {
		err = types.Errorf(types.Unavailable, "watch %s: the server ended it", opts.Prefix)
	}
	return err
}

// refused is the error of a change that no operation makes.
func refused() error {
	return types.Errorf(types.Precondition, "change the cluster: this is not possible by the HTTP API yet: give --endpoints, as an administrator")
}

// Commit refuses.
func (*Store) Commit(context.Context, controlplane.Txn) (controlplane.Result, error) {
	return controlplane.Result{}, refused()
}

// GrantLease refuses.
func (*Store) GrantLease(context.Context, time.Duration) (controlplane.LeaseID, error) {
	return 0, refused()
}

// RenewLease refuses.
func (*Store) RenewLease(context.Context, controlplane.LeaseID) (time.Duration, error) {
	return 0, refused()
}

// RevokeLease refuses.
func (*Store) RevokeLease(context.Context, controlplane.LeaseID) error { return refused() }

// Limits returns the limits of a server.
func (*Store) Limits() controlplane.Limits { return controlplane.Limits{Ops: maxOps, Bytes: maxBytes} }
