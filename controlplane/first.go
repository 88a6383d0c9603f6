package controlplane

import (
	"context"
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

// refused returns a Conflict that names what came.
func (f *first) refused(_ context.Context, _ Store, found []KV) error {
	for _, kv := range found {
		if strings.HasPrefix(kv.Key, f.prefix()) && kv.ModRevision > f.since {
			return types.Errorf(types.Conflict, "%s came, or was changed, at revision %d, after %d: read again, decide again", kv.Key, kv.ModRevision, f.since)
		}
	}
	return nil
}

// once is true: it writes nothing.
func (f *first) once() bool { return true }

func (f *first) done(int64) {}
