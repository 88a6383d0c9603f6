package gateway_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/escher-sched/escher/api/escher"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// program returns the client of a program of a subject in a namespace.
func (w *world) program(subject, ns string) *escher.Client {
	w.t.Helper()
	_, token, err := w.MakeToken(w.t.Context(), caller(w.t), types.Credential{Subject: subject}, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	w.bearing(token) // it is known by now
	w.t.Setenv("ESCHER_SERVER", "http://"+w.address)
	w.t.Setenv("ESCHER_TOKEN", token)
	w.t.Setenv("ESCHER_NAMESPACE", ns)
	client, err := escher.Connect(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = client.Close() })
	return client
}

// TestScheduler: a scheduler with its rights binds what the program of a member of a namespace submits.
func TestScheduler(t *testing.T) {
	w := start(t, nil)
	w.grant("scheduler", types.Right{
		Subjects: []string{"service:s"}, Role: rights.Viewer, Allow: []string{"read bindings", "write bindings"}, Namespaces: []string{types.Everywhere},
	})
	w.grant("alice", types.Right{Subjects: []string{"user:alice"}, Role: rights.Member, Namespaces: []string{"a"}})
	store, _ := w.as("service:s")
	alice, _ := w.as("user:alice")
	w.put(map[string]types.Message{
		controlplane.NodeKey("n1"):  &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000, "memory": 1 << 30})},
		controlplane.AliveKey("n1"): &types.Alive{},
	})
	go func() {
		_ = scheduler.Run(t.Context(), store, scheduler.Config{Name: "s"}, zaptest.NewLogger(t))
	}()
	client := w.program("user:alice", "a")
	if err := client.SetResource(t.Context(), "license", "2", escher.InCluster()); err != nil {
		t.Fatal(err)
	}
	if state, err := client.State(t.Context()); err != nil || len(state.Nodes) != 1 {
		t.Errorf("the state: %+v, %v", state, err)
	}
	launched, err := client.Submit(t.Context(), escher.Job{Name: "t", Tasks: []escher.Task{{
		Name: "t", Requests: escher.MustRequests(map[string]string{"cpu": "1", "license": "1"}), Spec: escher.Spec{Image: "busybox"},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	w.await("the task is bound", func() bool {
		var s types.Status
		kv, err := controlplane.Get(t.Context(), alice, controlplane.StatusKey("a", launched.Tasks[0]))
		return err == nil && controlplane.Read(kv, &s) && s.Phase == types.Bound
	})
}

// TestPolicies: a program with the rights of a member of a namespace runs the policies of its jobs.
func TestPolicies(t *testing.T) {
	w := start(t, nil)
	w.grant("scheduler", types.Right{
		Subjects: []string{"service:s"}, Role: rights.Viewer, Allow: []string{"read bindings", "write bindings"}, Namespaces: []string{types.Everywhere},
	})
	w.grant("alice", types.Right{Subjects: []string{"user:alice"}, Role: rights.Member, Namespaces: []string{"a"}})
	store, _ := w.as("service:s")
	w.put(map[string]types.Message{
		controlplane.NodeKey("n1"):  &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000, "memory": 1 << 30})},
		controlplane.AliveKey("n1"): &types.Alive{},
	})
	client := w.program("user:alice", "a")
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = scheduler.Run(ctx, store, scheduler.Config{Name: "s"}, zap.NewNop()) })
	running.Go(func() { _ = client.RunPolicies(ctx, func() esl.Policy { return new(gang.Gang) }) })
	defer running.Wait()
	defer cancel()
	task := escher.Task{Name: "t", Requests: escher.MustRequests(map[string]string{"cpu": "2"}), Spec: escher.Spec{Image: "busybox"}}
	job, err := client.Submit(ctx, escher.Job{Name: "pair", Tasks: escher.Copies(2, task)}, gang.Gang{})
	if err != nil {
		t.Fatal(err)
	}
	w.await("both are bound", func() bool {
		return !slices.ContainsFunc(job.Tasks, func(id string) bool {
			var s types.Status
			kv, err := controlplane.Get(t.Context(), w.direct, controlplane.StatusKey("a", id))
			return err != nil || !controlplane.Read(kv, &s) || s.Phase != types.Bound
		})
	})
}

// TestShareOfAnotherNamespace: the program of a member submits jobs to a namespace each of whose jobs takes part
// in a fair-share of another namespace, of which it reads nothing else. The share is that of the member.
func TestShareOfAnotherNamespace(t *testing.T) {
	w := start(t, nil)
	w.grant("alice", types.Right{Subjects: []string{"user:alice"}, Role: rights.Member, Namespaces: []string{"a"}})
	w.grant("bob", types.Right{Subjects: []string{"user:bob"}, Role: rights.Member, Namespaces: []string{"b"}})
	lab, err := esl.Stored(share.FairShare{Of: map[string]share.Team{"a": {Anyone: 1}}, Over: []string{"cpu"}})
	if err != nil {
		t.Fatal(err)
	}
	w.put(map[string]types.Message{
		controlplane.NodeKey("n1"):              &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000})},
		controlplane.NamespaceKey("a"):          &types.Namespace{Policies: []types.NamespacePolicy{{Name: "org:lab", Required: true}}},
		controlplane.PoliciesKey("org", "lab"):  &types.Policies{Policies: []types.Policy{lab}},
		controlplane.PoliciesKey("org", "else"): &types.Policies{Policies: []types.Policy{lab}},
	})
	alice, _ := w.as("user:alice")
	bob, _ := w.as("user:bob")
	for name, c := range map[string]struct {
		store  controlplane.Store
		policy string
		denied bool
	}{"alice": {alice, "lab", false}, "another policy": {alice, "else", true}, "bob": {bob, "lab", true}} {
		if kv, err := controlplane.Get(t.Context(), c.store, controlplane.PoliciesKey("org", c.policy)); types.Is(err, types.Denied) != c.denied || !c.denied && kv.ModRevision == 0 {
			t.Errorf("%s: %v, %v", name, kv, err)
		}
	}
	client := w.program("user:alice", "a")
	task := escher.Task{Name: "t", Requests: escher.MustRequests(map[string]string{"cpu": "1"}), Spec: escher.Spec{Image: "busybox"}}
	if _, err := client.Submit(t.Context(), escher.Job{Name: "j", Tasks: escher.Copies(2, task)}, esl.Use{Name: "org:lab", As: "a/bob"}); !types.Is(err, types.Denied) {
		t.Errorf("the share of bob: %v", err)
	}
	job, err := client.Submit(t.Context(), escher.Job{Name: "j", Tasks: escher.Copies(2, task)}, esl.Use{Name: "org:lab", As: "a/alice"})
	if err != nil {
		t.Fatal(err)
	}
	kv, err := controlplane.Get(t.Context(), w.direct, controlplane.TaskKey("a", job.Tasks[0]))
	var is types.Task
	if err != nil || !controlplane.Read(kv, &is) || is.User != "alice" || is.Requests.Get("org..lab.fair-share.a.alice.cpu") != 1000 {
		t.Errorf("%+v, %v", is, err)
	}
}

// TestApplication: a member of a namespace does all that an application does, through the gateway.
func TestApplication(t *testing.T) {
	w := start(t, nil)
	w.grant("alice", types.Right{Subjects: []string{"user:alice"}, Role: rights.Member, Namespaces: []string{"a"}})
	alice, _ := w.as("user:alice")
	w.put(map[string]types.Message{controlplane.NodeKey("n1"): &types.Node{Capacity: types.NewRequests(map[string]types.Quantity{"cpu": 4000, "memory": 1 << 30})}})
	ctx := t.Context()
	c, err := controlplane.New(alice, "a")
	if err != nil {
		t.Fatal(err)
	}
	task := func() controlplane.Submission {
		return controlplane.Submission{Task: types.Task{Name: "t", Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}, Spec: &types.Spec{Image: "busybox"}}
	}
	session, err := c.OpenSession(ctx, "s", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var job controlplane.Launched
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"set", func() error {
			_, err := c.SetResource(ctx, "x", 1000, controlplane.Where{Cluster: true}, controlplane.SetOptions{})
			return err
		}},
		{"set again", func() error {
			_, err := c.SetResource(ctx, "x", 2000, controlplane.Where{Cluster: true}, controlplane.SetOptions{})
			return err
		}},
		{"launch a job", func() (err error) {
			job, err = c.LaunchJob(ctx, controlplane.Job{ID: "j", Name: "j", Tasks: []controlplane.Submission{task(), task()}})
			return err
		}},
		{"stop", func() error {
			return errors.Join(c.Stop(ctx, job.Tasks[0], controlplane.StopOptions{}), c.Stop(ctx, job.Tasks[1], controlplane.StopOptions{}))
		}},
		{"end", func() error { // as a scheduler does
			for _, id := range job.Tasks {
				w.put(map[string]types.Message{controlplane.StatusKey("a", id): &types.Status{Phase: types.Cancelled}})
			}
			return nil
		}},
		{"read", func() error { _, _, err := c.Tasks(ctx); return err }},
		{"remove a job", func() error { _, err := c.RemoveJob(ctx, "j"); return err }},
		{"reserve", func() error {
			return c.Reserve(ctx, "r", types.Reservation{Bundles: []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}}})
		}},
		{"unreserve", func() error { return c.Unreserve(ctx, "r") }},
		{"remove", func() error {
			_, err := c.SetResource(ctx, "x", 0, controlplane.Where{Cluster: true}, controlplane.SetOptions{})
			return err
		}},
		{"close the session", func() error { return session.Close(ctx) }},
	} {
		if err := step.do(); err != nil {
			t.Errorf("%s: %v", step.name, err)
		}
	}
}
