package storetest

import (
	"context"
	"errors"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// setFull raises or clears the alarm of a full database. Other tests use the store later.
func (f *fixture) setFull(full bool) {
	f.Helper()
	if err := f.Store.(filler).SetFull(f.ctx, full); err != nil {
		f.Fatalf("set full: %v", err)
	}
}

// fill raises the alarm until the end of the test.
func (f *fixture) fill() {
	f.Helper()
	f.setFull(true)
	f.Cleanup(func() {
		if err := f.Store.(filler).SetFull(context.Background(), false); err != nil {
			f.Errorf("end the alarm: %v", err)
		}
	})
}

// expectFull fails the test unless err reports a full database.
func expectFull(f *fixture, action string, err error) {
	f.Helper()
	if !types.Is(err, types.Precondition) || !errors.Is(err, controlplane.ErrFull) {
		f.Errorf("%s: error %v, want one of class %v that is ErrFull", action, err, types.Precondition)
	}
}

func fullTests() []conformance {
	return []conformance{
		{"puts are refused, and nothing of their transaction is done", func(f *fixture) {
			r := f.commit(f.put("a", "1"), f.put("b", "1"))
			f.fill()
			_, err := f.Commit(f.ctx, controlplane.Txn{
				Compares: []controlplane.Compare{f.mod("a", r)}, Ops: []controlplane.Op{f.put("a", "2"), f.del("b")},
			})
			expectFull(f, "overwrite and delete", err)
			_, err = f.Commit(f.ctx, controlplane.Txn{
				Compares: []controlplane.Compare{f.created("c", 0)}, Ops: []controlplane.Op{f.put("c", "")},
			})
			expectFull(f, "create", err)
			expect(f, "left", f.names(f.list(controlplane.ListOptions{})), []string{"a", "b"})
			expect(f, "a", string(f.get("a").Value), "1")
		}},
		{"an unguarded put has an unknown outcome", func(f *fixture) {
			f.fill()
			_, err := f.Commit(f.ctx, controlplane.Txn{Ops: []controlplane.Op{f.put("a", "1")}})
			expectClass(f, "commit", err, types.Unknown)
			expect(f, "a", f.get("a"), nil)
		}},
		{"failed compares are still an answer", func(f *fixture) {
			r := f.commit(f.put("a", "1"))
			f.fill()
			res := f.try(controlplane.Txn{
				Compares: []controlplane.Compare{f.mod("a", r-1)}, Ops: []controlplane.Op{f.put("a", "2")},
			})
			expect(f, "committed", res.Committed, false)
			expect(f, "read", res.Read[0].ModRevision, r)
		}},
		{"deletions go on", func(f *fixture) {
			r := f.commit(f.put("a", "1"), f.put("b", "1"))
			f.fill()
			w := f.watch(r + 1)
			res := f.try(controlplane.Txn{Compares: []controlplane.Compare{f.mod("a", r)}, Ops: []controlplane.Op{f.del("a")}})
			expect(f, "committed", res.Committed, true)
			batch := w.events()
			expect(f, "revision", batch.Revision, res.Revision)
			expect(f, "left", f.names(f.list(controlplane.ListOptions{})), []string{"b"})
		}},
		{"no lease is granted, and leases are renewed and revoked", func(f *fixture) {
			renewed, ended := f.grant(), f.grant()
			f.commit(f.on(renewed, "renewed"), f.on(ended, "ended"))
			f.fill()
			_, err := f.GrantLease(f.ctx, time.Minute)
			expectFull(f, "grant", err)
			if _, err := f.RenewLease(f.ctx, renewed); err != nil {
				f.Errorf("renew: %v", err)
			}
			f.revoke(ended)
			expect(f, "left", f.names(f.list(controlplane.ListOptions{})), []string{"renewed"})
		}},
		{"it lasts until the alarm is ended", func(f *fixture) {
			r := f.commit(f.put("a", "1"))
			f.fill()
			f.commit(f.del("a"))
			_, err := f.Commit(f.ctx, controlplane.Txn{Compares: []controlplane.Compare{f.mod("b", 0)}, Ops: []controlplane.Op{f.put("b", "")}})
			expectFull(f, "put after the deletion", err)
			f.setFull(false)
			if got := f.commit(f.put("b", "")); got != r+2 {
				f.Errorf("revision %d, want %d: a refused transaction makes no revision", got, r+2)
			}
			f.grant()
		}},
	}
}
