package rest

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/accounting"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// note collects what a request did, for the log of requests.
type note struct {
	// changes reports whether the operation changes something, and enters whether it enters a container.
	changes, enters bool

	mu sync.Mutex // guards the fields below
	accounting.Request
	failed bool
}

// noteKey is the key of the note in the context of a request.
type noteKey struct{}

// noteOf returns the note of a request.
func noteOf(id access.Identity, row access.Row, ns string, r *http.Request) *note {
	does := func(v rights.Verb) bool {
		return slices.ContainsFunc(row.Needs, func(n rights.Need) bool { return n.Verb == v })
	}
	n := &note{changes: does(rights.Write) || len(row.Needs) == 0 && r.Method != http.MethodGet, enters: does(rights.Enter)}
	n.Request = accounting.Request{
		Subject: id.Subject, Token: id.Token, Operation: row.Operation, Namespace: ns, Object: cmp.Or(r.PathValue("id"), r.PathValue("name"), r.PathValue("node")),
	}
	return n
}

// noteCommit notes what a request has changed.
func noteCommit(ctx context.Context, txn controlplane.Txn, revision int64) {
	n, ok := ctx.Value(noteKey{}).(*note)
	if !ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, op := range txn.Ops {
		k, _ := controlplane.Parse(op.Key)
		switch {
		case k.Kind == controlplane.Specs: // tasks name it
		case n.Revision == 0 && n.More == 0:
			n.Object, n.Revision = strings.TrimPrefix(op.Key, controlplane.Root), revision
		default:
			n.More++
		}
	}
	n.Revision = revision
}

// noteObject notes the namespace and the object of a request whose path does not have them.
func noteObject(ctx context.Context, ns, object string) {
	n, ok := ctx.Value(noteKey{}).(*note)
	if !ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.Namespace, n.Object = ns, object
}

// noteFailure notes why a request failed.
func noteFailure(ctx context.Context, err error) {
	n, ok := ctx.Value(noteKey{}).(*note)
	if !ok {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.failed = true
	if types.Is(err, types.Denied) {
		n.Refused = err.Error()
	}
}
