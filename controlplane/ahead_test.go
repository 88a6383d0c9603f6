package controlplane_test

import (
	"context"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// tight is a store with a small limit of operations. It ends the call after a number of commits,
// unless that is 0, like a killed process.
type tight struct {
	controlplane.Store
	commits, most int
	end           context.CancelFunc
}

func (s *tight) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	if s.commits++; s.most != 0 && s.commits > s.most {
		s.end()
	}
	if err := ctx.Err(); err != nil {
		return controlplane.Result{}, types.Errorf(types.Unavailable, "%w", err)
	}
	return s.Store.Commit(ctx, txn)
}

func tightWorld(t *testing.T, ops int) (*controlplane.Client, *tight) {
	t.Helper()
	s := &tight{Store: memstore.New(memstore.WithLimits(controlplane.Limits{Ops: ops, Bytes: 1 << 20}))}
	c, err := controlplane.New(s, "team")
	if err != nil {
		t.Fatal(err)
	}
	return c, s
}

func keysOf(t *testing.T, s controlplane.Store, kind controlplane.Kind) []controlplane.KV {
	t.Helper()
	kvs, _, err := controlplane.ListAll(context.Background(), s, controlplane.ListOptions{Prefix: controlplane.Prefix(kind)})
	if err != nil {
		t.Fatal(err)
	}
	return kvs
}

func gangOf(c *controlplane.Client, n int) (*controlplane.Transaction, controlplane.Launched) {
	tx := c.Begin().InParts()
	launched := tx.LaunchJob(controlplane.Job{Name: "train", Tasks: several(n)})
	return tx.Reserve("train", bundles(2)), launched
}

// A job too large for one transaction becomes visible at one revision with everything submitted
// with it, like a small one.
func TestTransactionInParts(t *testing.T) {
	c, s := tightWorld(t, 128)
	tx, launched := gangOf(c, 600)
	res, err := tx.Commit(t.Context())
	if err != nil || res.Parts < 10 || res.Parts > 16 {
		t.Fatalf("%+v, %v", res, err)
	}
	job, reservation := keysOf(t, s, controlplane.Jobs), keysOf(t, s, controlplane.Reservations)
	if len(job) != 1 || len(reservation) != 1 || job[0].ModRevision != res.Revision || reservation[0].ModRevision != res.Revision {
		t.Errorf("job %v and reservation %v are not of revision %d", job, reservation, res.Revision)
	}
	tasks := keysOf(t, s, controlplane.Tasks)
	if len(tasks) != 600 || len(launched.Tasks) != 600 {
		t.Errorf("there are %d tasks, and %d were told", len(tasks), len(launched.Tasks))
	}
	for _, kv := range tasks {
		if kv.ModRevision >= res.Revision {
			t.Fatalf("%s is of revision %d, not before %d", kv.Key, kv.ModRevision, res.Revision)
		}
	}
	// A small job takes one transaction.
	small := c.Begin().InParts()
	small.LaunchJob(controlplane.Job{Name: "small", Tasks: []controlplane.Submission{one("a-1"), one("a-2")}})
	before := s.commits
	if res, err := small.Commit(t.Context()); err != nil || res.Parts != 1 || s.commits != before+1 {
		t.Errorf("%+v, %v, %d commits", res, err, s.commits-before)
	}
}

// Without InParts a large job is refused with the reason.
func TestTransactionIsTooLarge(t *testing.T) {
	c, s := tightWorld(t, 128)
	tx := c.Begin()
	tx.LaunchJob(controlplane.Job{Name: "train", Tasks: several(600)})
	_, err := tx.Commit(t.Context())
	if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "--max-txn-ops") || s.commits != 0 {
		t.Errorf("%v, after %d commits", err, s.commits)
	}
}

// Errors of the rest come before the first write.
func TestTransactionInPartsIsRefusedFirst(t *testing.T) {
	c, s := tightWorld(t, 128)
	r := bundles(100)
	for i := range r.Bundles {
		r.Bundles[i].Node = "n1"
	}
	for name, tx := range map[string]*controlplane.Transaction{
		"unknown node": c.Begin().InParts().Reserve("train", r),
		"bad name":     c.Begin().InParts().Reserve("tr@in", bundles(1)),
		"rest large":   c.Begin().InParts(),
	} {
		tx.LaunchJob(controlplane.Job{Name: "train", Tasks: several(600)})
		if name == "rest large" {
			for range 130 {
				tx.Launch(one(""))
			}
		}
		if _, err := tx.Commit(t.Context()); !types.Is(err, types.Invalid) || s.commits != 0 {
			t.Errorf("%s: %v, after %d commits", name, err, s.commits)
		}
	}
}

// Wherever it breaks off, all of the transaction exists or nothing.
func TestTransactionInPartsIsAllOrNothing(t *testing.T) {
	for most := 1; ; most++ {
		c, s := tightWorld(t, 64)
		ctx, cancel := context.WithCancel(t.Context())
		s.most, s.end = most, func() { s.most = 0; cancel() }
		tx, _ := gangOf(c, 100)
		_, err := tx.Commit(ctx)
		cancel()
		jobs, tasks, reservations := len(keysOf(t, s, controlplane.Jobs)), len(keysOf(t, s, controlplane.Tasks)), len(keysOf(t, s, controlplane.Reservations))
		if err == nil {
			if jobs != 1 || tasks != 100 || reservations != 1 || most < 4 {
				t.Errorf("at the end %d jobs, %d tasks, %d reservations", jobs, tasks, reservations)
			}
			return
		}
		if jobs+tasks+reservations != 0 {
			t.Errorf("broken off after %d commits: %d jobs, %d tasks, %d reservations, %v", most, jobs, tasks, reservations, err)
		}
	}
}
