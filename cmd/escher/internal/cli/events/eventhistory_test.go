package events

import (
	"context"
	"strings"
	"testing"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// shortening is a store whose history is shortened while it is read, some times: during a listing or,
// with watched, before the changes since are read.
type shortening struct {
	*memstore.Store
	t       *testing.T
	times   int
	watched bool
}

// touch changes a key, and returns the revision of the change.
func touch(t *testing.T, s controlplane.Store) int64 {
	t.Helper()
	node := types.Encode(1, &types.Node{})
	done, err := controlplane.Commit(t.Context(), s, controlplane.Txn{Ops: []controlplane.Op{{Key: controlplane.NodeKey("x"), Value: node}}})
	if err != nil {
		t.Fatal(err)
	}
	return done.Revision
}

// shorten deletes the history before a further change, which another one follows.
func (s *shortening) shorten(ctx context.Context) {
	s.times--
	if err := s.Compact(ctx, touch(s.t, s.Store)); err != nil {
		s.t.Error(err)
	}
	touch(s.t, s.Store)
}

// List implements controlplane.Store.
func (s *shortening) List(ctx context.Context, opts controlplane.ListOptions) (controlplane.Page, error) {
	if opts.Prefix != "" && opts.Revision > 0 && !s.watched && s.times > 0 {
		s.shorten(ctx)
	}
	return s.Store.List(ctx, opts)
}

// Watch implements controlplane.Store.
func (s *shortening) Watch(ctx context.Context, opts controlplane.WatchOptions) <-chan controlplane.Batch {
	if s.watched && s.times > 0 {
		s.shorten(ctx)
	}
	return s.Store.Watch(ctx, opts)
}

// TestHistoryIsShortened: a compaction during a reading begins it anew, and compactions without end are an
// error that says so.
func TestHistoryIsShortened(t *testing.T) {
	for _, test := range []struct {
		times   int
		watched bool
		fails   bool
	}{{0, false, false}, {1, false, false}, {historyTries - 1, false, false}, {historyTries, false, true}, {1, true, false}, {historyTries, true, true}} {
		s := &shortening{Store: memstore.New(), t: t, times: test.times, watched: test.watched}
		client, err := controlplane.New(s, "d")
		if err != nil {
			t.Fatal(err)
		}
		for range historyTries {
			touch(t, s.Store)
		}
		_, err = readHistory(t.Context(), client, new(cmdutil.Selection))
		switch {
		case !test.fails && err != nil:
			t.Errorf("%+v: %v", test, err)
		case test.fails && (!types.Is(err, types.Unavailable) || !strings.Contains(err.Error(), "faster than it is read")):
			t.Errorf("%+v: the error is %v", test, err)
		}
	}
}
