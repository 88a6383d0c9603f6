package apply_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/types"
)

// Many concurrent applications of one new file decide on the same state, and launch it once.
func TestApplyAtOnceLaunchesOnce(t *testing.T) {
	limits := controlplane.Limits{Ops: 128, Bytes: 1 << 20}
	stores := map[string]func(t *testing.T) controlplane.Store{
		"memory": func(*testing.T) controlplane.Store { return memstore.New(memstore.WithLimits(limits)) },
		"etcd": func(t *testing.T) controlplane.Store {
			return etcdstore.New(etcdtest.Start(t).Client, limits)
		},
	}
	large := strings.Replace(train, "count: 3", "count: 300", 1)
	files := []struct {
		name, text string
		tasks      int
	}{
		{"task", web, 1}, {"job", train, 3}, {"job in parts", large, 300}, {"both, not in one", web + "---\n" + large, 301},
	}
	for name, store := range stores {
		for _, file := range files {
			t.Run(name+"/"+file.name, func(t *testing.T) {
				w := newWorldOf(t, store(t))
				won := w.race(file.text, 4)
				if won != 1 {
					t.Errorf("%d of them launched it", won)
				}
				d := w.apply(file.text, apply.Options{})
				for _, c := range d.Changes {
					if c.Action != apply.Unchanged {
						t.Errorf("then %s is to %s, %s", c.Name, c.Action, c.Note)
					}
				}
				if tasks, _, err := w.Tasks(t.Context()); err != nil || len(tasks) != file.tasks {
					t.Errorf("there are %d tasks, %v", len(tasks), err)
				}
			})
		}
	}
}

// race lets several decide, and only then perform, all at once. It returns the number that
// succeeded.
func (w *world) race(file string, n int) (won int) {
	w.t.Helper()
	decisions := make([]*apply.Decision, n)
	for i := range decisions {
		d, err := w.decide(file, apply.Options{})
		if err != nil {
			w.t.Fatal(err)
		}
		decisions[i] = d
	}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i, d := range decisions {
		wg.Go(func() { errs[i] = d.Perform(w.t.Context(), w.Client) })
	}
	wg.Wait()
	for _, err := range errs {
		switch {
		case err == nil:
			won++
		case !types.Is(err, types.Conflict) || !strings.Contains(err.Error(), "read again, decide again"):
			w.t.Errorf("a loser is told %v", err)
		}
	}
	return won
}

// Objects launched from a file do not block later ones of the same file, even with common id
// prefixes.
func TestApplyInPartsOfNamesThatBeginAlike(t *testing.T) {
	w := newWorld(t)
	large := strings.Replace(train, "count: 3", "count: 300", 1)
	file := strings.Replace(large, "name: train", "name: train-fast", 1) + "---\n" + large
	d, err := w.decide(file, apply.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Perform(t.Context(), w.Client); err != nil {
		t.Errorf("it is not applied: %v", err)
	}
	want(t, w.apply(file, apply.Options{}), apply.Unchanged, apply.Unchanged)
}

// Between the decision and its transaction other objects are launched: one with a longer name does
// not matter, and does not hide one that does.
func TestApplyMindsItsOwnNameAlone(t *testing.T) {
	longer := strings.Replace(web, "name: web", "name: web-api", 1)
	for meanwhile, refused := range map[string]bool{longer: false, web + "---\n" + longer: true} {
		w := newWorld(t)
		d, err := w.decide(web, apply.Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range strings.Split(meanwhile, "---\n") {
			w.apply(one, apply.Options{})
		}
		if err := d.Perform(t.Context(), w.Client); refused != types.Is(err, types.Conflict) || !refused && err != nil {
			t.Errorf("after %q: %v", meanwhile, err)
		}
	}
}
