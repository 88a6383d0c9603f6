package server

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// TestNothingIsCollectedBeforeItIsRecorded: a collector deletes ended tasks, and compacts, only up to the
// recorded revision. It does not wait when the database fills up, or when nothing tells how full it is.
func TestNothingIsCollectedBeforeItIsRecorded(t *testing.T) {
	for _, test := range []struct {
		name  string
		usage controlplane.Usage
		waits bool
	}{
		{"roomy", controlplane.Usage{Quota: 1000, InUse: 499}, true},
		{"half full", controlplane.Usage{Quota: 1000, InUse: 500}, false},
		{"fuller", controlplane.Usage{Quota: 1000, InUse: 690}, false},
		{"unknown quota", controlplane.Usage{InUse: 100}, false},
		{"alarm", controlplane.Usage{Quota: 1000, InUse: 1, Alarm: true}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &memMaintenance{Store: memstore.New(), usage: test.usage}
				ends := func(id string) []put {
					return []put{
						{controlplane.TaskKey("ns", id), &types.Task{}},
						{controlplane.StatusKey("ns", id), &types.Status{Phase: types.Succeeded, Ended: time.Now().UnixNano()}},
					}
				}
				write(t, m.Store, ends("a")...)
				var recorded atomic.Int64
				recorded.Store(m.Revision())
				write(t, m.Store, ends("b")...)
				c, err := NewCollector(m.Store, m, DefaultPolicy(), nil, Options{Recorded: recorded.Load})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- c.Run(ctx) }()
				defer func() {
					cancel()
					if err := <-ended; !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				}()
				time.Sleep(2 * time.Hour)
				_, err = m.List(t.Context(), controlplane.ListOptions{Prefix: controlplane.Root, Revision: recorded.Load()})
				if !test.waits {
					wantKeys(t, m.Store)
					if !types.Is(err, types.Compacted) {
						t.Errorf("the history is kept: %v", err)
					}
					return
				}
				wantKeys(t, m.Store, "status/ns/b", "tasks/ns/b")
				if err != nil {
					t.Errorf("a revision that is still to be recorded: %v", err)
				}
				recorded.Store(m.Revision())
				time.Sleep(time.Minute)
				wantKeys(t, m.Store)
			})
		})
	}
}
