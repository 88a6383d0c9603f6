package room

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/viewtest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// TestAttainedCounts counts the service of a task: devices times time, with what the pools have until then.
func TestAttainedCounts(t *testing.T) {
	now := time.Unix(1000, 0)
	at := func(second int64) int64 { return time.Unix(second, 0).UnixNano() }
	for name, c := range map[string]struct {
		requests map[string]types.Quantity
		status   *types.Status
		until    int64
		want     service
	}{
		"waits":             {map[string]types.Quantity{"gpu": 2000}, nil, 0, service{devices: 2, waits: true}},
		"runs":              {map[string]types.Quantity{"gpu": 2000, "cpu": 8000}, &types.Status{Phase: types.Running, Attempt: 1, Node: "n0000", Bound: at(900)}, 0, service{devices: 2, rate: 2, served: 200}},
		"without devices":   {map[string]types.Quantity{"cpu": 500}, &types.Status{Phase: types.Running, Attempt: 1, Node: "n0000", Bound: at(900)}, 0, service{devices: 0.5, rate: 0.5, served: 50}},
		"counted in part":   {map[string]types.Quantity{"gpu": 1000}, &types.Status{Phase: types.Running, Attempt: 1, Node: "n0000", Bound: at(900)}, at(990), service{devices: 1, rate: 1, served: 10}},
		"from its start":    {map[string]types.Quantity{"gpu": 1000}, &types.Status{Phase: types.Running, Attempt: 1, Node: "n0000", Bound: at(900), Started: at(950)}, 0, service{devices: 1, rate: 1, served: 50}},
		"has ended":         {map[string]types.Quantity{"gpu": 1000}, &types.Status{Phase: types.Succeeded, Attempt: 1, Bound: at(900), Ended: at(960)}, 0, service{served: 60, left: at(960)}},
		"runs again":        {map[string]types.Quantity{"gpu": 1000}, &types.Status{Phase: types.Pending, Attempt: 1, Bound: at(900), Ended: at(960)}, 0, service{devices: 1, served: 60, left: at(960), waits: true, stale: true}},
		"is counted":        {map[string]types.Quantity{"gpu": 1000}, &types.Status{Phase: types.Pending, Attempt: 1, Bound: at(900), Ended: at(960)}, at(970), service{devices: 1, left: at(960), waits: true}},
		"a clock is ahead":  {map[string]types.Quantity{"gpu": 1000}, &types.Status{Phase: types.Succeeded, Attempt: 1, Bound: at(900), Ended: at(5000)}, 0, service{served: 100, left: at(1000)}},
		"part of a gang":    {map[string]types.Quantity{"gpu@j.gang": 1000}, nil, 0, service{devices: 1, waits: true}},
		"nothing is served": {map[string]types.Quantity{"memory": 1000}, &types.Status{Phase: types.Running, Attempt: 1, Node: "n0000", Bound: at(900)}, 0, service{}},
	} {
		b := viewtest.NewBench(t, 1)
		b.Put(controlplane.TaskKey("d", "t"), &types.Task{Job: "j", Submitted: 7, Requests: types.NewRequests(c.requests)})
		if c.status != nil {
			b.Put(controlplane.StatusKey("d", "t"), c.status)
		}
		var got service
		for task := range b.View.Tasks() {
			got.count(task, c.until, now)
		}
		got.since, got.submitted = 0, 0
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestAttainedQueues ranks jobs, the first queue first, and says when they come to another queue.
func TestAttainedQueues(t *testing.T) {
	c := &census{s: &esl.State{Now: time.Unix(1000, 0), ID: "p", Label: "least-attained"}, threshold: 3600, starve: 4, jobs: []*service{
		{job: "new", since: 5, rate: 2, served: 1800},
		{job: "old", since: 1, served: 3599},
		{job: "served", since: 2, second: true, devices: 2, served: 7200, recorded: 7200},
		{job: "oldest", since: 0, second: true, rate: 1, devices: 1, served: 4000},
	}}
	c.order()
	if c.first != 2 {
		t.Errorf("%d are in the first queue", c.first)
	}
	ranked := slices.SortedFunc(slices.Values(c.jobs), func(a, b *service) int { return a.rank - b.rank })
	var order []string
	for _, x := range ranked {
		order = append(order, fmt.Sprint(x.job, x.rank))
	}
	if got := strings.Join(order, " "); got != "old1 new2 oldest3 served4" {
		t.Errorf("ranked %s", got)
	}
	// It had both devices for an hour, and so waits at most for four.
	served := c.jobs[2]
	served.back = c.starves(served, taskset.Wish{Since: time.Unix(500, 0)})
	if want := time.Unix(500+4*3600, 0); !served.back.Equal(want) {
		t.Errorf("back at %s, want %s", served.back, want)
	}
	if next := c.nextChange(); !next.Equal(time.Unix(1000+900, 0)) {
		t.Errorf("the next change is at %s", next)
	}
	for at, want := range map[int64][]string{1000: {"oldest"}, 500 + 4*3600: {"served", "oldest"}} {
		c.s.Now = time.Unix(at, 0)
		var written []string
		for _, set := range c.recorded().Set {
			if job, ok := strings.CutSuffix(set.Name, servedPool); ok {
				written = append(written, strings.TrimPrefix(job, "p.least-attained."))
			}
		}
		if !slices.Equal(written, want) {
			t.Errorf("at %d the service of %v is written, want %v", at, written, want)
		}
	}
}
