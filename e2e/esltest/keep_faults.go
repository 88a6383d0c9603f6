package esltest

import (
	"context"
	"sync"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// Trouble is a store with faults that the test controls.
type Trouble struct {
	*memstore.Store

	Mu sync.Mutex
	// OnCommit is called before each commit: through lets it pass; lost drops its answer
	// afterwards.
	OnCommit func(txn controlplane.Txn) (through bool, lost bool)
	commits  int
	Lists    map[string]int
}

func NewTrouble(store *memstore.Store) *Trouble {
	return &Trouble{Store: store, Lists: make(map[string]int), OnCommit: func(controlplane.Txn) (bool, bool) { return true, false }}
}

func (s *Trouble) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	s.Mu.Lock()
	s.commits++
	through, lost := s.OnCommit(txn)
	s.Mu.Unlock()
	if !through {
		return controlplane.Result{}, types.Errorf(types.Unavailable, "away")
	}
	res, err := s.Store.Commit(ctx, txn)
	if lost {
		return controlplane.Result{}, types.Errorf(types.Unknown, "not answered")
	}
	return res, err
}

func (s *Trouble) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	s.Mu.Lock()
	s.Lists[opts.Prefix]++
	s.Mu.Unlock()
	return s.Store.List(ctx, opts)
}

func (s *Trouble) Set(f func(controlplane.Txn) (bool, bool)) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.OnCommit, s.commits = f, 0
}

func (s *Trouble) Done() int {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.commits
}

// Steps returns how often a pool was changed.
func Steps(w *World, name string) int {
	n := 0
	for _, b := range w.Store.Events(1) {
		for _, e := range b.Events {
			if e.Key == controlplane.ResourceKey("d", name, types.ClusterWide) {
				n++
			}
		}
	}
	return n
}
