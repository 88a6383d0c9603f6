package controlplane

import (
	"context"
	"slices"
	"strings"

	"github.com/escher-sched/escher/types"
)

// first is the condition that nothing has come under a name since a revision: no key
// of an id that was made of it.
type first struct {
	// kind is Tasks or Jobs.
	kind     Kind
	ns, name string
	since    int64
}

func (f *first) prefix() string { return join(f.kind, f.ns, idStem(f.name)) }

func (f *first) verb() string { return "launch " + f.name }

func (f *first) draw(_ context.Context, _ Store, change *Change) error {
	change.IfNoneSince(f.prefix(), f.since)
	return nil
}

// refused returns a Conflict that names what came. What begins alike because it was made
// of a longer name is not meant: where nothing else came, the condition is about what comes
// after that was seen.
func (f *first) refused(ctx context.Context, s Store, found []KV) error {
	if !slices.ContainsFunc(found, f.newer) {
		return nil
	}
	there, revision, err := ListAll(ctx, s, ListOptions{Prefix: f.prefix(), KeysOnly: true})
	if err != nil {
		return err
	}
	for _, kv := range there {
		if f.newer(kv) && madeOf(strings.TrimPrefix(kv.Key, f.prefix())) {
			return types.Errorf(types.Conflict, "%s came, or was changed, at revision %d, after %d: read again, decide again", kv.Key, kv.ModRevision, f.since)
		}
	}
	f.since = revision
	return nil
}

// newer reports whether a key begins so, and came or was changed since.
func (f *first) newer(kv KV) bool {
	return strings.HasPrefix(kv.Key, f.prefix()) && kv.ModRevision > f.since
}

// once is true: it writes nothing.
func (f *first) once() bool { return true }

func (f *first) done(int64) {}
