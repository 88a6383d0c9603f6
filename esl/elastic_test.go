package esl_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// howMany returns how many of some tasks run.
func howMany(t *testing.T, c *hollow.Cluster, ids []string) int {
	t.Helper()
	v, err := c.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	running, n := hollow.Running(v, "d"), 0
	for _, id := range ids {
		if running[id] != "" {
			n++
		}
	}
	return n
}

// attempts returns the attempts that tasks are at.
func attempts(t *testing.T, c *hollow.Cluster, ids []string) []int {
	t.Helper()
	v, err := c.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := make([]int, len(ids))
	for i, id := range ids {
		if st := v.Task(cluster.ID{Namespace: "d", ID: id}).Status.V; st != nil {
			out[i] = st.Attempt
		}
	}
	return out
}

// stopped stops tasks, and waits until they have ended.
func stopped(t *testing.T, jobs *esl.Client, ids ...string) {
	t.Helper()
	for _, id := range ids {
		if err := jobs.Stop(t.Context(), id, controlplane.StopOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	statuses(t, jobs, controlplane.UntilEnded, ids...)
}

// TestElastic has a job fill the cluster, give way to others of which each takes a part,
// whether it is a task or a gang, never below its core, and grow again.
func TestElastic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := ordered(t, 2) // of four cores each
		l := submitted(t, jobs, esl.Copies(8, hollow.Task(1000)), esl.Elastic{Min: 2})
		pass(3 * time.Second)
		if n := howMany(t, c, l.Tasks); n != 8 {
			t.Errorf("%d of 8 run", n)
		}
		for _, other := range []struct {
			n        int
			policies []esl.Policy
			most     int
		}{{1, nil, 7}, {3, nil, 5}, {4, []esl.Policy{esl.Gang{}}, 4}, {6, nil, 2}} {
			o := submitted(t, jobs, esl.Copies(other.n, hollow.Task(1000, "run", "20s")), other.policies...)
			pass(5 * time.Second)
			if n, m := howMany(t, c, o.Tasks), howMany(t, c, l.Tasks); n != other.n || m != other.most {
				t.Errorf("%d of %d others run beside %d of it, not %d", n, other.n, m, other.most)
			}
			statuses(t, jobs, controlplane.UntilEnded, o.Tasks...)
			pass(3 * time.Second)
			if n := howMany(t, c, l.Tasks); n != 8 {
				t.Errorf("after %d others %d of 8 run", other.n, n)
			}
		}
		if a := attempts(t, c, l.Tasks[:2]); !slices.Equal(a, []int{1, 1}) {
			t.Errorf("its core is at attempts %v", a)
		}
		if a := attempts(t, c, l.Tasks); sum(a) != 8+1+3+4+6 {
			t.Errorf("more were evicted than had to be: attempts %v", a)
		}
		// What asks for more than there can be, or waits for something else, changes nothing.
		large := submitted(t, jobs, []controlplane.Submission{hollow.Task(4000)})
		other := hollow.Task(1000)
		other.Task.Requests = other.Task.Requests.Plus(types.Requests{{Name: "nowhere", Amount: 1000}})
		waits := submitted(t, jobs, []controlplane.Submission{other, hollow.Task(5000)})
		pass(10 * time.Second)
		if n := howMany(t, c, l.Tasks); n != 4 && n != 8 {
			t.Errorf("%d of 8 run", n)
		}
		stopped(t, jobs, slices.Concat(large.Tasks, waits.Tasks, l.Tasks)...)
		nothingLeft(t, c)
	})
}

func sum(all []int) (n int) {
	for _, x := range all {
		n += x
	}
	return n
}

// TestElasticCore places the core as a unit, whoever was there first, and lets nobody of
// the others begin before; when one of it fails, all end.
func TestElasticCore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := ordered(t, 1)
		filler := submitted(t, jobs, esl.Copies(4, hollow.Task(1000)))
		statuses(t, jobs, controlplane.UntilRunning, filler.Tasks...)
		tasks := esl.Copies(4, hollow.Task(1000))
		tasks[1] = hollow.Task(1000, "run", "30s", "exit", "1")
		l := submitted(t, jobs, tasks, esl.Elastic{Min: 2})
		stopped(t, jobs, filler.Tasks[0])
		pass(5 * time.Second)
		if n := howMany(t, c, l.Tasks); n != 0 {
			t.Errorf("%d run, and there is room for one", n)
		}
		if core, more := why(t, c, l.Tasks[0]), why(t, c, l.Tasks[3]); !strings.Contains(core, "one of the first 2 tasks") || !strings.Contains(more, "after the first 2") {
			t.Errorf("why: %q, %q", core, more)
		}
		stopped(t, jobs, filler.Tasks[1])
		pass(5 * time.Second)
		if n := howMany(t, c, l.Tasks[:2]); n != 2 {
			t.Errorf("%d of the core run", n)
		}
		stopped(t, jobs, filler.Tasks[2])
		pass(5 * time.Second)
		if n := howMany(t, c, l.Tasks); n != 3 {
			t.Errorf("%d run", n)
		}
		for _, s := range statuses(t, jobs, controlplane.UntilEnded, l.Tasks...) {
			if s.Phase == types.Succeeded {
				t.Errorf("%+v", s)
			}
		}
		stopped(t, jobs, filler.Tasks[3])
		nothingLeft(t, c)
	})
}

// TestElasticSurvives loses nodes, and what keeps the policy, while others wait.
func TestElasticSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := ordered(t, 3)
		l := submitted(t, jobs, esl.Copies(12, hollow.Task(1000)), esl.Elastic{Min: 3, Max: 10, GiveWay: 1})
		pass(3 * time.Second)
		if n := howMany(t, c, l.Tasks); n != 10 {
			t.Errorf("%d run, of at most 10", n)
		}
		c.StopKeeping()
		o := submitted(t, jobs, esl.Copies(4, hollow.Task(1000)))
		if err := c.Kill(t.Context(), "n00"); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		c.Keep()
		pass(time.Minute)
		if core, n, all := howMany(t, c, l.Tasks[:3]), howMany(t, c, o.Tasks), howMany(t, c, l.Tasks); core != 3 || n != 4 || all != 4 {
			t.Errorf("on two nodes %d of the core, %d others and %d of it run", core, n, all)
		}
		stopped(t, jobs, slices.Concat(o.Tasks, l.Tasks)...)
		nothingLeft(t, c)
	})
}

// TestElasticIsRefused gives what can never be met.
func TestElasticIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := ordered(t, 3)
		tasks := []controlplane.Submission{called("a"), called("a"), called("b")}
		for want, p := range map[string][]esl.Policy{
			"min: -1 is negative":     {esl.Elastic{Min: -1}},
			"max: 1 is less than min": {esl.Elastic{Min: 2, Max: 1}},
			"min: 4 is more than the tasks of the job, which are 3: give that at most, or submit more": {esl.Elastic{Min: 4}},
			"max: 5 is more than the tasks of the job, which are 3: give that at most, or submit more": {esl.Elastic{Min: 1, Max: 5}},
			"elastic and gang exclude each other":                                                      {esl.Elastic{Min: 1}, esl.Gang{}},
			"elastic and gang exclude each other: the one has":                                         {esl.Gang{}, esl.Elastic{}},
			"elastic and elastic exclude each other":                                                   {esl.Elastic{}, esl.Elastic{Min: 1}},
			"elastic and migrate exclude each other":                                                   {esl.Migrate{}, esl.Elastic{}},
			"by JOB.elastic-balance tasks[0] waits for others":                                         {esl.Elastic{Min: 2}, esl.ElasticBalance{}},
			"by JOB.barrier tasks[2] waits for others":                                                 {esl.Elastic{Min: 3}, esl.Barrier{Tasks: []string{"a"}}},
			"first 1 tasks begin at once, and by JOB.after.0 ta":                                       {esl.After{Tasks: map[string][]string{"a": {"b"}}}, esl.Elastic{Min: 1}},
			"does not move": {esl.Gang{}, esl.Migrate{}},
		} {
			_, err := jobs.Submit(t.Context(), esl.Job{ID: "JOB", Tasks: tasks}, p...)
			if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, not %q", p, err, want)
			}
		}
		// What is not of the core may wait for it, and the core for another job.
		first := submitted(t, jobs, esl.Copies(1, hollow.Task(100, "run", "1s")))
		for id, p := range map[string][]esl.Policy{
			"others": {esl.Elastic{Min: 2}, esl.Barrier{Tasks: []string{"a"}}},
			"job":    {esl.Elastic{Min: 2}, esl.After{Jobs: []string{first.Tasks[0]}}},
			"one":    {esl.Elastic{Min: 1}, esl.ElasticBalance{}},
		} {
			all, err := jobs.Submit(t.Context(), esl.Job{ID: id, Tasks: tasks}, p...)
			if err != nil {
				t.Errorf("%+v: %v", p, err)
				continue
			}
			pass(5 * time.Second)
			if n := howMany(t, c, all.Tasks); n != 3 {
				t.Errorf("%+v: %d of 3 run", p, n)
			}
		}
	})
}

// ExampleElastic fills a cluster with a job, of which a part gives way to another.
func ExampleElastic() {
	ctx := context.Background()
	c, err := hollow.Start(ctx, hollow.Config{Nodes: hollow.Nodes(1, 4)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close() }()
	jobs, err := c.Client("default")
	if err != nil {
		fmt.Println(err)
		return
	}
	training, err := jobs.Submit(ctx, esl.Job{Name: "training", Tasks: esl.Copies(4, hollow.Task(1000))}, esl.Elastic{Min: 2, GiveWay: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := jobs.Wait(ctx, controlplane.UntilRunning, training.Tasks...); err != nil {
		fmt.Println(err)
		return
	}
	other, err := jobs.Submit(ctx, esl.Job{Name: "other", Tasks: esl.Copies(1, hollow.Task(1000, "run", "10ms"))})
	if err != nil {
		fmt.Println(err)
		return
	}
	all, err := jobs.Wait(ctx, controlplane.UntilEnded, other.Tasks...)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(all[other.Tasks[0]].Phase)
	// Output: succeeded
}
