package apply_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/types"
)

// service is a job of two tasks with an update.
func service(image, update string) string {
	return header + "kind: Job\nname: web\ncount: 2\nupdate: " + update + "\ntemplate: {deadline: 5h, spec: {image: " + image + ", grace: 1s}}\n"
}

// rolled is a world in which tasks run: a loop stands for scheduler and agents.
type rolled struct{ *world }

// rollIn runs f in a world whose time passes only while all wait.
func rollIn(t *testing.T, f func(t *testing.T, w *rolled)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := &rolled{newWorld(t)}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for ctx.Err() == nil {
				w.operate()
				time.Sleep(250 * time.Millisecond)
			}
		}()
		defer func() {
			cancel()
			<-ended
		}()
		f(t, w)
	})
}

// operate advances each task by one phase. Images of the name crash fail, and those of the name ill
// are never healthy.
func (w *rolled) operate() {
	tasks, _, err := w.Tasks(context.Background())
	if err != nil {
		w.t.Error(err)
	}
	for i := range tasks {
		task := &tasks[i]
		now := time.Now().UnixNano()
		s := task.Status
		next := types.Status{Attempt: 1, Phase: types.Running, Health: types.HealthStarting, Node: "n1", Started: now}
		spec, err := w.Spec(context.Background(), task.Task.Spec)
		switch {
		case err != nil:
			w.t.Error(err)
		case task.Phase().Ended():
			continue
		case task.Task.Stop != nil:
			next = types.Status{Attempt: task.Attempt(), Phase: types.Cancelled, Reason: "stopped"}
		case s == nil:
		case s.Phase == types.Pending:
			next.Attempt = s.Attempt + 1
		case spec.Image == "crash":
			next.Phase, next.ExitCode, next.Health = types.Failed, 3, ""
		case spec.Image == "ill" || s.Health == types.Healthy || now-s.Started < int64(time.Second):
			continue
		default:
			next = *s
			next.Health = types.Healthy
		}
		w.put(task.ID, &next)
	}
}

// pass lets time pass.
func (w *rolled) pass(d time.Duration) { time.Sleep(d) }

func (w *rolled) put(id string, s *types.Status) {
	change := controlplane.NewChange(controlplane.NewBatch())
	change.Put(controlplane.StatusKey("team", id), s)
	if _, err := w.store.Commit(context.Background(), change.Txn()); err != nil {
		w.t.Error(err)
	}
}

// started applies a file and waits until its tasks are healthy.
func (w *rolled) started(file string) (revision int64) {
	w.t.Helper()
	d := w.apply(file, apply.Options{})
	if _, err := w.Wait(w.t.Context(), controlplane.UntilHealthy, d.Launched()...); err != nil {
		w.t.Fatal(err)
	}
	return w.revision()
}

// again applies a file with a client, which may fail, and returns the lines told.
func (w *rolled) again(ctx context.Context, c *controlplane.Client, file string) (told []string, err error) {
	d, err := w.decide(file, apply.Options{Replace: true})
	if err != nil {
		return nil, err
	}
	d.Told = func(s apply.Step) { told = append(told, s.String()) }
	return told, d.Perform(ctx, c)
}

// moment is the state of the tasks at one revision.
type moment struct {
	revision int64
	// healthy are the tasks that work and are not to stop, held those on a node.
	healthy, held int
}

// moments returns the states at all revisions after one.
func (w *rolled) moments(after int64) []moment {
	w.t.Helper()
	ctx, cancel := context.WithCancel(w.t.Context())
	defer cancel()
	now := w.revision()
	tasks, statuses := make(map[string]*types.Task), make(map[string]*types.Status)
	var out []moment
	for batch := range w.store.Watch(ctx, controlplane.WatchOptions{Prefix: controlplane.Root, From: 1}) {
		if batch.Err != nil {
			w.t.Fatal(batch.Err)
		}
		for i, e := range batch.Events {
			k, _ := controlplane.Parse(e.Key)
			task, status := new(types.Task), new(types.Status)
			switch {
			case k.Kind == controlplane.Tasks && e.Delete:
				delete(tasks, k.ID)
			case k.Kind == controlplane.Statuses && e.Delete:
				delete(statuses, k.ID)
			case k.Kind == controlplane.Tasks && controlplane.Read(e.KV, task):
				tasks[k.ID] = task
			case k.Kind == controlplane.Statuses && controlplane.Read(e.KV, status):
				statuses[k.ID] = status
			}
			if last := i+1 == len(batch.Events); e.ModRevision <= after || !last && batch.Events[i+1].ModRevision == e.ModRevision {
				continue
			}
			m := moment{revision: e.ModRevision}
			for id, s := range statuses {
				if s.Phase.Held() {
					m.held++
				}
				if task := tasks[id]; task != nil && task.Stop == nil && s.Phase == types.Running && s.Health.Usable() {
					m.healthy++
				}
			}
			out = append(out, m)
		}
		if batch.Revision >= now {
			return out
		}
	}
	return out
}

// keeps checks a guarantee at every revision.
func (w *rolled) keeps(after int64, guarantee string, holds func(moment) bool) {
	w.t.Helper()
	all := w.moments(after)
	for _, m := range all {
		if !holds(m) {
			w.t.Errorf("%s, but at revision %d: %+v", guarantee, m.revision, m)
			return
		}
	}
}

// runs checks that exactly these tasks are left: index and image, sorted; and that a further apply of
// the file writes nothing.
func (w *rolled) runs(file string, want ...string) {
	w.t.Helper()
	tasks, _, err := w.Tasks(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	var got []string
	for i := range tasks {
		spec, err := w.Spec(w.t.Context(), tasks[i].Task.Spec)
		if err != nil {
			w.t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d %s %s", tasks[i].Task.Index, spec.Image, tasks[i].Phase()))
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		w.t.Errorf("there are %q, want %q", got, want)
	}
	jobs, _, err := controlplane.ListAll(w.t.Context(), w.store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Jobs, "team")})
	if err != nil || len(jobs) != 1 {
		w.t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	var j types.Job
	if !controlplane.Read(jobs[0], &j) || j.Updating || j.Tasks != len(want) {
		w.t.Errorf("the job is %+v", j)
	}
	before := w.revision()
	d := w.apply(file, apply.Options{})
	if d.Changes[0].Action != apply.Unchanged || w.revision() != before {
		w.t.Errorf("a further apply is to %s: %v", d.Changes[0].Action, d.Changes[0].Differences)
	}
}

const (
	stopFirst  = "{healthy: 2s, timeout: 1m}"
	startFirst = "{order: start-first, healthy: 2s, timeout: 1m}"
)

func atLeastTwo(m moment) bool { return m.healthy >= 2 }
func atMostTwo(m moment) bool  { return m.held <= 2 }
func atLeastOne(m moment) bool { return m.healthy >= 1 }

func TestUpdateOfOneAfterTheOther(t *testing.T) {
	for update, holds := range map[string]func(moment) bool{
		startFirst: atLeastTwo,
		stopFirst:  func(m moment) bool { return atMostTwo(m) && atLeastOne(m) },
	} {
		rollIn(t, func(t *testing.T, w *rolled) {
			since := w.started(service("a", update))
			w.blocked(service("b", update), apply.Options{}, types.Precondition, "2 of the tasks of web-", "spec.image: a → b", "allow replacing to replace them")
			told, err := w.again(t.Context(), w.Client, service("b", update))
			if err != nil {
				t.Fatal(err)
			}
			if len(told) != 2 || !strings.Contains(told[0], "(1 of 2)") || !strings.Contains(told[1], "web: replaced web-") {
				t.Errorf("it says %q", told)
			}
			w.keeps(since, update, holds)
			w.runs(service("b", update), "0 b running", "1 b running")
		})
	}
}

// All at once, in the order of the update.
func TestUpdateOfSeveralAtOnce(t *testing.T) {
	rollIn(t, func(t *testing.T, w *rolled) {
		file := func(image string) string {
			return strings.Replace(service(image, "{atOnce: 4, order: start-first}"), "count: 2", "count: 6", 1)
		}
		since := w.started(file("a"))
		begin := time.Now()
		if _, err := w.again(t.Context(), w.Client, file("b")); err != nil {
			t.Fatal(err)
		}
		w.keeps(since, "6 are healthy, and at most 10 are held", func(m moment) bool { return m.healthy >= 6 && m.held <= 10 })
		if took := time.Since(begin); took < 20*time.Second || took > 50*time.Second {
			t.Errorf("two batches took %s", took)
		}
	})
}

func TestUpdateOfTheNumberOfTasks(t *testing.T) {
	for _, update := range []string{"", "update: " + startFirst + "\n"} {
		rollIn(t, func(t *testing.T, w *rolled) {
			file := func(n int) string {
				return fmt.Sprintf("%skind: Job\nname: web\ncount: %d\n%stemplate: {deadline: 5h, spec: {image: a}}\n", header, n, update)
			}
			w.started(file(2))
			before, _, _ := w.Tasks(t.Context())
			d := w.apply(file(3), apply.Options{})
			if c := d.Changes[0]; c.Action != apply.Update || c.InPlace.Adds != "2" || len(d.Launched()) != 1 || c.Tasks != 1 {
				t.Errorf("it is to %s, %+v", c.Action, c.InPlace)
			}
			for _, was := range before {
				if is, err := w.Status(t.Context(), was.ID); err != nil || is.Task.Stop != nil || is.Attempt() != 1 {
					t.Errorf("%s was touched: %v", was.ID, err)
				}
			}
			time.Sleep(2 * time.Minute) // deadlines of later tasks count from their own launch
			w.runs(file(3), "0 a running", "1 a running", "2 a running")
			w.blocked(file(1), apply.Options{}, types.Precondition, "tasks: 3 → 1", "has more tasks than described")
			d = w.apply(file(1), apply.Options{Replace: true})
			if got := d.Changes[0].InPlace.Removes; len(got) != 2 {
				t.Errorf("it removes %q", got)
			}
			w.runs(file(1), "0 a running")
			w.apply(file(2), apply.Options{})
			time.Sleep(time.Second)
			w.runs(file(2), "0 a running", "1 a running")
		})
	}
}

// The number and the content at once: a further task first, a surplus one away first.
func TestUpdateOfNumberAndContent(t *testing.T) {
	rollIn(t, func(t *testing.T, w *rolled) {
		file := func(image string, n int) string {
			return strings.Replace(service(image, startFirst), "count: 2", fmt.Sprint("count: ", n), 1)
		}
		since := w.started(file("a", 2))
		if _, err := w.again(t.Context(), w.Client, file("b", 3)); err != nil {
			t.Fatal(err)
		}
		w.keeps(since, "2 are healthy", atLeastTwo)
		w.runs(file("b", 3), "0 b running", "1 b running", "2 b running")
		if _, err := w.again(t.Context(), w.Client, file("c", 2)); err != nil {
			t.Fatal(err)
		}
		w.keeps(since, "2 are healthy", atLeastTwo)
		w.runs(file("c", 2), "0 c running", "1 c running")
	})
}
