package events

import (
	"context"
	"slices"
	"sort"
	"time"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// historyWait bounds the wait for the end of the history in the store.
const historyWait = 5 * time.Second

// history is the past of the cluster in the store.
type history struct {
	reader *eventReader
	rows   []eventRow
	// oldest is the first revision of the history, newest the last one read.
	oldest, newest int64
	// begins is about when the history begins; zero means unknown.
	begins time.Time
}

// historyTries is how often the history is read, at most: a compaction meanwhile ends a reading.
const historyTries = 5

// readHistory reads the history in the store, and the earlier past from the statuses of tasks.
func readHistory(ctx context.Context, client *controlplane.Client, labels *cmdutil.Selection) (h *history, err error) {
	for range historyTries {
		if h, err = readOnce(ctx, client, labels); !types.Is(err, types.Compacted) {
			return h, err
		}
	}
	return nil, types.Errorf(types.Unavailable, "read the history: it is shortened faster than it is read: try again")
}

// readOnce is readHistory. After a compaction meanwhile it fails as Compacted.
func readOnce(ctx context.Context, client *controlplane.Client, labels *cmdutil.Selection) (*history, error) {
	h := &history{reader: newEventReader(client.Namespace(), labels)}
	store := client.Store()
	page, err := store.List(ctx, controlplane.ListOptions{Key: controlplane.EpochKey()})
	if err != nil {
		return nil, err
	}
	h.newest = page.Revision
	if h.oldest, err = oldestRevision(ctx, store, h.newest); err != nil {
		return nil, err
	}
	if err := h.before(ctx, client); err != nil {
		return nil, err
	}
	first := len(h.rows)
	if err := h.since(ctx, store); err != nil {
		return nil, err
	}
	h.date(h.rows[first:])
	return h, nil
}

// oldestRevision finds the oldest revision in the store. After a compaction meanwhile the next step
// fails as Compacted.
func oldestRevision(ctx context.Context, store controlplane.Store, newest int64) (int64, error) {
	var failed error
	n := sort.Search(int(newest), func(i int) bool {
		if failed != nil || i == 0 {
			return failed != nil
		}
		_, err := store.List(ctx, controlplane.ListOptions{Key: controlplane.EpochKey(), Revision: int64(i)})
		if err != nil && !types.Is(err, types.Compacted) {
			failed = err
		}
		return err == nil
	})
	return int64(n), failed
}

// before reads the state of tasks at the beginning of the history.
func (h *history) before(ctx context.Context, client *controlplane.Client) error {
	ns := client.Namespace()
	for _, kind := range []controlplane.Kind{controlplane.Jobs, controlplane.Tasks, controlplane.Statuses} {
		kvs, _, err := controlplane.ListAll(ctx, client.Store(), controlplane.ListOptions{Prefix: controlplane.Prefix(kind, ns), Revision: h.oldest})
		if err != nil {
			return err
		}
		for _, kv := range kvs {
			k, _ := controlplane.Parse(kv.Key)
			if kind == controlplane.Jobs {
				var j types.Job
				if controlplane.Read(kv, &j) {
					h.reader.choose("job", k.ID, j.Labels)
				}
				continue
			}
			if kind == controlplane.Tasks {
				var t types.Task
				if !controlplane.Read(kv, &t) {
					continue
				}
				h.reader.choose("task", k.ID, t.Labels)
				h.rows = append(h.rows, eventRow{Time: unix(t.Submitted), Kind: "task", ID: k.ID, Event: "submitted"})
				continue
			}
			var s types.Status
			if !controlplane.Read(kv, &s) {
				continue
			}
			h.reader.statuses[k.ID] = s
			h.rows = append(h.rows, steps(k.ID, s)...)
		}
	}
	return nil
}

// since reads all changes after the oldest revision up to the newest one.
func (h *history) since(ctx context.Context, store controlplane.Store) error {
	if h.oldest >= h.newest {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, historyWait)
	defer cancel()
	for batch := range store.Watch(ctx, controlplane.WatchOptions{Prefix: controlplane.Root, From: h.oldest + 1}) {
		if types.Is(batch.Err, types.Compacted) {
			return batch.Err
		}
		if batch.Err != nil {
			return types.Errorf(types.Unavailable, "read the history: %w: try again", batch.Err)
		}
		if batch.Revision > h.newest {
			return nil // later changes come from the watch
		}
		for _, e := range batch.Events {
			row, err := h.reader.read(e)
			if err != nil {
				return err
			}
			if row != nil {
				h.rows = append(h.rows, *row)
			}
		}
		if batch.Revision == h.newest {
			return nil
		}
	}
	return ctx.Err()
}

// date gives a row without a time the latest time before it or, at the beginning, the first time
// after it. It sets begins.
func (h *history) date(rows []eventRow) {
	var known time.Time
	for i := range rows {
		if r := &rows[i]; r.Time.IsZero() {
			r.Time, r.About = known, true
		} else if r.Time.After(known) {
			known = r.Time
		}
	}
	for i, r := range slices.Backward(rows) {
		if !r.Time.IsZero() {
			known = r.Time
			continue
		}
		rows[i].Time = known
	}
	if len(rows) > 0 {
		h.begins = rows[0].Time
	}
}
