package esl_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// stock is what a stock etcd takes.
func stock() controlplane.Store {
	return memstore.New(memstore.WithLimits(etcdstore.StockLimits()))
}

// running returns how many tasks run.
func (s *sharing) running() int {
	s.t.Helper()
	n := 0
	for t := range s.view().Tasks() {
		n += btoi(t.Phase() == types.Running)
	}
	return n
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestSharedOnStockEtcd has many users, flows and tasks that are let in at once, which are
// more changes than a stock etcd takes in one transaction.
func TestSharedOnStockEtcd(t *testing.T) {
	for _, test := range []struct {
		name    string
		shared  esl.Shared
		jobs, n int
		policy  func(i int) []esl.Policy
	}{
		{"fair-share", esl.FairShare{Anyone: 1, Over: []string{"cpu"}}, 150, 1,
			func(i int) []esl.Policy { return []esl.Policy{esl.Share{In: "s", As: fmt.Sprint("u", i)}} }},
		{"queue", esl.Queue{Rate: 1000}, 4, 50, func(int) []esl.Policy { return []esl.Policy{esl.Queued{In: "s"}} }},
		{"fair-queue", esl.FairQueue{Limit: 1000, Anyone: 1}, 100, 2,
			func(i int) []esl.Policy { return []esl.Policy{esl.Flow{In: "s", As: fmt.Sprint("u", i)}} }},
		{"gang in a fair-queue", esl.FairQueue{Limit: 100, Anyone: 1}, 1, 24,
			func(int) []esl.Policy { return []esl.Policy{esl.Gang{}, esl.Flow{In: "s", As: "a"}} }},
		{"objective", esl.Objective{By: esl.Load, Ahead: 100}, 4, 50, func(int) []esl.Policy { return []esl.Policy{esl.Placed{By: "s"}} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSharing(t, hollow.Config{Nodes: hollow.Nodes(4, 8), NoAudit: true, NoKeep: true, Store: stock()}, "s", test.shared)
				for i := range test.jobs {
					s.submit(esl.Copies(test.n, hollow.Task(10, "run", "10h")), test.policy(i)...)
				}
				s.Keep()
				time.Sleep(time.Minute)
				if n := s.running(); n != test.jobs*test.n {
					t.Errorf("%d run, want %d", n, test.jobs*test.n)
				}
			})
		})
	}
}

// TestPlacementOnStockEtcd opens more nodes than a stock etcd takes in one transaction.
func TestPlacementOnStockEtcd(t *testing.T) {
	for _, test := range []struct {
		name     string
		n        int
		before   func(s *sharing)
		policies []esl.Policy
	}{
		{"pack", 150, nil, []esl.Policy{esl.Pack{}}},
		{"spread", 200, nil, []esl.Policy{esl.Spread{Over: esl.Rack, MaxSkew: 150}}},
		{"apart", 200, nil, []esl.Policy{esl.Apart{In: esl.Rack, PerNode: 100}}},
		{"balance", 150, nil, []esl.Policy{esl.Balance{Nodes: 150}}},
		{"near", 100, func(s *sharing) {
			if err := esl.Replicate(s.t.Context(), s.jobs.Client, "w", "n00"); err != nil {
				s.t.Fatal(err)
			}
		}, []esl.Policy{esl.Near{To: "w", In: esl.Rack}}},
		{"colocate", 90, func(s *sharing) {
			if _, err := s.jobs.Submit(s.t.Context(), esl.Job{ID: "web", Tasks: esl.Copies(1, hollow.Task(1000, "run", "10h"))}); err != nil {
				s.t.Fatal(err)
			}
			time.Sleep(time.Second)
		}, []esl.Policy{esl.Colocate{With: "web", In: esl.Rack}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSharing(t, hollow.Config{Nodes: hollow.Racks(hollow.Nodes(200, 1), 100), NoAudit: true, Store: stock()}, "s", esl.Queue{})
				if test.before != nil {
					test.before(s)
				}
				begun := s.running()
				s.submit(esl.Copies(test.n, hollow.Task(1000, "run", "10h")), test.policies...)
				time.Sleep(2 * time.Minute)
				if n := s.running() - begun; n != test.n {
					t.Errorf("%d run, want %d", n, test.n)
				}
			})
		})
	}
}
