package room_test

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
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/types"
)

// attempts returns the current attempts of tasks.
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
	esltest.Statuses(t, jobs, controlplane.UntilEnded, ids...)
}

// TestElastic lets a job fill the cluster, give way to others that each take a part, tasks or
// gangs, never below its core, and grow again.
func TestElastic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 2) // of four cores each
		l := esltest.Submitted(t, jobs, esl.Copies(8, hollow.Task(1000)), room.Elastic{Min: 2})
		esltest.Pass(3 * time.Second)
		if n := esltest.HowMany(t, c, l.Tasks); n != 8 {
			t.Errorf("%d of 8 run", n)
		}
		for _, other := range []struct {
			n        int
			policies []esl.Policy
			most     int
		}{{1, nil, 7}, {3, nil, 5}, {4, []esl.Policy{gang.Gang{}}, 4}, {6, nil, 2}} {
			o := esltest.Submitted(t, jobs, esl.Copies(other.n, hollow.Task(1000, "run", "20s")), other.policies...)
			esltest.Pass(5 * time.Second)
			if n, m := esltest.HowMany(t, c, o.Tasks), esltest.HowMany(t, c, l.Tasks); n != other.n || m != other.most {
				t.Errorf("%d of %d others run beside %d of it, not %d", n, other.n, m, other.most)
			}
			esltest.Statuses(t, jobs, controlplane.UntilEnded, o.Tasks...)
			esltest.Pass(3 * time.Second)
			if n := esltest.HowMany(t, c, l.Tasks); n != 8 {
				t.Errorf("after %d others %d of 8 run", other.n, n)
			}
		}
		if a := attempts(t, c, l.Tasks[:2]); !slices.Equal(a, []int{1, 1}) {
			t.Errorf("its core is at attempts %v", a)
		}
		if a := attempts(t, c, l.Tasks); sum(a) != 8+1+3+4+6 {
			t.Errorf("more were evicted than had to be: attempts %v", a)
		}
		// A request that is too large, or that waits for something else, changes nothing.
		large := esltest.Submitted(t, jobs, []controlplane.Submission{hollow.Task(4000)})
		other := hollow.Task(1000)
		other.Task.Requests = other.Task.Requests.Plus(types.Requests{{Name: "nowhere", Amount: 1000}})
		waits := esltest.Submitted(t, jobs, []controlplane.Submission{other, hollow.Task(5000)})
		esltest.Pass(10 * time.Second)
		if n := esltest.HowMany(t, c, l.Tasks); n != 4 && n != 8 {
			t.Errorf("%d of 8 run", n)
		}
		stopped(t, jobs, slices.Concat(large.Tasks, waits.Tasks, l.Tasks)...)
		esltest.NothingLeft(t, c)
	})
}

func sum(all []int) (n int) {
	for _, x := range all {
		n += x
	}
	return n
}

// TestElasticCore places the core as a unit, in any order of submission, and starts no other task
// before; when one of the core fails, all end.
func TestElasticCore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 1)
		filler := esltest.Submitted(t, jobs, esl.Copies(4, hollow.Task(1000)))
		esltest.Statuses(t, jobs, controlplane.UntilRunning, filler.Tasks...)
		tasks := esl.Copies(4, hollow.Task(1000))
		tasks[1] = hollow.Task(1000, "run", "30s", "exit", "1")
		l := esltest.Submitted(t, jobs, tasks, room.Elastic{Min: 2})
		stopped(t, jobs, filler.Tasks[0])
		esltest.Pass(5 * time.Second)
		if n := esltest.HowMany(t, c, l.Tasks); n != 0 {
			t.Errorf("%d run, and there is room for one", n)
		}
		if core, more := esltest.TaskWhy(t, c, l.Tasks[0]), esltest.TaskWhy(t, c, l.Tasks[3]); !strings.Contains(core, "one of the first 2 tasks") || !strings.Contains(more, "after the first 2") {
			t.Errorf("why: %q, %q", core, more)
		}
		stopped(t, jobs, filler.Tasks[1])
		esltest.Pass(5 * time.Second)
		if n := esltest.HowMany(t, c, l.Tasks[:2]); n != 2 {
			t.Errorf("%d of the core run", n)
		}
		stopped(t, jobs, filler.Tasks[2])
		esltest.Pass(5 * time.Second)
		if n := esltest.HowMany(t, c, l.Tasks); n != 3 {
			t.Errorf("%d run", n)
		}
		for _, s := range esltest.Statuses(t, jobs, controlplane.UntilEnded, l.Tasks...) {
			if s.Phase == types.Succeeded {
				t.Errorf("%+v", s)
			}
		}
		stopped(t, jobs, filler.Tasks[3])
		esltest.NothingLeft(t, c)
	})
}

// TestElasticSurvives loses nodes, and the process that runs the policy, while others wait.
func TestElasticSurvives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 3)
		l := esltest.Submitted(t, jobs, esl.Copies(12, hollow.Task(1000)), room.Elastic{Min: 3, Max: 10, GiveWay: 1})
		esltest.Pass(3 * time.Second)
		if n := esltest.HowMany(t, c, l.Tasks); n != 10 {
			t.Errorf("%d run, of at most 10", n)
		}
		c.StopKeeping()
		o := esltest.Submitted(t, jobs, esl.Copies(4, hollow.Task(1000)))
		if err := c.Kill(t.Context(), "n00"); err != nil {
			t.Fatal(err)
		}
		esltest.Pass(time.Minute)
		c.Keep()
		esltest.Pass(time.Minute)
		if core, n, all := esltest.HowMany(t, c, l.Tasks[:3]), esltest.HowMany(t, c, o.Tasks), esltest.HowMany(t, c, l.Tasks); core != 3 || n != 4 || all != 4 {
			t.Errorf("on two nodes %d of the core, %d others and %d of it run", core, n, all)
		}
		stopped(t, jobs, slices.Concat(o.Tasks, l.Tasks)...)
		esltest.NothingLeft(t, c)
	})
}

// TestElasticIsRefused submits impossible policies.
func TestElasticIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.Ordered(t, 3)
		tasks := []controlplane.Submission{esltest.Called("a"), esltest.Called("a"), esltest.Called("b")}
		for want, p := range map[string][]esl.Policy{
			"min: -1 is negative":     {room.Elastic{Min: -1}},
			"max: 1 is less than min": {room.Elastic{Min: 2, Max: 1}},
			"min: 4 is more than the tasks of the job, which are 3: give that at most, or submit more": {room.Elastic{Min: 4}},
			"max: 5 is more than the tasks of the job, which are 3: give that at most, or submit more": {room.Elastic{Min: 1, Max: 5}},
			"elastic and gang exclude each other":                                                      {room.Elastic{Min: 1}, gang.Gang{}},
			"elastic and gang exclude each other: the one has":                                         {gang.Gang{}, room.Elastic{}},
			"elastic and elastic exclude each other":                                                   {room.Elastic{}, room.Elastic{Min: 1}},
			"elastic and migrate exclude each other":                                                   {room.Migrate{}, room.Elastic{}},
			"by JOB.elastic-balance tasks[0] waits for others":                                         {room.Elastic{Min: 2}, place.ElasticBalance{}},
			"by JOB.barrier tasks[2] waits for others":                                                 {room.Elastic{Min: 3}, admission.Barrier{Tasks: []string{"a"}}},
			"first 1 tasks begin at once, and by JOB.after.0 ta":                                       {admission.After{Tasks: map[string][]string{"a": {"b"}}}, room.Elastic{Min: 1}},
			"does not move": {gang.Gang{}, room.Migrate{}},
		} {
			_, err := jobs.Submit(t.Context(), controlplane.Job{ID: "JOB", Tasks: tasks}, p...)
			if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
				t.Errorf("%+v: %v, not %q", p, err, want)
			}
		}
		// Tasks outside the core may wait for it, and the core for another job.
		first := esltest.Submitted(t, jobs, esl.Copies(1, hollow.Task(100, "run", "1s")))
		for id, p := range map[string][]esl.Policy{
			"others": {room.Elastic{Min: 2}, admission.Barrier{Tasks: []string{"a"}}},
			"job":    {room.Elastic{Min: 2}, admission.After{Jobs: []string{first.Tasks[0]}}},
			"one":    {room.Elastic{Min: 1}, place.ElasticBalance{}},
		} {
			all, err := jobs.Submit(t.Context(), controlplane.Job{ID: id, Tasks: tasks}, p...)
			if err != nil {
				t.Errorf("%+v: %v", p, err)
				continue
			}
			esltest.Pass(5 * time.Second)
			if n := esltest.HowMany(t, c, all.Tasks); n != 3 {
				t.Errorf("%+v: %d of 3 run", p, n)
			}
		}
	})
}

// ExampleElastic fills a cluster with a job, a part of which gives way to another.
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
	training, err := jobs.Submit(ctx, controlplane.Job{Name: "training", Tasks: esl.Copies(4, hollow.Task(1000))}, room.Elastic{Min: 2, GiveWay: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := jobs.Wait(ctx, controlplane.UntilRunning, training.Tasks...); err != nil {
		fmt.Println(err)
		return
	}
	other, err := jobs.Submit(ctx, controlplane.Job{Name: "other", Tasks: esl.Copies(1, hollow.Task(1000, "run", "10ms"))})
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
