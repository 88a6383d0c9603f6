package accounting

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/labels"
)

const second = int64(time.Second)

// filled returns a recorder with a file of so many tasks: each has an attempt, from one second to
// another, and every third an earlier one.
func filled(t testing.TB, n int) *Recorder {
	t.Helper()
	db, err := openFile(t.Context(), filepath.Join(t.TempDir(), "history.db"), prepare)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	r := new(Recorder)
	r.file.Store(db)
	r.questions.Store(db)
	random := rand.New(rand.NewPCG(1, 2))
	for from := 0; from < n; from += 10_000 {
		err := within(t.Context(), db, func(tx *sql.Tx) error {
			w := newWriter(tx)
			for i := from; i < min(n, from+10_000); i++ {
				rec := sample(i, random)
				if i%3 == 0 {
					earlier := *rec.attempt
					earlier.number, earlier.bound, earlier.started, earlier.ended = 1, earlier.bound-20*second, 0, earlier.bound-10*second
					rec.attempt.number, rec.task.Attempts = 2, 2
					before := record{task: rec.task, attempt: &earlier, exact: true}
					before.task.Phase = types.Pending
					if err := w.add(t.Context(), &before); err != nil {
						return err
					}
				}
				if err := w.add(t.Context(), &rec); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// sample is the record of the i-th task, which ended a second after the one before.
func sample(i int, random *rand.Rand) record {
	ended := int64(1000+i) * second
	phase := types.Succeeded
	if i%10 == 0 {
		phase = types.Failed
	}
	t := Task{
		Namespace: fmt.Sprintf("ns%d", i%5), ID: fmt.Sprintf("t%08d-%04x", i, random.IntN(1<<16)), Name: "train", Job: fmt.Sprintf("job-%d", i/100), JobName: fmt.Sprintf("name-%d", i/100%50),
		User: fmt.Sprintf("user%d", i%40), Labels: []types.Label{{Name: "team", Value: fmt.Sprintf("team%d", i%8)}}, Phase: phase, Node: fmt.Sprintf("n%d", i%100), Attempts: 1,
		Submitted: ended - 100*second, Bound: ended - 60*second, Started: ended - 59*second, Ended: ended, Amounts: Amounts{CPU: 2000, Memory: 8 << 30, GPU: types.Whole(1 + i%4)},
		Used: types.Used{CPU: 1500, Memory: 4 << 30}, Revision: int64(i + 1),
	}
	return record{task: t, exact: true, attempt: &attempt{number: 1, node: t.Node, bound: t.Bound, started: t.Started, ended: ended, Amounts: t.Amounts, used: t.Used}}
}

func selector(t *testing.T, text string) labels.Selector {
	t.Helper()
	s, err := labels.Parse("selector", text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestFilters: each filter selects what it says, page by page, the latest first.
func TestFilters(t *testing.T) {
	r := filled(t, 400)
	for _, test := range []struct {
		name string
		f    Filter
		want func(i int) bool
	}{
		{"all", Filter{}, func(int) bool { return true }},
		{"namespace", Filter{Namespace: "ns2"}, func(i int) bool { return i%5 == 2 }},
		{"user", Filter{User: "user3"}, func(i int) bool { return i%40 == 3 }},
		{"no such user", Filter{User: "eve"}, func(int) bool { return false }},
		{"labels", Filter{Selector: selector(t, "team in (team1,team2)")}, func(i int) bool { return i%8 == 1 || i%8 == 2 }},
		{"job by id", Filter{Job: "job-2"}, func(i int) bool { return i/100 == 2 }},
		{"job by name", Filter{Job: "name-3"}, func(i int) bool { return i/100 == 3 }},
		{"phase", Filter{Phases: []types.Phase{types.Failed, "' OR 1"}}, func(i int) bool { return i%10 == 0 }},
		{"time", Filter{Since: 1009 * second, Until: 1019 * second}, func(i int) bool { return i >= 10 && i <= 19 }},
		{"all at once", Filter{Namespace: "ns0", User: "user0", Job: "job-0", Phases: []types.Phase{types.Failed}, Since: 1000 * second}, func(i int) bool { return i == 40 || i == 80 }},
	} {
		t.Run(test.name, func(t *testing.T) {
			var want, got []int64
			for i := 399; i >= 0; i-- {
				if test.want(i) {
					want = append(want, int64(i+1))
				}
			}
			after := ""
			for pages := 0; pages == 0 || after != ""; pages++ {
				page, err := r.History(t.Context(), test.f, 7, after)
				if err != nil || len(page.Tasks) > 7 || pages > len(want) {
					t.Fatalf("%d tasks, %v", len(page.Tasks), err)
				}
				for _, x := range page.Tasks {
					got = append(got, x.Revision)
				}
				after = page.Next
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
	if _, err := r.History(t.Context(), Filter{}, 7, "soon"); !types.Is(err, types.Invalid) {
		t.Errorf("a wrong place: %v", err)
	}
}

// TestHours: usage over any time is the sum over the history of that time, within hours and beyond, also
// after records were replaced and deleted.
func TestHours(t *testing.T) {
	r := filled(t, 12_000) // more than three hours
	db := r.file.Load()
	err := within(t.Context(), db, func(tx *sql.Tx) error {
		w, random := newWriter(tx), rand.New(rand.NewPCG(1, 2))
		for i := range 12_000 {
			if rec := sample(i, random); i%7 == 0 { // with the same ids: others are as they were
				rec.attempt.GPU = 500
				if err := w.add(t.Context(), &rec); err != nil {
					return err
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := prune(t.Context(), db, 1500*second, 1<<40); err != nil {
		t.Fatal(err)
	}
	for _, times := range [][2]int64{{0, 0}, {0, 3600}, {1600, 3599}, {3599, 3600}, {3600, 7200}, {3599, 7199}, {2000, 12_000}, {5000, 0}, {7200, 7200}, {20_000, 0}} {
		f := Filter{Since: times[0] * second, Until: times[1] * second}
		var want Usage
		err := db.QueryRowContext(t.Context(), "SELECT count(*), "+spentColumns+" FROM attempts WHERE ended > ? AND ended <= ?", f.Since, f.until()).Scan(append([]any{&want.Attempts}, want.columns()...)...)
		if err != nil {
			t.Fatal(err)
		}
		err = db.QueryRowContext(t.Context(), "SELECT count(*), count(*) FILTER (WHERE phase = 'failed'), total(waited) / 1e9 FROM tasks WHERE ended > ? AND ended <= ?", f.Since, f.until()).Scan(&want.Tasks, &want.Failed, &want.WaitedSeconds)
		if err != nil {
			t.Fatal(err)
		}
		sums, _, err := r.Usage(t.Context(), f, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := Usage{}
		for _, u := range sums {
			got = u
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateApprox(1e-9, 1e-6)); diff != "" {
			t.Errorf("%v: %s", times, diff)
		}
	}
}

// TestUsage: usage is summed up by what is asked for, of what ended in the time asked for.
func TestUsage(t *testing.T) {
	r := filled(t, 4) // they end at 1000 to 1003, bound 60 seconds before; 0 and 3 had 10 seconds earlier
	for _, test := range []struct {
		name string
		f    Filter
		by   []By
		want []Usage
	}{
		{"all", Filter{}, nil, []Usage{{
			Tasks: 4, Failed: 1, Attempts: 6, WaitedSeconds: 30 + 40 + 40 + 30,
			Spent: Spent{CPUSeconds: 2 * 260, MemoryByteSeconds: 260 * (8 << 30), GPUSeconds: 70 + 2*60 + 3*60 + 4*70, CPUUsedSeconds: 1.5 * 59 * 4},
		}}},
		{"two kinds", Filter{Namespace: "ns3"}, []By{ByNamespace, ByUser, "label=team", "label=none"}, []Usage{{
			Of: []string{"ns3", "user3", "team3", ""}, Tasks: 1, Attempts: 2, WaitedSeconds: 30,
			Spent: Spent{CPUSeconds: 140, MemoryByteSeconds: 70 * (8 << 30), GPUSeconds: 280, CPUUsedSeconds: 1.5 * 59},
		}}},
		{"a time", Filter{Since: 1000 * second, Until: 1001 * second}, []By{ByUser}, []Usage{{
			Of: []string{"user1"}, Tasks: 1, Attempts: 1, WaitedSeconds: 40, Spent: Spent{CPUSeconds: 120, MemoryByteSeconds: 60 * (8 << 30), GPUSeconds: 120, CPUUsedSeconds: 1.5 * 59},
		}}},
		{"none", Filter{Since: 2000 * second}, []By{ByUser}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			for _, by := range test.by {
				if got, err := ParseBy(string(by)); got != by || err != nil {
					t.Errorf("%s: %s, %v", by, got, err)
				}
			}
			got, _, err := r.Usage(t.Context(), test.f, test.by)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, text := range []string{"", "label", "label=", "Namespace", strings.Repeat("x", 1000)} {
		if _, err := ParseBy(text); !types.Is(err, types.Invalid) {
			t.Errorf("by %q: %v", text, err)
		}
	}
}

// BenchmarkMillion asks about a million tasks.
func BenchmarkMillion(b *testing.B) {
	const n = 1_000_000
	begin := time.Now()
	r := filled(b, n)
	b.Logf("written in %s", time.Since(begin))
	ask := func(name string, f Filter) {
		b.Run("history "+name, func(b *testing.B) {
			for b.Loop() {
				if _, err := r.History(context.Background(), f, 500, ""); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	ask("all", Filter{})
	ask("failed", Filter{Phases: []types.Phase{types.Failed}})
	ask("none cancelled", Filter{Phases: []types.Phase{types.Cancelled}})
	ask("namespace", Filter{Namespace: "ns1"})
	ask("user", Filter{User: "user7"})
	ask("job", Filter{Job: "job-17"})
	ask("job by name", Filter{Job: "name-17"})
	ask("no such job", Filter{Job: "eve"})
	for name, f := range map[string]Filter{"all": {}, "day": {Since: (1000 + n - 86_400) * second}, "namespace": {Namespace: "ns1"}} {
		b.Run("usage "+name, func(b *testing.B) {
			for b.Loop() {
				if _, _, err := r.Usage(context.Background(), f, []By{ByUser, "label=team"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
