package hollow_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/keep"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

// start starts a cluster that ends with the test.
func start(t *testing.T, cfg hollow.Config) (*hollow.Cluster, *esl.Client) {
	t.Helper()
	c, err := hollow.Start(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	client, err := c.Client("d")
	if err != nil {
		t.Fatal(err)
	}
	return c, client
}

// clean fails the test if an invariant was broken, or keys remain.
func clean(t *testing.T, c *hollow.Cluster) {
	t.Helper()
	if err := c.Audit(t.Context()); err != nil {
		t.Error(err)
	}
	if left, err := c.Left(t.Context(), "d"); err != nil || len(left) > 0 {
		t.Errorf("left: %q, %v", left, err)
	}
}

// TestLife runs tasks that end by themselves, fail, and are stopped.
func TestLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := start(t, hollow.Config{Nodes: hollow.Nodes(3, 4)})
		began := time.Now()
		job, err := jobs.Submit(t.Context(), controlplane.Job{Name: "three", Tasks: []controlplane.Submission{
			hollow.Task(1000, "run", "5s"), hollow.Task(1000, "run", "2s", "exit", "3"), hollow.Task(1000),
		}}, place.Apart{})
		if err != nil {
			t.Fatal(err)
		}
		done, err := jobs.Wait(t.Context(), controlplane.UntilEnded, job.Tasks[0], job.Tasks[1])
		if err != nil {
			t.Fatal(err)
		}
		if s := done[job.Tasks[0]]; s.Phase != types.Succeeded || time.Since(began) < 5*time.Second {
			t.Errorf("%s after %s", s.Phase, time.Since(began))
		}
		if s := done[job.Tasks[1]]; s.Phase != types.Failed || s.ExitCode != 3 {
			t.Errorf("%s, code %d", s.Phase, s.ExitCode)
		}
		if err := jobs.Stop(t.Context(), job.Tasks[2], controlplane.StopOptions{Reason: "enough"}); err != nil {
			t.Fatal(err)
		}
		if _, err := jobs.Wait(t.Context(), controlplane.UntilEnded, job.Tasks...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second) // the collector runs once a second
		clean(t, c)
	})
}

// TestLoss kills a machine: its task moves; the machine returns.
func TestLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := start(t, hollow.Config{Nodes: hollow.Nodes(3, 1)})
		job, err := jobs.Submit(t.Context(), controlplane.Job{Name: "one", Tasks: esl.Copies(1, hollow.Task(1000))}, place.Apart{})
		if err != nil {
			t.Fatal(err)
		}
		running := func(not string) string {
			t.Helper()
			node := ""
			if _, err := c.Await(t.Context(), func(v *cluster.View) bool {
				node = hollow.Running(v, "d")[job.Tasks[0]]
				return node != "" && node != not
			}); err != nil {
				t.Fatal(err)
			}
			return node
		}
		first := running("")
		if err := c.Kill(t.Context(), first); err != nil {
			t.Fatal(err)
		}
		second := running(first)
		if err := c.Return(first); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Await(t.Context(), func(v *cluster.View) bool { return v.Nodes[first].Eligible() }); err != nil {
			t.Fatal(err)
		}
		if err := c.Cut(second); err != nil {
			t.Fatal(err)
		}
		running(second)
		if err := c.Audit(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// TestOnEtcd is the same cluster in real time, on a real etcd.
func TestOnEtcd(t *testing.T) {
	c, jobs := start(t, hollow.Config{Nodes: hollow.Nodes(2, 1), Store: etcdstore.New(etcdtest.Start(t).Client, etcdstore.ServerLimits())})
	job, err := jobs.Submit(t.Context(), controlplane.Job{Name: "two", Tasks: esl.Copies(2, hollow.Task(1000, "run", "10ms"))}, place.Apart{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := jobs.Wait(t.Context(), controlplane.UntilEnded, job.Tasks...); err != nil {
		t.Fatal(err)
	}
	if err := c.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}

// Example runs a job of two tasks that are kept apart.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := hollow.Start(ctx, hollow.Config{Nodes: hollow.Nodes(2, 4)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()
	jobs, err := c.Client("d")
	if err != nil {
		fmt.Println(err)
		return
	}
	job, err := jobs.Submit(ctx, controlplane.Job{Name: "pair", Tasks: esl.Copies(2, hollow.Task(500))}, place.Apart{})
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := c.Await(ctx, func(v *cluster.View) bool { return len(hollow.Running(v, "d")) == 2 })
	if err != nil {
		fmt.Println(err)
		return
	}
	on := hollow.Running(v, "d")
	fmt.Println("together:", on[job.Tasks[0]] == on[job.Tasks[1]])
	// Output: together: false
}

// TestKilledApplication: what an application submitted under its session ends with it, although the
// application is silent.
func TestKilledApplication(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := start(t, hollow.Config{Nodes: hollow.Nodes(2, 4)})
		app, err := keep.Attach(t.Context(), jobs, "app")
		if err != nil {
			t.Fatal(err)
		}
		ctx, kill := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- app.Run(ctx) }()
		job, err := app.Submit(t.Context(), controlplane.Job{Name: "gang", Tasks: esl.Copies(2, hollow.Task(1000))}, gang.Gang{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Await(t.Context(), func(v *cluster.View) bool { return len(hollow.Running(v, "d")) == 2 }); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if v, err := c.View(t.Context()); err != nil || len(hollow.Running(v, "d")) != 2 {
			t.Errorf("it ended while the application ran: %v", err)
		}
		kill()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("it ended with %v", err)
		}
		if _, err := jobs.Wait(t.Context(), controlplane.UntilEnded, job.Tasks...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		clean(t, c)
	})
}

// TestKeeperKilled kills the policy runner again and again, at any moment, while gangs come and
// fail: each ends whole, and nothing is left.
func TestKeeperKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := start(t, hollow.Config{Nodes: hollow.Nodes(4, 4)})
		r := rand.New(rand.NewPCG(1, 2))
		var tasks []string
		for i := range 20 {
			job, err := jobs.Submit(t.Context(), controlplane.Job{ID: fmt.Sprintf("gang-%d", i), Tasks: []controlplane.Submission{
				hollow.Task(1000, "run", "1s", "exit", "1"), hollow.Task(1000), hollow.Task(1000),
			}}, gang.Gang{})
			if err != nil {
				t.Fatal(err)
			}
			tasks = append(tasks, job.Tasks...)
			for range 5 {
				time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
				c.StopKeeping()
				time.Sleep(time.Duration(r.IntN(300)) * time.Millisecond)
				c.Keep()
			}
		}
		ended, err := jobs.Wait(t.Context(), controlplane.UntilEnded, tasks...)
		if err != nil {
			t.Fatal(err)
		}
		for id, s := range ended {
			if s.Phase == types.Succeeded {
				t.Errorf("%s has succeeded", id)
			}
		}
		time.Sleep(5 * time.Second)
		clean(t, c)
	})
}

// TestResuming lets an evicted task go on where it was, and another one start from its beginning.
func TestResuming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, err := hollow.Start(context.Background(), hollow.Config{Nodes: hollow.Nodes(1, 4), Behave: hollow.Resuming()})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		jobs, err := c.Client("d")
		if err != nil {
			t.Fatal(err)
		}
		job, err := jobs.Submit(t.Context(), controlplane.Job{Name: "job", Tasks: esl.Copies(2, hollow.Task(1000, "run", "10m"))})
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		time.Sleep(4 * time.Minute)
		if err := jobs.Evict(t.Context(), job.Tasks[0], 1); err != nil {
			t.Fatal(err)
		}
		ended, err := jobs.Wait(t.Context(), controlplane.UntilEnded, job.Tasks...)
		if took := time.Since(begin); err != nil || took < 10*time.Minute || took > 10*time.Minute+30*time.Second {
			t.Errorf("both have ended after %s: %v", took, err)
		}
		if got := ended[job.Tasks[0]]; got.Attempt != 2 || got.Phase != types.Succeeded {
			t.Errorf("the evicted one: %+v", got)
		}
	})
}
