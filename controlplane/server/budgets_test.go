package server

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// budgeted runs a collector in a bubble, with namespace greedy under a budget and namespace other
// without settings.
func budgeted(t *testing.T, b types.Budget, body func(t *testing.T, s *memstore.Store, greedy, other *controlplane.Client)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := memstore.New()
		c, err := NewCollector(s, &memMaintenance{Store: s}, DefaultPolicy(), nil, Options{Logger: zap.NewNop(), Metrics: NewMetrics()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		client := func(ns string) *controlplane.Client {
			c, err := controlplane.New(s, ns)
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		greedy := client("greedy")
		if err := greedy.CreateNamespace(ctx, "greedy", types.Namespace{Budget: &b}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		body(t, s, greedy, client("other"))
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("the collector ended with %v", err)
		}
	})
}

// works fails unless a namespace can grow.
func works(t *testing.T, c *controlplane.Client) {
	t.Helper()
	_, err := c.Launch(t.Context(), controlplane.Submission{Task: types.Task{Name: "web"}, Spec: &types.Spec{Image: "x"}})
	if err != nil {
		t.Errorf("namespace %s: %v", c.Namespace(), err)
	}
	if err := setPool(t.Context(), c, "x"); err != nil {
		t.Errorf("namespace %s: %v", c.Namespace(), err)
	}
}

func setPool(ctx context.Context, c *controlplane.Client, name string) error {
	_, err := c.SetResource(ctx, name, 1000, controlplane.InCluster(), controlplane.SetOptions{})
	return err
}

// refusedFor fails unless every addition to a namespace is refused for a budget. Each error must
// contain the flag, the allowance and the remedy.
func refusedFor(t *testing.T, c *controlplane.Client, flag, allowed string) {
	t.Helper()
	_, launch := c.Launch(t.Context(), controlplane.Submission{Task: types.Task{Name: "web"}, Spec: &types.Spec{Image: "x"}})
	_, session := c.OpenSession(t.Context(), "s", 10*time.Second)
	_, policies := c.Begin().SetPolicies("p", types.Policies{Policies: []types.Policy{{Kind: "x", With: "{}"}}}, 0).Commit(t.Context())
	for what, err := range map[string]error{
		"launch":       launch,
		"reserve":      c.Reserve(t.Context(), "r", types.Reservation{Bundles: []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1})}}}),
		"set-resource": setPool(t.Context(), c, "new"),
		"session":      session,
		"policies":     policies,
	} {
		mends := "delete unneeded objects"
		if flag == "max-pending" {
			mends = "stop"
		}
		if !types.Is(err, types.Precondition) || !strings.Contains(err.Error(), flag+": "+allowed+" allowed") || !strings.Contains(err.Error(), " used: "+mends) || !strings.Contains(err.Error(), "change "+flag+" of namespace greedy") {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestManyResourcesOfOneNamespace sets 100,000 resources from one namespace, a thousand a second.
// The budget of keys refuses them while another namespace works, and accepts them again after some
// removals.
func TestManyResourcesOfOneNamespace(t *testing.T) {
	budgeted(t, types.Budget{Keys: 10_000}, func(t *testing.T, _ *memstore.Store, greedy, other *controlplane.Client) {
		accepted := 0
		for i := range 100_000 {
			if setPool(t.Context(), greedy, fmt.Sprintf("x%d", i)) == nil {
				accepted++
			}
			if i%1000 == 0 {
				time.Sleep(time.Second)
			}
		}
		if accepted < 10_000 || accepted > 12_000 {
			t.Errorf("%d resources are accepted, want 10,000 and what comes until it is noticed", accepted)
		}
		refusedFor(t, greedy, "max-keys", "10000")
		works(t, other)
		// Existing resources may change and go.
		for i := range 3000 {
			capacity := types.Quantity(0)
			if i == 0 {
				capacity = 5
			}
			if _, err := greedy.SetResource(t.Context(), fmt.Sprintf("x%d", i), capacity, controlplane.InCluster(), controlplane.SetOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Second)
		works(t, greedy)
	})
}

// TestManyWaitingTasksOfOneNamespace launches 200,000 tasks from one namespace. Its budget refuses
// them while another namespace works, and a larger budget accepts more.
func TestManyWaitingTasksOfOneNamespace(t *testing.T) {
	budgeted(t, types.Budget{Pending: 20_000}, func(t *testing.T, _ *memstore.Store, greedy, other *controlplane.Client) {
		spec := &types.Spec{Image: "x"}
		accepted := 0
		for range 200 {
			tasks := make([]controlplane.Submission, 1000)
			for i := range tasks {
				tasks[i] = controlplane.Submission{Task: types.Task{Name: "web"}, Spec: spec}
			}
			if got, err := greedy.Launch(t.Context(), tasks...); err == nil {
				accepted += len(got.Tasks)
			}
			time.Sleep(time.Second)
		}
		if accepted < 20_000 || accepted > 24_000 {
			t.Errorf("%d tasks are accepted, want 20,000 and what comes until it is noticed", accepted)
		}
		refusedFor(t, greedy, "max-pending", "20000")
		works(t, other)
		err := greedy.SetNamespace(t.Context(), "greedy", func(n *types.Namespace) error { n.Budget.Pending = 10_000; return nil })
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		refusedFor(t, greedy, "max-pending", "10000")
		err = greedy.SetNamespace(t.Context(), "greedy", func(n *types.Namespace) error { n.Budget.Pending = 100_000; return nil })
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		works(t, greedy)
	})
}

// TestManyBytesOfOneNamespace checks the budget of bytes with few large keys.
func TestManyBytesOfOneNamespace(t *testing.T) {
	budgeted(t, types.Budget{Bytes: 1 << 20}, func(t *testing.T, s *memstore.Store, greedy, other *controlplane.Client) {
		big := types.Policies{Policies: []types.Policy{{Kind: "x", With: `{"a":"` + strings.Repeat("x", 60<<10) + `"}`}}}
		for i := range 20 {
			write(t, s, put{controlplane.PoliciesKey("greedy", fmt.Sprintf("p%d", i)), &big})
		}
		time.Sleep(2 * time.Second)
		refusedFor(t, greedy, "max-bytes", "1Mi")
		works(t, other)
		if err := greedy.RemoveNamespace(t.Context(), "greedy"); !types.Is(err, types.Precondition) {
			t.Errorf("the settings of a namespace in use are removed: %v", err)
		}
		for i := range 20 {
			remove(t, s, controlplane.PoliciesKey("greedy", fmt.Sprintf("p%d", i)))
		}
		time.Sleep(2 * time.Second)
		works(t, greedy)
	})
}

// TestManySpecsOfOneNamespace checks that specs count in the budget of bytes, each once, while a
// task refers to it.
func TestManySpecsOfOneNamespace(t *testing.T) {
	budgeted(t, types.Budget{Bytes: 1 << 20}, func(t *testing.T, s *memstore.Store, greedy, other *controlplane.Client) {
		var ids []string
		for i := range 20 {
			// Each spec has three tasks.
			spec := &types.Spec{Image: "x", Env: []string{fmt.Sprint("A", i, "=", strings.Repeat("x", 60<<10))}}
			one := controlplane.Submission{Task: types.Task{Name: "web"}, Spec: spec}
			got, err := greedy.Launch(t.Context(), one, one, one)
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, got.Tasks...)
		}
		used := func() types.Budget {
			got, err := Used(t.Context(), s, "greedy")
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		var want types.Budget
		all, _, err := controlplane.ListAll(t.Context(), s, controlplane.ListOptions{Prefix: controlplane.Root})
		if err != nil {
			t.Fatal(err)
		}
		for _, kv := range all {
			k, _ := controlplane.Parse(kv.Key)
			switch {
			case k.Namespace != "greedy" || k.Kind == controlplane.Namespaces:
				continue
			case k.Kind == controlplane.Tasks:
				want.Pending++
			}
			if want.Bytes += int64(len(kv.Key) + len(kv.Value)); k.Kind != controlplane.Specs {
				want.Keys++
			}
		}
		if got := used(); got != want || got.Bytes < 20*60<<10 || got.Bytes > 2*20*60<<10 {
			t.Errorf("it uses %+v, want %+v", got, want)
		}
		time.Sleep(3 * time.Second)
		refusedFor(t, greedy, "max-bytes", "1Mi")
		works(t, other)
		// A spec without tasks does not count, though it is kept for a while.
		for _, id := range ids[:30] {
			remove(t, s, controlplane.TaskKey("greedy", id))
		}
		time.Sleep(3 * time.Second)
		works(t, greedy)
		if got := used(); got.Bytes > 11*61<<10 {
			t.Errorf("it uses %+v of ten specs", got)
		}
	})
}

// TestClosedUntilSpecsAreCounted checks that a new collector does not open a namespace before it
// has counted the specs.
func TestClosedUntilSpecsAreCounted(t *testing.T) {
	x, now := newIndex(), time.Unix(1, 0)
	apply := func(p put) {
		x.apply(controlplane.Event{KV: controlplane.KV{Key: p.key, Value: types.Encode(1, p.m), ModRevision: 1, CreateRevision: 1}}, now)
	}
	apply(put{controlplane.NamespaceKey("ns"), &types.Namespace{Budget: &types.Budget{Bytes: 1000}}})
	apply(put{controlplane.NamespaceAdmissionKey("ns"), controlplane.Over("bytes", "2Ki", "1Ki")})
	apply(aTask("t", types.Task{Spec: "digest"}))
	decided := func() int {
		l := pass{index: x, policy: DefaultPolicy(), now: now, limit: 10}
		l.budgets()
		return len(l.steps)
	}
	if n := decided(); n != 0 {
		t.Errorf("it is opened before its spec is counted: %d steps", n)
	}
	x.sizeSpec(x.unsized[0], controlplane.KV{Key: controlplane.SpecKey("ns", "digest"), Value: make([]byte, 100)})
	x.unsized = nil
	if n := decided(); n != 1 {
		t.Errorf("it is not opened when all is counted: %d steps", n)
	}
}

// TestBudgetAfterABurst checks that a burst is counted even if nothing follows it.
func TestBudgetAfterABurst(t *testing.T) {
	budgeted(t, types.Budget{Pending: 20}, func(t *testing.T, _ *memstore.Store, greedy, other *controlplane.Client) {
		launch := func(n int) {
			for i := range n {
				_, err := greedy.Launch(t.Context(), controlplane.Submission{Task: types.Task{Name: "web"}, Spec: &types.Spec{Image: "x"}})
				if types.Is(err, types.Precondition) && i+2 >= 20 { // two tasks wait already
					return // a pass came in the middle of the burst
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		launch(1) // counts its spec
		time.Sleep(3 * time.Second)
		launch(1) // a pass follows at once
		time.Sleep(time.Second + time.Millisecond)
		launch(30)
		time.Sleep(3 * time.Second)
		refusedFor(t, greedy, "max-pending", "20")
		works(t, other)
	})
}
