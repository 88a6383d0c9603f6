package rest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// stalled holds up each listing of the nodes until it is let go.
type stalled struct {
	controlplane.Store
	waiting atomic.Int64
	let     chan struct{}
}

func (s *stalled) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	if opts.Prefix == controlplane.Prefix(controlplane.Nodes) {
		s.waiting.Add(1)
		select {
		case <-s.let:
		case <-ctx.Done():
			return controlplane.Page{}, ctx.Err()
		}
	}
	return s.Store.List(ctx, opts)
}

// TestExplaining asks for more explanations than are made at once: the others wait, as long as they like.
func TestExplaining(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &stalled{Store: memstore.New(), let: make(chan struct{})}
		c := controlplane.NewChange(1)
		c.Put(controlplane.NodeKey("n1"), &types.Node{})
		if _, err := store.Commit(t.Context(), c.Txn()); err != nil {
			t.Fatal(err)
		}
		h := Handler(Config{Store: store, Now: time.Now})
		var group sync.WaitGroup
		var answered [600]atomic.Int64
		ask := func(ctx context.Context) {
			w := httptest.NewRecorder()
			group.Go(func() {
				h.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/nodes/n1/why", http.NoBody))
				answered[w.Code].Add(1)
			})
		}
		most := 2 * runtime.GOMAXPROCS(0)
		for range most {
			ask(t.Context())
		}
		synctest.Wait()
		impatient, leave := context.WithCancel(t.Context())
		ask(impatient)
		ask(t.Context())
		synctest.Wait()
		if n := int(store.waiting.Load()); n != most {
			t.Errorf("%d explanations are made at once, want %d", n, most)
		}
		leave()
		synctest.Wait()
		if n := answered[http.StatusServiceUnavailable].Load(); n != 1 {
			t.Errorf("%d requests that waited are refused at the end of their context, want 1", n)
		}
		close(store.let)
		group.Wait()
		if n := int(answered[http.StatusOK].Load()); n != most+1 {
			t.Errorf("%d are answered, want %d", n, most+1)
		}
	})
}
