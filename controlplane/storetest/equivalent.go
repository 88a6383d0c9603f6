package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Equivalent performs the same random steps on two stores and checks that they answer the same,
// history included. It compares revisions relative to those at the start. No other writer may use
// the stores.
func Equivalent(t *testing.T, one, other controlplane.Store) {
	round := 0
	rapid.Check(t, func(r *rapid.T) {
		round++
		prefix := fmt.Sprintf("/%s/%d/", t.Name(), round)
		a, b := newSubject(r, one, prefix), newSubject(r, other, prefix)
		defer a.end()
		defer b.end()
		script := &script{rapid: r}
		for range rapid.IntRange(1, 30).Draw(r, "steps") {
			step := script.next()
			if got, want := b.do(step), a.do(step); got != want {
				r.Fatalf("%v:\n  one says   %s\n  other says %s", step, want, got)
			}
			script.newest = a.newest - a.base
		}
		if got, want := b.history(), a.history(); got != want {
			r.Fatalf("history:\n  one says   %s\n  other says %s", want, got)
		}
	})
}

// step is one step, in terms that mean the same for every store.
type step struct {
	do       string
	compares []controlplane.Compare
	ops      []controlplane.Op
	list     controlplane.ListOptions
	lease    int
	revision int64
}

// script invents steps.
type script struct {
	rapid  *rapid.T
	newest int64
	leases int
}

func (s *script) int(name string, low, high int) int {
	return rapid.IntRange(low, high).Draw(s.rapid, name)
}

// key draws from few keys, so that they collide.
func (s *script) key() string { return string(rune('a' + s.int("key", 0, 5))) }

func (s *script) revision() int64 { return int64(s.int("revision", -1, int(s.newest)+1)) }

// value draws from few values, one of them empty.
func (s *script) value() []byte {
	if n := s.int("value", -1, 9); n >= 0 {
		return fmt.Append(nil, n)
	}
	return nil
}

func (s *script) next() step {
	switch kind := s.int("kind", 0, 11); kind {
	case 0:
		s.leases++
		return step{do: "grant"}
	case 1:
		return step{do: "revoke", lease: s.int("lease", 0, s.leases)}
	case 2:
		return step{do: "compact", revision: s.revision()}
	case 3, 4, 5:
		return step{do: "list", list: s.list()}
	default:
		return s.commit()
	}
}

func (s *script) list() controlplane.ListOptions {
	opts := controlplane.ListOptions{Limit: s.int("limit", 0, 4), KeysOnly: s.int("keys only", 0, 3) == 0}
	if s.int("pinned", 0, 1) == 1 {
		opts.Revision = s.revision()
	}
	switch s.int("range", 0, 4) {
	case 0:
		opts.Key = s.key()
	case 1:
		opts.After = s.key()
	case 2:
		return controlplane.ListOptions{Keys: []string{s.key(), s.key()}, Revision: opts.Revision}
	}
	return opts
}

func (s *script) commit() step {
	c := step{do: "commit"}
	for range s.int("compares", 0, 2) {
		x := controlplane.Compare{
			Key: s.key(), Target: controlplane.Target(s.int("target", 0, 3)), Revision: s.revision(),
		}
		if x.Target == controlplane.Value {
			x.Content = string(s.value())
		}
		if x.Target == controlplane.Newest && s.int("all", 0, 1) == 1 {
			x.Key = "" // with the prefix it means all keys
		}
		c.compares = append(c.compares, x)
	}
	for range s.int("ops", 0, 3) {
		op := controlplane.Op{Key: s.key(), Delete: s.int("delete", 0, 2) == 0}
		if !op.Delete {
			op.Value = s.value()
			op.Lease = controlplane.LeaseID(s.int("on lease", 0, s.leases))
		}
		c.ops = append(c.ops, op)
	}
	return c
}

// subject is a store in the terms of a script. Its keys have no prefix, its revisions begin at 0,
// and its leases are numbered from 1; 0 means no lease.
type subject struct {
	store  controlplane.Store
	prefix string
	base   int64
	newest int64
	leases []controlplane.LeaseID
	// watch follows all keys; cancel ends it.
	watch  <-chan controlplane.Batch
	cancel context.CancelFunc
}

func newSubject(r *rapid.T, store controlplane.Store, prefix string) *subject {
	s := &subject{store: store, prefix: prefix, leases: []controlplane.LeaseID{0}}
	write := func() int64 {
		result, err := store.Commit(context.Background(), controlplane.Txn{Ops: []controlplane.Op{{Key: prefix}}})
		if err != nil {
			r.Fatalf("commit: %v", err)
		}
		return result.Revision
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.watch, s.cancel = store.Watch(ctx, controlplane.WatchOptions{Prefix: prefix, From: write() + 1}), cancel
	s.base = write()
	s.newest = s.base
	// Later revisions may be compacted, but only once the watch exists.
	for batch := range s.watch {
		if len(batch.Events) > 0 {
			return s
		}
	}
	r.Fatal("the watch ended")
	return nil
}

// end ends the watch.
func (s *subject) end() {
	s.cancel()
	for range s.watch {
		continue
	}
}

// do performs a step and describes the answer.
func (s *subject) do(step step) string {
	ctx := context.Background()
	switch step.do {
	case "grant":
		id, err := s.store.GrantLease(ctx, time.Hour)
		s.leases = append(s.leases, id)
		return outcome("granted", err)
	case "revoke":
		if step.lease == 0 {
			return ""
		}
		return outcome("revoked", s.store.RevokeLease(ctx, s.leases[step.lease]))
	case "compact":
		return outcome("compacted", s.store.(compacter).Compact(ctx, s.absolute(step.revision)))
	case "list":
		return s.list(ctx, step.list)
	default:
		return s.commit(ctx, step)
	}
}

// absolute translates a revision of the script; -1 means none.
func (s *subject) absolute(revision int64) int64 {
	if revision < 0 {
		return 0
	}
	return s.base + revision
}

func (s *subject) list(ctx context.Context, opts controlplane.ListOptions) string {
	opts.Revision = s.absolute(opts.Revision)
	if opts.After != "" {
		opts.After = s.prefix + opts.After
	}
	opts.Keys = slices.Clone(opts.Keys)
	for i := range opts.Keys {
		opts.Keys[i] = s.prefix + opts.Keys[i]
	}
	if opts.Key != "" {
		opts.Key = s.prefix + opts.Key
	} else if len(opts.Keys) == 0 {
		opts.Prefix = s.prefix
	}
	page, err := s.store.List(ctx, opts)
	if err != nil {
		return outcome("", err)
	}
	return fmt.Sprint(page.Revision-s.base, page.More, s.kvs(page.KVs))
}

func (s *subject) kvs(kvs []controlplane.KV) string {
	var text strings.Builder
	for _, kv := range kvs {
		if kv.CreateRevision != 0 {
			kv.CreateRevision -= s.base
		}
		if kv.ModRevision != 0 {
			kv.ModRevision -= s.base
		}
		fmt.Fprintf(&text, " %s=%s created %d changed %d on %d", strings.TrimPrefix(kv.Key, s.prefix), kv.Value,
			kv.CreateRevision, kv.ModRevision, slices.Index(s.leases, kv.Lease))
	}
	return text.String()
}

func (s *subject) commit(ctx context.Context, step step) string {
	var txn controlplane.Txn
	for _, c := range step.compares {
		c.Key, c.Revision = s.prefix+c.Key, s.absolute(c.Revision)
		txn.Compares = append(txn.Compares, c)
	}
	for _, op := range step.ops {
		op.Key, op.Lease = s.prefix+op.Key, s.leases[op.Lease]
		txn.Ops = append(txn.Ops, op)
	}
	result, err := s.store.Commit(ctx, txn)
	if err != nil {
		return outcome("", err)
	}
	s.newest = result.Revision
	return fmt.Sprint(result.Committed, result.Revision-s.base, s.kvs(result.Read))
}

// history describes all deliveries of the watch.
func (s *subject) history() string {
	result, err := s.store.Commit(context.Background(), controlplane.Txn{Ops: []controlplane.Op{{Key: s.prefix + "end"}}})
	if err != nil {
		return outcome("", err)
	}
	var text strings.Builder
	for batch := range s.watch {
		if batch.Err != nil {
			return outcome("", batch.Err)
		}
		if len(batch.Events) == 0 {
			continue
		}
		fmt.Fprintf(&text, "\n    %d:", batch.Revision-s.base)
		for _, e := range batch.Events {
			fmt.Fprint(&text, s.kvs([]controlplane.KV{e.KV}), e.Delete)
		}
		if batch.Revision >= result.Revision {
			break
		}
	}
	return text.String()
}

// outcome describes a result, an error by its class.
func outcome(success string, err error) string {
	if err != nil {
		return types.ClassOf(err).String()
	}
	return success
}
