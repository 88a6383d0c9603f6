package audittest

import (
	"context"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
)

// As returns the store as one author uses it: a transaction that is committed and
// writes a key which is another's fails the test.
func As(t testing.TB, store controlplane.Store, by audit.Author) controlplane.Store {
	return &authored{Store: store, t: t, by: by, check: audit.NewAuthored()}
}

type authored struct {
	controlplane.Store
	t     testing.TB
	by    audit.Author
	check *audit.Authored
}

// Commit commits, and checks what was.
func (s *authored) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	res, err := s.Store.Commit(ctx, txn)
	if err == nil && res.Committed {
		report(s.t, s.check.Check(s.by, txn, res.Revision))
	}
	return res, err
}
