package controlplane_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

func busybox() *types.Spec { return &types.Spec{Image: "busybox", Command: []string{"true"}} }

// one returns a valid task.
func one(id string) controlplane.Submission {
	return controlplane.Submission{ID: id, Task: types.Task{Name: "web", Requests: types.Requests{{Name: "cpu", Amount: 100}}}, Spec: busybox()}
}

func several(n int) []controlplane.Submission {
	spec := busybox()
	out := make([]controlplane.Submission, n)
	for i := range out {
		out[i] = one(fmt.Sprintf("web-%05d", i))
		out[i].Spec = spec
	}
	return out
}

func TestLaunchOne(t *testing.T) {
	w := newWorld(t)
	before := time.Now().UnixNano()
	got, err := w.Launch(t.Context(), one(""))
	if err != nil || len(got.Tasks) != 1 || got.Job != "" || got.Parts != 1 || !strings.HasPrefix(got.Tasks[0], "web-") {
		t.Fatalf("%+v, %v", got, err)
	}
	if n := w.lossy.commits(); n != 1 {
		t.Errorf("it took %d commits", n)
	}
	var task types.Task
	var spec types.Spec
	if !w.get(controlplane.TaskKey("team", got.Tasks[0]), &task) || !w.get(controlplane.SpecKey("team", task.Spec), &spec) {
		t.Fatal("there is no task, or no spec")
	}
	if task.Submitted < before || task.Job != "" || spec.Image != "busybox" || task.Spec != controlplane.SpecDigest(busybox()) {
		t.Errorf("%+v, %+v", task, spec)
	}
	// A second task shares the spec. Launch writes the spec again, so that a collector that found
	// it unused before does not delete it.
	mod := w.mod(controlplane.SpecKey("team", task.Spec))
	if _, err := w.Launch(t.Context(), one("")); err != nil {
		t.Fatal(err)
	}
	unused := controlplane.NewChange(1)
	unused.IfUnchanged(controlplane.SpecKey("team", task.Spec), mod)
	unused.Delete(controlplane.SpecKey("team", task.Spec))
	if res, err := w.store.Commit(t.Context(), unused.Txn()); err != nil || res.Committed {
		t.Error("a spec was taken away that a launch relies on", err)
	}
	// A third one names the stored spec.
	if _, err := w.Launch(t.Context(), controlplane.Submission{Task: types.Task{Spec: task.Spec}}); err != nil {
		t.Fatal(err)
	}
	if !w.get(controlplane.SpecKey("team", task.Spec), &spec) || spec.Image != "busybox" {
		t.Error("the spec is not what it was", spec)
	}
}

func (w *world) mod(key string) int64 {
	w.t.Helper()
	page, err := w.store.List(context.Background(), controlplane.ListOptions{Key: key})
	if err != nil || len(page.KVs) == 0 {
		w.t.Fatal(key, err)
	}
	return page.KVs[0].ModRevision
}

func TestLaunchSeveralIsAJob(t *testing.T) {
	w := newWorld(t)
	got, err := w.Launch(t.Context(), several(3)...)
	if err != nil || got.Parts != 1 || got.Job == "" {
		t.Fatalf("%+v, %v", got, err)
	}
	var task types.Task
	if w.get(controlplane.TaskKey("team", "web-00002"), &task); task.Job != got.Job {
		t.Errorf("the task is of job %q, want %q", task.Job, got.Job)
	}
	var job types.Job
	if !w.get(controlplane.JobKey("team", got.Job), &job) || job.Tasks != 3 || w.mod(controlplane.JobKey("team", got.Job)) != got.Revision {
		t.Errorf("%+v of %+v", job, got)
	}
}

// All tasks of a job, however many, become visible at once: its key is written last.
// TestLaunchWithLabels stores the labels of a job with the job and with its tasks, in order.
func TestLaunchWithLabels(t *testing.T) {
	w := newWorld(t)
	tasks := several(2)
	tasks[1].Task.Labels = []types.Label{{Name: "team", Value: "speech"}, {Name: "stage", Value: "dev"}}
	labels := []types.Label{{Name: "team", Value: "vision"}, {Name: "env", Value: "a"}}
	got, err := w.LaunchJob(t.Context(), controlplane.Job{ID: "train", Labels: labels, Tasks: tasks})
	if err != nil {
		t.Fatal(err)
	}
	var job types.Job
	if w.get(controlplane.JobKey("team", got.Job), &job); types.LabelsText(job.Labels) != "env=a,team=vision" {
		t.Error(job.Labels)
	}
	for i, want := range []string{"env=a,team=vision", "env=a,stage=dev,team=speech"} {
		var task types.Task
		if w.get(controlplane.TaskKey("team", got.Tasks[i]), &task); types.LabelsText(task.Labels) != want {
			t.Errorf("%s, want %s", types.LabelsText(task.Labels), want)
		}
	}
	var many []types.Label
	for i := range types.MaxLabels {
		many = append(many, types.Label{Name: fmt.Sprint("k", i)})
	}
	for want, job := range map[string]controlplane.Job{
		`job.labels.team: "my team" contains ' '`:    {Labels: []types.Label{{Name: "team", Value: "my team"}}, Tasks: several(1)},
		`job.labels.a: is given twice`:               {Labels: []types.Label{{Name: "a"}, {Name: "a", Value: "b"}}, Tasks: several(1)},
		`tasks[1]: labels: has 258: at most 256 are`: {Labels: many, Tasks: tasks},
		`tasks[0]: labels: "a b" contains ' '`:       {Tasks: []controlplane.Submission{{Task: types.Task{Labels: []types.Label{{Name: "a b"}}}, Spec: busybox()}}},
	} {
		if _, err := w.LaunchJob(t.Context(), job); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestLaunchOfAJobInParts(t *testing.T) {
	w := newWorld(t)
	got, err := w.LaunchJob(t.Context(), controlplane.Job{ID: "sweep-1", Name: "sweep", Tasks: several(10000)})
	if err != nil || got.Parts < 2 || len(got.Tasks) != 10000 || got.Job != "sweep-1" {
		t.Fatalf("job %s, %d tasks, %d parts, %v", got.Job, len(got.Tasks), got.Parts, err)
	}
	for _, id := range got.Tasks {
		if rev := w.mod(controlplane.TaskKey("team", id)); rev > got.Revision {
			t.Fatalf("%s came at %d, after its job at %d", id, rev, got.Revision)
		}
	}
	if w.mod(controlplane.JobKey("team", "sweep-1")) != got.Revision {
		t.Error("the job is not of the revision returned")
	}
	w.refused(types.AlreadyExists, func() error {
		_, err := w.LaunchJob(t.Context(), controlplane.Job{ID: "sweep-1", Tasks: several(3)})
		return err
	}, "id sweep-1 was used")
}

// A repeated call with the same ids continues a failed launch.
func TestLaunchGoesOnWhereItFailed(t *testing.T) {
	w := newWorld(t, memstore.WithLimits(controlplane.Limits{Ops: 32, Bytes: 1 << 20}))
	job := controlplane.Job{ID: "sweep-1", Tasks: several(50)}
	ctx, cancel := context.WithCancel(t.Context())
	w.lossy.before = func(n int) {
		if n == 3 {
			cancel()
		}
	}
	if _, err := w.LaunchJob(ctx, job); err == nil {
		t.Fatal("it went through")
	}
	if err := w.has1(controlplane.JobKey("team", "sweep-1")); err {
		t.Fatal("the job is there, incomplete")
	}
	w.lossy.before = nil
	got, err := w.LaunchJob(t.Context(), job)
	if err != nil || len(got.Tasks) != 50 || !w.has1(controlplane.JobKey("team", "sweep-1")) {
		t.Fatalf("%+v, %v", got, err)
	}
	// Other tasks with the same ids, or another job, do not continue it.
	if _, err := w.LaunchJob(t.Context(), controlplane.Job{ID: "other-1", Tasks: several(50)}); !types.Is(err, types.AlreadyExists) {
		t.Errorf("got %v", err)
	}
}

func (w *world) has1(key string) bool {
	page, err := w.store.List(context.Background(), controlplane.ListOptions{Key: key})
	return err == nil && len(page.KVs) == 1
}

func TestLaunchRefuses(t *testing.T) {
	w := newWorld(t, memstore.WithLimits(controlplane.Limits{Ops: 128, Bytes: 1536 << 10}))
	if _, err := w.Launch(t.Context(), one("web-1")); err != nil {
		t.Fatal(err)
	}
	w.put(controlplane.StatusKey("team", "old-1"), &types.Status{Phase: types.Succeeded})
	spoil := func(f func(*controlplane.Submission)) []controlplane.Submission {
		s := one("web-2")
		f(&s)
		return []controlplane.Submission{one("web-3"), s}
	}
	ephemeral := make(map[string]types.Quantity)
	for i := range 30 {
		ephemeral[fmt.Sprintf("e%d", i)] = 1
	}
	for name, c := range map[string]struct {
		class types.Class
		tasks []controlplane.Submission
		says  []string
	}{
		"none":     {types.Invalid, nil, []string{"tasks: is empty"}},
		"requests": {types.Invalid, spoil(func(s *controlplane.Submission) { s.Task.Requests[0].Amount = -1 }), []string{"tasks[1]: requests.cpu: -0.001"}},
		"id":       {types.Invalid, spoil(func(s *controlplane.Submission) { s.ID = "a/b" }), []string{"tasks[1]: id: "}},
		"twice":    {types.Invalid, spoil(func(s *controlplane.Submission) { s.ID = "web-3" }), []string{`tasks[1]: id: "web-3" is given twice`}},
		"no spec":  {types.Invalid, spoil(func(s *controlplane.Submission) { s.Spec = nil }), []string{"tasks[1]: spec: ", "give the spec"}},
		"2 MB": {types.Invalid, spoil(func(s *controlplane.Submission) {
			s.Spec = &types.Spec{Image: "x", Env: []string{"A=" + strings.Repeat("x", 2<<20)}}
		}), []string{"env: has 2097", "image or a file"}},
		"stopped":  {types.Invalid, spoil(func(s *controlplane.Submission) { s.Task.Stop = &types.Stop{} }), []string{"launch the task first"}},
		"all":      {types.Invalid, spoil(func(s *controlplane.Submission) { s.ID, s.Task.Name, s.Spec = "-", " ", &types.Spec{} }), []string{"id: ", "name: ", "image: "}},
		"compares": {types.Invalid, spoil(func(s *controlplane.Submission) { s.Task.Requests = types.NewRequests(ephemeral) }), []string{"may take 158 compares", "takes 128 at once", "--max-txn-ops"}},
		"session":  {types.Precondition, spoil(func(s *controlplane.Submission) { s.Task.Session = "s-1" }), []string{`there is no session "s-1"`}},
		"digest":   {types.NotFound, spoil(func(s *controlplane.Submission) { s.Spec, s.Task.Spec = nil, strings.Repeat("ab", 32) }), []string{"give the spec itself"}},
		"used":     {types.AlreadyExists, []controlplane.Submission{one("web-3"), one("web-1")}, []string{"id web-1 was used"}},
		"was used": {types.AlreadyExists, []controlplane.Submission{one("old-1")}, []string{"id old-1 was used"}},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			w.refused(c.class, func() error {
				_, err := w.Launch(t.Context(), c.tasks...)
				return err
			}, c.says...)
		})
	}
}

func TestLaunchWhileAdmissionIsClosed(t *testing.T) {
	w := newWorld(t)
	w.put(controlplane.AdmissionKey(), &types.Admission{Reason: "the database is 71 % full"})
	w.refused(types.Precondition, func() error {
		_, err := w.Launch(t.Context(), one("web-1"))
		return err
	}, "71 % full", "wait until ended tasks are deleted", "larger quota")
	w.refused(types.Precondition, func() error {
		return w.Reserve(t.Context(), "train", types.Reservation{Bundles: []types.Bundle{{Requests: types.Requests{{Name: "cpu", Amount: 1}}}}})
	}, "71 % full")
	w.delete(controlplane.AdmissionKey())
	if _, err := w.Launch(t.Context(), one("web-1")); err != nil {
		t.Error(err)
	}
}

// A launch is accepted once, whatever the fate of its commits.
func TestLaunchNotAnswered(t *testing.T) {
	for _, fates := range [][]fate{{lost}, {forgotten}, {late}, {late, lost}, {lost, lost}, {forgotten, unavailable, late, lost}} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, memstore.WithLimits(controlplane.Limits{Ops: 32, Bytes: 1 << 20}))
			w.lossy.next(fates...)
			// Another client stores the spec in between, which makes the first copy fail.
			w.lossy.before = func(n int) {
				if n == 2 && fates[0] != lost {
					w.put(controlplane.SpecKey("team", controlplane.SpecDigest(busybox())), busybox())
				}
			}
			got, err := w.LaunchJob(t.Context(), controlplane.Job{ID: "sweep-1", Tasks: several(40)})
			if err != nil || len(got.Tasks) != 40 {
				t.Fatalf("%v: %+v, %v", fates, got, err)
			}
			for _, id := range got.Tasks {
				var task types.Task
				if !w.get(controlplane.TaskKey("team", id), &task) || w.writes(controlplane.TaskKey("team", id)) != 1 {
					t.Fatalf("%v: %s was written %d times", fates, id, w.writes(controlplane.TaskKey("team", id)))
				}
			}
		})
	}
}

// writes returns the number of puts of a key.
func (w *world) writes(key string) int {
	n := 0
	for _, b := range w.store.Events(2) {
		for _, e := range b.Events {
			if e.Key == key && !e.Delete {
				n++
			}
		}
	}
	return n
}

// TestLaunchNumbersTasks gives the tasks of a job their index and count, and lists the members of a
// job with peers.
func TestLaunchNumbersTasks(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("n", types.MaxName)
	for name, c := range map[string]struct {
		peers   types.Peers
		name    string
		tasks   int
		given   bool
		members bool
	}{
		"a job":               {tasks: 3, name: "a"},
		"a job of one":        {tasks: 1, name: "b"},
		"a job with peers":    {peers: types.WholePeers, tasks: 12, name: "c", members: true},
		"names of 63 bytes":   {peers: types.RunningPeers, tasks: 3, name: long, members: true},
		"the index was given": {tasks: 2, name: "d", given: true},
	} {
		t.Run(name, func(t *testing.T) {
			spec := busybox()
			spec.Peers = c.peers
			tasks := make([]controlplane.Submission, c.tasks)
			for i := range tasks {
				tasks[i] = controlplane.Submission{Task: types.Task{Name: c.name}, Spec: spec}
				if c.given {
					tasks[i].Task.Index, tasks[i].Task.Count = 7+i, 10
				}
			}
			got, err := w.LaunchJob(t.Context(), controlplane.Job{Name: "j", Tasks: tasks})
			if err != nil {
				t.Fatal(err)
			}
			for i, id := range got.Tasks {
				var task types.Task
				index, count := i, c.tasks
				if c.given {
					index, count = 7+i, 10
				}
				if !w.get(controlplane.TaskKey("team", id), &task) || task.Index != index || task.Count != count {
					t.Errorf("%s is number %d of %d", id, task.Index, task.Count)
				}
			}
			var job types.Job
			if !w.get(controlplane.JobKey("team", got.Job), &job) || c.members != slices.Equal(job.Members, got.Tasks) {
				t.Errorf("the members are %v", job.Members)
			}
		})
	}
	spec := busybox()
	many := several(types.MaxPeers + 1)
	for i := range many {
		many[i].Spec = spec
	}
	spec.Peers = types.RunningPeers
	_, err := w.Launch(t.Context(), many...)
	if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "spec.peers: the job has 1025 tasks") {
		t.Error(err)
	}
	spec.Peers = types.WholePeers
	large, err := w.LaunchJob(t.Context(), controlplane.Job{Name: "large", Tasks: many})
	var job types.Job
	if err != nil || !w.get(controlplane.JobKey("team", large.Job), &job) || !slices.Equal(job.Members, large.Tasks[:1]) {
		t.Errorf("%v: of a large job the first task alone is listed: %v", err, job.Members)
	}
	one := one("only")
	if _, err := w.Launch(t.Context(), one); err != nil {
		t.Fatal(err)
	}
	var task types.Task
	if !w.get(controlplane.TaskKey("team", "only"), &task) || task.Count != 0 {
		t.Errorf("a task without a job has the count %d", task.Count)
	}
}
