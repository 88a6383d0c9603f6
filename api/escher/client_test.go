package escher_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/escher"
	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
)

// clients returns a client outside of tasks, one in the task "me" of n00, and a generated one over the HTTP
// API, of one cluster.
func clients(t *testing.T) map[string]*escher.Client {
	t.Helper()
	c, err := hollow.Start(t.Context(), hollow.Config{Nodes: hollow.Nodes(2, 4)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	jobs, err := c.Client("d")
	if err != nil {
		t.Fatal(err)
	}
	outside := escher.Over(jobs)
	me, err := outside.Run(t.Context(), task("me", nil, "stop", "1ms"))
	if err != nil {
		t.Fatal(err)
	}
	running, err := outside.Wait(t.Context(), escher.UntilRunning, me)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "s")
	serve(t, c.Store, dir, tasksocket.Self{Namespace: "d", Task: me, Attempt: 1, Node: running[me].Node})
	inside, err := escher.Connect(t.Context(), escher.WithEnvironment(environment{tasksocket.EnvSocket: filepath.Join(dir, tasksocket.Name)}.get))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inside.Close() })
	return map[string]*escher.Client{"outside": outside, "inside": inside, "generated": overHTTP(t, c.Store)}
}

// serve serves the socket of a task in a directory.
func serve(t *testing.T, store controlplane.Store, dir string, self tasksocket.Self) {
	t.Helper()
	client, err := controlplane.New(store, self.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	s, err := tasksocket.Listen(tasksocket.Config{Dir: dir, Client: client, Self: self, API: rest.ForTasks(rest.Config{Store: store, Now: time.Now})})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

type environment map[string]string

func (e environment) get(name string) string { return e[name] }

// task returns a task of a hollow cluster.
func task(name string, requests map[string]string, command ...string) escher.Task {
	return escher.Task{Name: name, Requests: escher.MustRequests(requests), Spec: escher.Spec{Image: "example:1", Command: command}}
}

// TestSameProgram runs one program outside of tasks, in a task, and over the HTTP API.
func TestSameProgram(t *testing.T) {
	for place, client := range clients(t) {
		t.Run(place, func(t *testing.T) {
			for name, part := range map[string]func(context.Context, *escher.Client, string) error{
				"resources": resources, "jobs": jobs, "change": change, "watch": watch, "reservation": reservation, "gang": runGang, "wrong": wrong,
			} {
				t.Run(name, func(t *testing.T) {
					if err := part(t.Context(), client, place+"-"+name); err != nil {
						t.Error(err)
					}
				})
			}
		})
	}
}

// resources sets resources at each kind of place.
func resources(ctx context.Context, c *escher.Client, name string) error {
	for i, x := range []struct {
		at   []escher.ResourceOption
		want string
	}{
		{nil, "n00 n01"},
		{[]escher.ResourceOption{escher.OnNodes("n01")}, "n01"},
		{[]escher.ResourceOption{escher.OnNodesWithFree(escher.MustRequests(map[string]string{"cpu": "500m"}))}, "n00 n01"},
		{[]escher.ResourceOption{escher.InCluster()}, "cluster"},
		{[]escher.ResourceOption{escher.InCluster(), escher.KeptAtZero()}, "cluster"},
	} {
		resource, capacity := fmt.Sprintf("%s-%d", name, i), escher.Whole(2)
		if i == 4 {
			capacity = "0"
		}
		if err := c.SetResource(ctx, resource, capacity, x.at...); err != nil {
			return fmt.Errorf("%d: %w", i, err)
		}
		s, err := c.State(ctx)
		if err != nil {
			return err
		}
		var there []string
		for _, n := range s.Nodes {
			if a, ok := n.Get(resource); ok && a.Capacity == types.Whole(2) {
				there = append(there, n.Name)
			}
		}
		if _, ok := s.Pool(resource); ok {
			there = append(there, "cluster")
		}
		if got := strings.Join(there, " "); got != x.want {
			return fmt.Errorf("%d: it is at %q, want %q", i, got, x.want)
		}
	}
	return nil
}

// jobs submits a job, waits for it, and stops a task.
func jobs(ctx context.Context, c *escher.Client, name string) error {
	tasks := append(escher.Copies(2, task(name, map[string]string{"cpu": "100m"}, "run", "10ms")), task(name, nil, "stop", "1ms"))
	l, err := c.Submit(ctx, escher.Job{Name: name, Labels: map[string]string{"by": "test"}, Tasks: tasks})
	if err != nil {
		return err
	}
	if l.Job == "" || len(l.Tasks) != 3 {
		return fmt.Errorf("launched %+v", l)
	}
	ended, err := c.Wait(ctx, escher.UntilEnded, l.Tasks[:2]...)
	if err != nil {
		return err
	}
	for id, s := range ended {
		if s.Phase != types.Succeeded || s.Node == "" || s.Started == nil {
			return fmt.Errorf("%s is %+v", id, s)
		}
	}
	if err := c.Stop(ctx, l.Tasks[2], escher.Because("the test is over"), escher.Within(time.Second)); err != nil {
		return err
	}
	if _, err := c.Wait(ctx, escher.UntilEnded, l.Tasks[2]); err != nil {
		return err
	}
	s, err := c.Status(ctx, l.Tasks[2])
	if err != nil || s.Phase != types.Cancelled || !strings.Contains(s.Reason, "the test is over") || s.Labels["by"] != "test" {
		return fmt.Errorf("%w: it is %+v", err, s)
	}
	all, err := c.Tasks(ctx)
	if err != nil || !slices.ContainsFunc(all, func(s escher.Status) bool { return s.ID == l.Tasks[0] }) {
		return fmt.Errorf("%w: the tasks are %+v", err, all)
	}
	return nil
}

// change makes changes together, on a condition.
func change(ctx context.Context, c *escher.Client, name string) error {
	var s *escher.State
	var done []escher.Launched
	err := error(types.Conflict)
	for errors.Is(err, types.Conflict) { // what other parts submitted may still be ending
		if s, err = c.State(ctx, escher.ForChange()); err == nil {
			done, err = c.Change().If(s).SetResource(name, "1", escher.InCluster()).
				Submit(escher.Job{ID: name, Tasks: []escher.Task{task("one", map[string]string{name: "1"}, "run", "1ms")}}).Commit(ctx)
		}
	}
	if err != nil {
		return err
	}
	if len(done) != 1 || done[0].Job != name {
		return fmt.Errorf("launched %+v", done)
	}
	if _, err := c.Wait(ctx, escher.UntilEnded, done[0].Tasks...); err != nil {
		return err
	}
	// The state has changed since.
	done, err = c.Change().If(s).SetResource(name, "2", escher.InCluster()).
		Submit(escher.Job{ID: name + "-2", Tasks: []escher.Task{task("two", nil, "run", "1ms")}}).Commit(ctx)
	if !errors.Is(err, types.Conflict) || len(done) != 0 {
		return fmt.Errorf("a change by a former state: %w, launched %+v", err, done)
	}
	if s, err = c.State(ctx); err != nil {
		return err
	}
	if a, _ := s.Pool(name); a.Capacity != types.Whole(1) {
		return fmt.Errorf("the pool is %+v", a)
	}
	_, err = c.Change().If(s).Commit(ctx)
	if !errors.Is(err, types.Invalid) || !strings.Contains(err.Error(), "ForChange") {
		return fmt.Errorf("a state without what is compared: %w", err)
	}
	return nil
}

// watch follows a task to its end.
func watch(ctx context.Context, c *escher.Client, name string) error {
	id, err := c.Run(ctx, task(name, nil, "run", "20ms"))
	if err != nil {
		return err
	}
	for change, err := range c.Watch(ctx, id) {
		if err != nil {
			return err
		}
		if change.ID == id && change.Phase == types.Succeeded {
			return nil
		}
	}
	return errors.New("the watch has ended")
}

// reservation locks a bundle, and ends it.
func reservation(ctx context.Context, c *escher.Client, name string) error {
	r := escher.Reservation{ID: name, Bundles: []escher.Bundle{{Requests: escher.MustRequests(map[string]string{"cpu": "1"})}}}
	if err := c.Reserve(ctx, r); err != nil {
		return err
	}
	id, err := c.Run(ctx, task(name, map[string]string{"cpu@" + name: "1"}, "run", "1ms"))
	if err != nil {
		return err
	}
	if _, err := c.Wait(ctx, escher.UntilEnded, id); err != nil {
		return err
	}
	if err := c.Unreserve(ctx, name); err != nil {
		return err
	}
	if _, err := c.Change().Reserve(escher.Reservation{ID: name + "-2", Bundles: r.Bundles}).Commit(ctx); err != nil {
		return err
	}
	_, err = c.Change().Unreserve(name + "-2").Commit(ctx)
	return err
}

// runGang submits a gang.
func runGang(ctx context.Context, c *escher.Client, name string) error {
	job := escher.Job{Name: name, Tasks: escher.Copies(2, task(name, map[string]string{"cpu": "1"}, "run", "1ms"))}
	l, err := c.Submit(ctx, job, gang.Gang{})
	if err != nil {
		return err
	}
	ended, err := c.Wait(ctx, escher.UntilEnded, l.Tasks...)
	if err != nil {
		return err
	}
	if a, b := ended[l.Tasks[0]], ended[l.Tasks[1]]; a.Phase != types.Succeeded || !a.Bound.Equal(*b.Bound) {
		return fmt.Errorf("they are %+v and %+v, and not bound at once", a, b)
	}
	if l, err = c.Submit(ctx, job, &gang.Gang{}); err == nil {
		_, err = c.Wait(ctx, escher.UntilEnded, l.Tasks...)
	}
	return err
}

// night is a policy of this program, which no agent knows.
type night struct{}

func (night) Kind() string             { return "acme.com/night" }
func (night) Apply(*esl.Group) error   { return nil }
func (night) Next(*esl.State) esl.Plan { return esl.Plan{} }

// wrong is refused alike, with a class.
func wrong(ctx context.Context, c *escher.Client, name string) error {
	for what, x := range map[string]struct {
		err   error
		class types.Class
		names string
	}{
		"amount":    {c.SetResource(ctx, name, "much"), types.Invalid, "much"},
		"name":      {c.SetResource(ctx, "a b", "1"), types.Invalid, "a b"},
		"node":      {c.SetResource(ctx, name, "1", escher.OnNodes("nowhere")), types.Invalid, "nowhere"},
		"no task":   {c.Stop(ctx, "nothing"), types.NotFound, "nothing"},
		"no image":  {second(c.Run(ctx, escher.Task{Name: "x"})), types.Invalid, "image"},
		"no tasks":  {second(c.Submit(ctx, escher.Job{Name: "x"})), types.Invalid, "task"},
		"no policy": {second(c.Submit(ctx, escher.Job{Name: "x"}, nil)), types.Invalid, "policies[0]"},
		"no state":  {second(c.Change().If(nil).Commit(ctx)), types.Invalid, "ForChange"},
		"wait":      {second(c.Wait(ctx, escher.UntilEnded, "nothing")), types.NotFound, "nothing"},
		"wait what": {second(c.Wait(ctx, "soon", "nothing")), types.Invalid, "soon"},
	} {
		if !errors.Is(x.err, x.class) || !strings.Contains(x.err.Error(), x.names) {
			return fmt.Errorf("%s: %w, want class %s and %q", what, x.err, x.class, x.names)
		}
	}
	return nil
}

func second[T any](_ T, err error) error { return err }

// TestHold holds a unit of a resource in a task, in turn, and not outside.
func TestHold(t *testing.T) {
	both := clients(t)
	inside := both["inside"]
	if _, err := both["outside"].Hold(t.Context(), "turn", 0); !errors.Is(err, types.Precondition) {
		t.Errorf("outside of tasks: %v", err)
	}
	if err := inside.SetResource(t.Context(), "turn", "1", escher.OnThisNode()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		release, err := inside.Hold(t.Context(), "turn", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		release()
	}
}

// TestOnlyOutside explains a task, and submits a job with a policy of its own. A task cannot, and is
// told so.
func TestOnlyOutside(t *testing.T) {
	both := clients(t)
	outside, inside := both["outside"], both["inside"]
	if _, ok := outside.Self(); ok {
		t.Error("a program outside of tasks is a task")
	}
	if self, ok := inside.Self(); !ok || self.Node == "" || inside.Namespace() != "d" {
		t.Errorf("the task is %+v, of namespace %s", self, inside.Namespace())
	}
	before, err := outside.Run(t.Context(), task("before", map[string]string{"cpu": "3"}, "stop", "1ms"))
	if err == nil {
		_, err = outside.Wait(t.Context(), escher.UntilRunning, before)
	}
	if err != nil {
		t.Fatal(err)
	}
	job := escher.Job{Name: "large", Tasks: escher.Copies(2, task("large", map[string]string{"cpu": "3"}, "run", "1ms"))}
	l, err := outside.Submit(t.Context(), job, gang.Gang{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := outside.Why(t.Context(), l.Tasks[0])
	if err != nil || w.Phase != string(types.Pending) || len(w.Reasons) == 0 || !strings.Contains(w.String(), "1 of 2 members") || strings.Contains(w.String(), "escher ") {
		t.Errorf("%v: it says %s (%+v)", err, w, w.Reasons)
	}
	if w, err := outside.WhyJob(t.Context(), l.Job); err != nil || !strings.Contains(w.String(), "1 of 2 members") {
		t.Errorf("%v: of the job, it says %s", err, w)
	}
	if _, err := outside.Submit(t.Context(), job, night{}); err != nil {
		t.Error(err)
	}
	for what, err := range map[string]error{
		"policies": second(inside.Submit(t.Context(), job, night{})), "why": second(inside.Why(t.Context(), l.Tasks[0])),
		"job": second(inside.WhyJob(t.Context(), l.Job)), "run": inside.RunPolicies(t.Context()),
	} {
		if !errors.Is(err, types.Precondition) || !strings.Contains(err.Error(), "outside of tasks") {
			t.Errorf("%s: %v", what, err)
		}
	}
	for says, opt := range map[string]escher.ResourceOption{"where: the default": escher.OnThisNode(), "owner: the default is the task": escher.EndsWithTask()} {
		if err := outside.SetResource(t.Context(), "here", "1", opt); !errors.Is(err, types.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("outside of tasks: %v, want %q", err, says)
		}
	}
	if err := inside.SetResource(t.Context(), "here", "1", escher.OnThisNode(), escher.EndsWithTask()); err != nil {
		t.Error(err)
	}
}
