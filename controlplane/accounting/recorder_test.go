package accounting

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/identity"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/controlplane/submitter"
	"github.com/escher-sched/escher/types"
)

// world is a store whose tasks a test binds and ends, as a scheduler does.
type world struct {
	t     *testing.T
	store controlplane.Store
	// epoch is the time from which the moments of a test count.
	epoch time.Time
}

func newWorld(t *testing.T, store controlplane.Store) *world {
	t.Helper()
	if _, err := identity.MakeClusterID(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	return &world{t, store, time.Now()}
}

// at is a moment some seconds after the epoch.
func (w *world) at(second int) int64 {
	return w.epoch.Add(time.Duration(second) * time.Second).UnixNano()
}

// commit changes keys in one transaction; nil deletes.
func (w *world) commit(keys map[string]types.Message) {
	w.t.Helper()
	change := controlplane.NewChange(controlplane.NewBatch())
	for key, m := range keys {
		if m == nil {
			change.Delete(key)
		} else {
			change.Put(key, m)
		}
	}
	if res, err := w.store.Commit(w.t.Context(), change.Txn()); err != nil || !res.Committed {
		w.t.Fatal(res, err)
	}
}

// submit writes a task that requests a GPU or more.
func (w *world) submit(id string, gpu int, job string, labels ...types.Label) {
	w.commit(map[string]types.Message{controlplane.TaskKey("ns", id): &types.Task{
		Name: "name-" + id, Job: job, Submitted: w.at(0), Labels: labels,
		Requests: types.NewRequests(map[string]types.Quantity{"gpu": types.Whole(gpu), "cpu": 500, "memory": 1 << 30}),
	}})
}

func (w *world) binding(id string, attempt int) string {
	return controlplane.BindingKey("n1", "ns", id, attempt)
}

// bind binds an attempt that holds some GPUs.
func (w *world) bind(id string, attempt, gpu, at int) {
	w.commit(map[string]types.Message{
		w.binding(id, attempt): &types.Binding{Bound: w.at(at), Holds: []types.Holding{
			{Resource: types.CPU, Amount: 500}, {Resource: "ns:gpu@train", Amount: types.Whole(gpu)}, {Resource: types.Memory, Amount: 1 << 30},
		}},
		controlplane.StatusKey("ns", id): &types.Status{Phase: types.Bound, Node: "n1", Attempt: attempt, Bound: w.at(at)},
	})
}

// run makes an attempt run.
func (w *world) run(id string, attempt, bound, at int) {
	w.commit(map[string]types.Message{controlplane.StatusKey("ns", id): &types.Status{Phase: types.Running, Node: "n1", Attempt: attempt, Bound: w.at(bound), Started: w.at(at)}})
}

// end ends an attempt in a phase.
func (w *world) end(id string, attempt, bound, at int, s types.Status) {
	s.Node, s.Attempt, s.Bound, s.Ended = "n1", attempt, w.at(bound), w.at(at)
	w.commit(map[string]types.Message{w.binding(id, attempt): nil, controlplane.StatusKey("ns", id): &s})
}

// remove removes an ended task.
func (w *world) remove(id string) {
	w.commit(map[string]types.Message{controlplane.TaskKey("ns", id): nil, controlplane.StatusKey("ns", id): nil})
}

// keepInTests is how long recorders of tests keep records.
const keepInTests = 3 * time.Hour

// recording runs a recorder in a bubble or not, until stop is called.
func recording(t *testing.T, store controlplane.Store, dir string, maxBytes ...int64) (r *Recorder, stop func()) {
	t.Helper()
	r = &Recorder{Store: store, Dir: dir, Keep: keepInTests}
	if len(maxBytes) > 0 {
		r.MaxBytes = maxBytes[0]
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	return r, func() {
		t.Helper()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the recorder ended with %v", err)
		}
	}
}

// settled waits in a bubble until everything is recorded.
func settled(t *testing.T, r *Recorder, store *memstore.Store) {
	t.Helper()
	time.Sleep(2 * progressEvery)
	if got, want := r.Recorded(), store.Revision(); got != want {
		t.Fatalf("recorded up to %d of %d", got, want)
	}
}

// all returns the whole history.
func all(t *testing.T, r *Recorder) Page {
	t.Helper()
	page, err := r.History(t.Context(), Filter{}, 1000, "")
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// lives writes the lives of some tasks: a has three attempts, b waits until it is cancelled, c is
// removed at once, d has not ended.
func (w *world) lives() {
	w.commit(map[string]types.Message{
		controlplane.JobKey("ns", "j"):      &types.Job{Name: "train"},
		controlplane.PoliciesKey("ns", "j"): &types.Policies{Job: "j", Policies: []types.Policy{{Kind: "gang"}, {Kind: "use", With: `{"name":"lab","as":"vision/alice"}`}}},
	})
	w.submit("a", 2, "j", types.Label{Name: "team", Value: "vision"})
	w.bind("a", 1, 2, 10)
	w.run("a", 1, 10, 11)
	w.end("a", 1, 10, 20, types.Status{Phase: types.Pending, Cause: types.CauseEvicted, Started: w.at(11)})
	w.bind("a", 2, 2, 30)
	w.run("a", 2, 30, 31)
	w.end("a", 2, 30, 50, types.Status{Phase: types.Pending, Cause: types.CauseLost})
	w.submit("b", 1, "", types.Label{Name: submitter.Label, Value: "bob"})
	w.bind("a", 3, 1, 60)
	w.end("a", 3, 60, 100, types.Status{Phase: types.Failed, ExitCode: 3, Reason: "it broke", Started: w.at(61), Used: types.Used{CPU: 400, Memory: 7}})
	w.commit(map[string]types.Message{controlplane.StatusKey("ns", "b"): &types.Status{Phase: types.Cancelled, Reason: "stopped"}})
	w.submit("c", 4, "")
	w.bind("c", 1, 4, 5)
	w.end("c", 1, 5, 6, types.Status{Phase: types.Succeeded, Started: w.at(5)})
	w.remove("c")
	w.submit("d", 1, "")
	w.bind("d", 1, 1, 1)
}

// wantLives are the records of lives, from the earliest end.
func (w *world) wantLives(revisions map[string]int64, b int64) []Task {
	return []Task{
		{
			Namespace: "ns", ID: "b", Name: "name-b", User: "bob", Labels: []types.Label{{Name: submitter.Label, Value: "bob"}}, Phase: types.Cancelled, Reason: "stopped",
			Submitted: w.at(0), Ended: b, Waited: b - w.at(0), Amounts: Amounts{CPU: 500, Memory: 1 << 30, GPU: 1000}, Revision: revisions["b"],
		},
		{
			Namespace: "ns", ID: "c", Name: "name-c", Phase: types.Succeeded, Node: "n1", Attempts: 1, Submitted: w.at(0), Bound: w.at(5), Started: w.at(5), Ended: w.at(6),
			Waited: int64(5 * time.Second), Amounts: Amounts{CPU: 500, Memory: 1 << 30, GPU: 4000}, Revision: revisions["c"],
			Spent: Spent{CPUSeconds: 0.5, MemoryByteSeconds: 1 << 30, GPUSeconds: 4},
		},
		{
			Namespace: "ns", ID: "a", Name: "name-a", Job: "j", JobName: "train", User: "vision/alice", Labels: []types.Label{{Name: "team", Value: "vision"}},
			Phase: types.Failed, ExitCode: 3, Reason: "it broke", Node: "n1", Attempts: 3, Submitted: w.at(0), Bound: w.at(60), Started: w.at(61), Ended: w.at(100),
			Waited: int64(30 * time.Second), Amounts: Amounts{CPU: 500, Memory: 1 << 30, GPU: 1000}, Used: types.Used{CPU: 400, Memory: 7}, Revision: revisions["a"],
			Spent: Spent{CPUSeconds: 35, MemoryByteSeconds: 70 << 30, GPUSeconds: 2*10 + 2*20 + 40, CPUUsedSeconds: 0.4 * 39},
		},
	}
}

// TestRecords: every end is recorded once, with all attempts, though the tasks are gone meanwhile,
// whether the recorder sees it at once, or after it was started again.
func TestRecords(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run("late="+strconv.FormatBool(late), func(t *testing.T) {
			dir := t.TempDir()
			synctest.Test(t, func(t *testing.T) {
				store := memstore.New()
				w := newWorld(t, store)
				r, stop := recording(t, store, dir)
				settled(t, r, store)
				if late {
					stop()
					w.lives()
					r, stop = recording(t, store, dir)
				} else {
					w.lives()
				}
				defer func() { stop() }()
				settled(t, r, store)
				got := all(t, r).Tasks
				slices.SortFunc(got, func(a, b Task) int { return int(a.Revision - b.Revision) })
				revisions, cancelled := make(map[string]int64), int64(0)
				for _, x := range got {
					revisions[x.ID] = x.Revision
					if x.ID == "b" {
						cancelled = x.Ended
					}
				}
				want := w.wantLives(revisions, cancelled)
				slices.SortFunc(want, func(a, b Task) int { return int(a.Revision - b.Revision) })
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
				sums, _, err := r.Usage(t.Context(), Filter{}, []By{ByUser, "label=team"})
				if err != nil {
					t.Fatal(err)
				}
				wantSums := []Usage{
					{Of: []string{"vision/alice", "vision"}, Tasks: 1, Failed: 1, Attempts: 3, Spent: want[slices.IndexFunc(want, func(x Task) bool { return x.ID == "a" })].Spent, WaitedSeconds: 30},
					{Of: []string{"", ""}, Tasks: 1, Attempts: 1, Spent: Spent{0.5, 1 << 30, 4, 0}, WaitedSeconds: 5},
					{Of: []string{"bob", ""}, Tasks: 1, WaitedSeconds: time.Duration(cancelled - w.at(0)).Seconds()},
				}
				if diff := cmp.Diff(wantSums, sums); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// TestRestarts: a recorder that stops at any point, with or without its last transaction, has the same
// records in the end as one that never stops.
func TestRestarts(t *testing.T) {
	const tasks = 20
	for seed := range uint64(4) {
		dirs := [2]string{t.TempDir(), t.TempDir()}
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			store := memstore.New()
			w := newWorld(t, store)
			steady, stopSteady := recording(t, store, dirs[0])
			defer stopSteady()
			r, stop := recording(t, store, dirs[1])
			settled(t, r, store)
			for i := range tasks {
				id := "t" + strconv.Itoa(i)
				w.submit(id, 1+i%3, "")
				attempts, second := 1+random.IntN(3), 1
				for n := range attempts {
					w.bind(id, n+1, 1+i%3, second)
					phase := types.Pending
					if n == attempts-1 {
						phase = types.Succeeded
					}
					w.end(id, n+1, second, second+2, types.Status{Phase: phase, Started: w.at(second)})
					second += 3
					time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond)
					switch random.IntN(10) {
					case 0:
						stop()
						r, stop = recording(t, store, dirs[1])
					case 1:
						time.Sleep(time.Second)
						if err := store.Compact(t.Context(), min(r.Recorded(), steady.Recorded())); err != nil && !types.Is(err, types.Compacted) {
							t.Fatal(err)
						}
					}
				}
				if random.IntN(2) == 0 {
					w.remove(id)
				}
			}
			defer func() { stop() }()
			settled(t, r, store)
			got, want := all(t, r), all(t, steady)
			if len(want.Tasks) != tasks {
				t.Fatalf("%d records", len(want.Tasks))
			}
			got.Complete, want.Complete = 0, 0 // each began for itself
			if diff := cmp.Diff(want, got, cmp.Transformer("rows", func(p Page) []Task {
				slices.SortFunc(p.Tasks, func(a, b Task) int { return int(a.Revision - b.Revision) })
				return p.Tasks
			})); diff != "" {
				t.Errorf("seed %d: %s", seed, diff)
			}
		})
	}
}

// TestGaps: a recorder that was away for longer than the store keeps its history records what is left,
// and says since when it is complete. So does one whose store was restored from a backup.
func TestGaps(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		w := newWorld(t, store)
		r, stop := recording(t, store, dir)
		settled(t, r, store)
		began := all(t, r).Complete
		stop()
		time.Sleep(time.Hour)
		w.lives()
		if err := store.Compact(t.Context(), store.Revision()); err != nil {
			t.Fatal(err)
		}
		r, stop = recording(t, store, dir)
		settled(t, r, store)
		page := all(t, r)
		if len(page.Tasks) != 2 || page.Complete <= began || began == 0 {
			t.Fatalf("%d records, complete since %d, before that since %d", len(page.Tasks), page.Complete, began)
		}
		for _, x := range page.Tasks {
			switch {
			case x.ID == "a" && x.Estimated && x.GPU == 2000 && x.Spent.GPUSeconds == 2*40:
			case x.ID == "b" && !x.Estimated:
			default:
				t.Errorf("%+v", x)
			}
		}
		w.bind("d", 2, 1, 1)
		w.end("d", 2, 1, 2, types.Status{Phase: types.Succeeded})
		settled(t, r, store)
		if again := all(t, r); len(again.Tasks) != 3 || again.Complete != page.Complete {
			t.Errorf("%d records, complete since %d", len(again.Tasks), again.Complete)
		}
		stop()

		// The same file, and the same cluster as of a backup.
		restored := memstore.New()
		page2, err := store.List(t.Context(), controlplane.ListOptions{Key: controlplane.ClusterKey()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := restored.Commit(t.Context(), controlplane.Txn{Ops: []controlplane.Op{{Key: page2.KVs[0].Key, Value: page2.KVs[0].Value}}}); err != nil {
			t.Fatal(err)
		}
		w.store = restored
		w.submit("d", 1, "")
		w.bind("d", 1, 1, 1)
		r, stop = recording(t, restored, dir)
		defer func() { stop() }()
		settled(t, r, restored)
		w.end("d", 1, 1, 9, types.Status{Phase: types.Failed})
		settled(t, r, restored)
		got := all(t, r)
		i := slices.IndexFunc(got.Tasks, func(x Task) bool { return x.ID == "d" })
		if len(got.Tasks) != 3 || got.Complete <= page.Complete || got.Tasks[i].Phase != types.Failed {
			t.Errorf("%+v", got)
		}
	})
}

// TestPrune: records go when they are old, and the oldest when the file is large; the history says so.
func TestPrune(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		w := newWorld(t, store)
		r, stop := recording(t, store, dir)
		defer func() { stop() }()
		w.lives()
		settled(t, r, store)
		if all(t, r).Complete == 0 {
			t.Error("it says that it was complete before it began")
		}
		time.Sleep(keepInTests - time.Hour)
		w.end("d", 1, 1, int(keepInTests.Seconds()), types.Status{Phase: types.Succeeded})
		time.Sleep(2 * time.Hour)
		if page := all(t, r); len(page.Tasks) != 1 || page.Tasks[0].ID != "d" || page.Complete != 0 {
			t.Errorf("after its time: %+v", page)
		}
		if n := count(t, r, "owners") + count(t, r, "attempts"); n != 2 {
			t.Errorf("%d owners and attempts are left", n)
		}
		stop()
		r, stop = recording(t, store, dir, 1)
		settled(t, r, store)
		if page := all(t, r); len(page.Tasks) != 0 || page.Complete <= w.at(int(keepInTests.Seconds())) {
			t.Errorf("beyond the size: %+v", page)
		}
	})
}

func count(t *testing.T, r *Recorder, table string) (n int) {
	t.Helper()
	if err := r.file.Load().QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRestored: a store that was restored from a backup, and has overtaken the file, makes a gap: the
// revisions of its former history mean nothing.
func TestRestored(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		w := newWorld(t, store)
		if _, err := identity.MarkRestored(t.Context(), store); err != nil {
			t.Fatal(err)
		}
		complete := func() int64 {
			t.Helper()
			r, stop := recording(t, store, dir)
			defer stop()
			settled(t, r, store)
			return all(t, r).Complete
		}
		began := complete()
		w.lives()
		if again := complete(); again != began || began == 0 {
			t.Errorf("complete since %d, after a restart since %d", began, again)
		}
		if _, err := identity.MarkRestored(t.Context(), store); err != nil {
			t.Fatal(err)
		}
		if restored := complete(); restored <= began {
			t.Errorf("complete since %d, after a restore since %d", began, restored)
		}
	})
}

// TestOnEtcd: the records are the same on a real etcd, also of what ended while the recorder was away,
// and after etcd has compacted what is recorded.
func TestOnEtcd(t *testing.T) {
	srv := etcdtest.Start(t)
	store := etcdstore.New(srv.Client, etcdstore.ServerLimits(), etcdstore.WithProgressInterval(50*time.Millisecond))
	w, dir := newWorld(t, store), t.TempDir()
	reached := func(r *Recorder) int64 {
		t.Helper()
		page, err := store.List(t.Context(), controlplane.ListOptions{Key: controlplane.ClusterKey(), KeysOnly: true})
		if err != nil {
			t.Fatal(err)
		}
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for until := time.Now().Add(30 * time.Second); r.Recorded() < page.Revision; <-tick.C {
			if time.Now().After(until) {
				t.Fatalf("recorded up to %d of %d", r.Recorded(), page.Revision)
			}
		}
		return page.Revision
	}
	r, stop := recording(t, store, dir)
	reached(r)
	stop()
	w.lives()
	r, stop = recording(t, store, dir)
	defer func() { stop() }()
	recorded := reached(r)
	if _, err := srv.Client.Compact(t.Context(), recorded); err != nil {
		t.Fatal(err)
	}
	w.end("d", 1, 1, 4, types.Status{Phase: types.Succeeded})
	reached(r)
	spent := make(map[string]float64)
	for _, x := range all(t, r).Tasks {
		if spent[x.ID] = x.Spent.GPUSeconds; x.Estimated {
			t.Errorf("%s is estimated", x.ID)
		}
	}
	if diff := cmp.Diff(map[string]float64{"a": 100, "b": 0, "c": 4, "d": 3}, spent); diff != "" {
		t.Error(diff)
	}
}
