package audittest

import (
	"context"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
)

// As returns a store for one author. A committed transaction that writes a key of another author
// fails the test.
func As(t testing.TB, store controlplane.Store, by audit.Author) controlplane.Store {
	return &authored{Store: store, t: t, by: by, check: audit.NewAuthored()}
}

type authored struct {
	controlplane.Store
	t     testing.TB
	by    audit.Author
	check *audit.Authored
}

// Commit commits, and checks a committed transaction.
func (s *authored) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	res, err := s.Store.Commit(ctx, txn)
	if err == nil && res.Committed {
		report(s.t, s.check.Check(s.by, txn, res.Revision))
	}
	return res, err
}
