package share_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/esl/share"
)

// stock is a store with the limits of a stock etcd.
func stock() controlplane.Store {
	return memstore.New(memstore.WithLimits(etcdstore.StockLimits()))
}

// TestSharedOnStockEtcd has many users, flows and tasks that are admitted at once: more changes
// than a transaction of a stock etcd takes.
func TestSharedOnStockEtcd(t *testing.T) {
	for _, test := range []struct {
		name    string
		shared  esl.Shared
		jobs, n int
		policy  func(i int) []esl.Policy
	}{
		{"fair-share", share.FairShare{Anyone: 1, Over: []string{"cpu"}}, 150, 1,
			func(i int) []esl.Policy { return []esl.Policy{esl.Use{Name: "s", As: fmt.Sprint("u", i)}} }},
		{"queue", admission.Queue{Rate: 1000}, 4, 50, func(int) []esl.Policy { return []esl.Policy{esl.Use{Name: "s"}} }},
		{"fair-queue", admission.FairQueue{Limit: 1000, Anyone: 1}, 100, 2,
			func(i int) []esl.Policy { return []esl.Policy{esl.Use{Name: "s", As: fmt.Sprint("u", i)}} }},
		{"gang in a fair-queue", admission.FairQueue{Limit: 100, Anyone: 1}, 1, 24,
			func(int) []esl.Policy { return []esl.Policy{gang.Gang{}, esl.Use{Name: "s", As: "a"}} }},
		{"objective", place.Objective{By: place.Load, Ahead: 100}, 4, 50, func(int) []esl.Policy { return []esl.Policy{esl.Use{Name: "s"}} }},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Nodes(4, 8), NoAudit: true, NoKeep: true, Store: stock()}, "s", test.shared)
				for i := range test.jobs {
					s.Submit(esl.Copies(test.n, hollow.Task(10, "run", "10h")), test.policy(i)...)
				}
				s.Keep()
				time.Sleep(time.Minute)
				if n := s.Running(); n != test.jobs*test.n {
					t.Errorf("%d run, want %d", n, test.jobs*test.n)
				}
			})
		})
	}
}

// TestPlacementOnStockEtcd opens more nodes than a transaction of a stock etcd takes.
func TestPlacementOnStockEtcd(t *testing.T) {
	for _, test := range []struct {
		name     string
		n        int
		before   func(s *esltest.Sharing)
		policies []esl.Policy
	}{
		{"pack", 150, nil, []esl.Policy{place.Pack{}}},
		{"spread", 200, nil, []esl.Policy{place.Spread{Over: esl.Rack, MaxSkew: 150}}},
		{"apart", 200, nil, []esl.Policy{place.Apart{In: esl.Rack, PerNode: 100}}},
		{"balance", 150, nil, []esl.Policy{place.Balance{Nodes: 150}}},
		{"near", 100, func(s *esltest.Sharing) {
			if err := place.Replicate(s.T.Context(), s.Jobs.Client, "w", "n00"); err != nil {
				s.T.Fatal(err)
			}
		}, []esl.Policy{place.Near{To: "w", In: esl.Rack}}},
		{"colocate", 90, func(s *esltest.Sharing) {
			if _, err := s.Jobs.Submit(s.T.Context(), controlplane.Job{ID: "web", Tasks: esl.Copies(1, hollow.Task(1000, "run", "10h"))}); err != nil {
				s.T.Fatal(err)
			}
			time.Sleep(time.Second)
		}, []esl.Policy{place.Colocate{With: "web", In: esl.Rack}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := esltest.NewSharing(t, hollow.Config{Nodes: hollow.Racks(hollow.Nodes(200, 1), 100), NoAudit: true, Store: stock()}, "s", admission.Queue{})
				if test.before != nil {
					test.before(s)
				}
				begun := s.Running()
				s.Submit(esl.Copies(test.n, hollow.Task(1000, "run", "10h")), test.policies...)
				time.Sleep(2 * time.Minute)
				if n := s.Running() - begun; n != test.n {
					t.Errorf("%d run, want %d", n, test.n)
				}
			})
		})
	}
}
