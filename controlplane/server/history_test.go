package server

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/history"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// ranFor is the status of a task that ran until now.
func ranFor(length time.Duration, memory types.Quantity) *types.Status {
	now := time.Now()
	return &types.Status{Phase: types.Succeeded, Attempt: 1, Started: now.Add(-length).UnixNano(), Ended: now.UnixNano(), Used: types.Used{CPU: 500, Memory: memory}}
}

// counting runs a collector until body has ended, and calls body.
func counting(t *testing.T, m *memMaintenance, policy Policy, body func()) {
	t.Helper()
	c, err := NewCollector(m.Store, m, policy, nil, Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	body()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// storedHistories returns the stored histories by name.
func storedHistories(t *testing.T, s controlplane.Store) map[string]types.History {
	t.Helper()
	kvs, _, err := controlplane.ListAll(t.Context(), s, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Histories)})
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]types.History, len(kvs))
	for _, kv := range kvs {
		k, _ := controlplane.Parse(kv.Key)
		var h types.History
		if err := types.Decode(kv.Value, &h); err != nil {
			t.Fatal(err)
		}
		all[k.ID] = h
	}
	return all
}

// TestRunsAreCounted: each run counts once, in the history that its label, its job or its task names. That
// holds across collectors, and in whatever order task, job and status arrive.
func TestRunsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Hour)
		m := &memMaintenance{Store: memstore.New(), usage: controlplane.Usage{Quota: 1000}}
		job := func(id, name string) put {
			return put{controlplane.JobKey("ns", id), &types.Job{Name: name, Tasks: 1}}
		}
		task := func(id string, v types.Task) put { return put{controlplane.TaskKey("ns", id), &v} }
		ends := func(id string, s *types.Status) put { return put{controlplane.StatusKey("ns", id), s} }
		counting(t, m, DefaultPolicy(), func() {
			write(t, m.Store, job("j1", "train"), task("a", types.Task{Job: "j1"}), ends("a", ranFor(time.Minute, 1<<30)),
				task("b", types.Task{Job: "j2"}), ends("b", ranFor(2*time.Minute, 2<<30)), job("j2", "train"),
				ends("c", ranFor(time.Second, 1<<20)), task("c", types.Task{Name: "lone"}),
				job("j3", "train"), task("d", types.Task{Job: "j3", Labels: []types.Label{{Name: history.Label, Value: "resnet"}}}), ends("d", ranFor(time.Hour, 5<<30)),
				job("j4", ""), task("e", types.Task{Job: "j4"}), ends("e", ranFor(time.Hour, 5<<30)))
			time.Sleep(2 * time.Second)
		})
		counting(t, m, DefaultPolicy(), func() {
			killed := ranFor(time.Minute, 4<<30)
			killed.Phase, killed.Cause = types.Pending, types.CauseMemory
			write(t, m.Store, job("j5", "train"), task("f", types.Task{Job: "j5"}), ends("f", killed))
			time.Sleep(time.Minute)
			write(t, m.Store, ends("f", ranFor(time.Minute, 4<<30)))
			time.Sleep(historyGap)
			write(t, m.Store, ends("g", ranFor(time.Minute, 1)), task("g", types.Task{Name: "lone"}))
			time.Sleep(time.Minute)
		})
		counting(t, m, DefaultPolicy(), func() {
			ahead := ranFor(time.Minute, 1<<20) // the clock of its node is wrong
			ahead.Ended += int64(5 * 365 * 24 * time.Hour)
			write(t, m.Store, put{controlplane.TaskKey("ns", "h"), &types.Task{Name: "ahead"}}, put{controlplane.StatusKey("ns", "h"), ahead})
			time.Sleep(time.Minute)
			if h := storedHistories(t, m.Store)["ahead"]; h.Last == 0 || h.Last > time.Now().UnixNano() {
				t.Errorf("a run is said to have ended at %d", h.Last)
			}
		})
		got := make(map[string]string)
		for name, h := range storedHistories(t, m.Store) {
			got[name] = fmt.Sprintf("%d runs, %g lengths", h.Runs, history.Weight(h.Length))
		}
		// One of train ended out of memory: it says nothing about the length.
		want := map[string]string{"train": "4 runs, 3 lengths", "lone": "2 runs, 2 lengths", "resnet": "1 runs, 1 lengths", "ahead": "1 runs, 1 lengths"}
		if !maps.Equal(got, want) {
			t.Errorf("histories %v, want %v", got, want)
		}
		if h := storedHistories(t, m.Store)["train"]; history.Quantile(h.Memory, 1) < 48<<30/10 || history.Quantile(h.Memory, 1) > 53<<30/10 {
			t.Errorf("its largest is %s, want 4.8Gi or a little more", history.Quantile(h.Memory, 1).Format(types.Memory))
		}
	})
}

// TestHistoriesAreBounded drops the oldest of too many, and those without recent runs; one that cannot be
// read stays as it is.
func TestHistoriesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memMaintenance{Store: memstore.New(), usage: controlplane.Usage{Quota: 1000}}
		seldom := DefaultPolicy() // it is about months
		seldom.Interval, seldom.KeepMin, seldom.KeepAge = 6*time.Hour, 12*time.Hour, 12*time.Hour
		begin := time.Now()
		for i := range maxHistories + 3 {
			h := &types.History{Runs: 1, Last: begin.Add(time.Duration(i) * time.Hour).UnixNano()}
			write(t, m.Store, put{controlplane.HistoryKey("ns", fmt.Sprintf("h%04d", i)), h})
		}
		later := controlplane.Txn{Ops: []controlplane.Op{{Key: controlplane.HistoryKey("ns", "of-later"), Value: []byte{9, 9}}}}
		if _, err := m.Store.Commit(t.Context(), later); err != nil {
			t.Fatal(err)
		}
		count := func() int {
			page, err := m.List(t.Context(), controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Histories, "ns"), KeysOnly: true})
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(page.KVs, func(kv controlplane.KV) bool { return strings.HasSuffix(kv.Key, "/of-later") }) {
				t.Error("what cannot be read is gone")
			}
			return len(page.KVs) - 1
		}
		counting(t, m, seldom, func() {
			time.Sleep(7 * time.Hour)
			if n := count(); n != maxHistories {
				t.Errorf("%d are left, want %d", n, maxHistories)
			}
			write(t, m.Store, put{controlplane.TaskKey("ns", "a"), &types.Task{Name: "of-later"}}, put{controlplane.StatusKey("ns", "a"), ranFor(0, 1)})
			time.Sleep(oldHistory)
			if n := count(); n < maxHistories-20 || n > maxHistories {
				t.Errorf("%d are left after %s", n, oldHistory)
			}
			time.Sleep((maxHistories + 20) * time.Hour)
			if n := count(); n != 0 {
				t.Errorf("%d are left in the end", n)
			}
		})
	})
}
