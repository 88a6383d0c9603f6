package controlplane

import (
	"context"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/ids"
	"github.com/escher-sched/escher/types"
)

// first is the condition that no task or job was created under a name since a revision: no key
// whose id was made of that name.
type first struct {
	// kind is Tasks or Jobs.
	kind     Kind
	ns, name string
	since    int64
}

func (f *first) prefix() string { return join(f.kind, f.ns, ids.Stem(f.name)) }

func (f *first) verb() string { return "launch " + f.name }

func (f *first) draw(_ context.Context, _ Store, change *Change) error {
	change.IfNoneSince(f.prefix(), f.since)
	return nil
}

// refused returns a Conflict that names the new key. Ids made of a longer name share the prefix and
// do not count: if only those are new, the condition moves on to the revision of this check.
func (f *first) refused(ctx context.Context, s Store, found []KV) error {
	if !slices.ContainsFunc(found, f.newer) {
		return nil
	}
	there, revision, err := ListAll(ctx, s, ListOptions{Prefix: f.prefix(), KeysOnly: true})
	if err != nil {
		return err
	}
	for _, kv := range there {
		if f.newer(kv) && ids.IsTail(strings.TrimPrefix(kv.Key, f.prefix())) {
			return types.Errorf(types.Conflict, "%s was created or changed at revision %d, after %d: read again, decide again", kv.Key, kv.ModRevision, f.since)
		}
	}
	f.since = revision
	return nil
}

// newer reports whether a key has the prefix and was created or changed after since.
func (f *first) newer(kv KV) bool {
	return strings.HasPrefix(kv.Key, f.prefix()) && kv.ModRevision > f.since
}

// once reports true: first writes nothing.
func (f *first) once() bool { return true }

func (f *first) done(int64) {}
