package room

import (
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/viewtest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// TestRanked puts what waits in the order of the jobs, raises what is not in its queue, and says which jobs
// have waited for long.
func TestRanked(t *testing.T) {
	now := time.Unix(1000, 0)
	wish := func(job string, priority, raised int, waited time.Duration) taskset.Wish {
		return taskset.Wish{ID: job, Job: job, Priority: priority, Raised: raised, Since: now.Add(-waited)}
	}
	for name, c := range map[string]struct {
		jobs   []*service // in the order of their ranks
		waits  []taskset.Wish
		order  string // of what waits; + follows a job that has waited for long
		again  time.Duration
		raised string
	}{
		"by rank": {
			[]*service{{job: "a"}, {job: "b"}}, []taskset.Wish{wish("b", 0, 0, time.Minute), wish("a", 0, 0, time.Second)},
			"a b", 59 * time.Minute, "",
		},
		"by priority first": {
			[]*service{{job: "a"}, {job: "b"}}, []taskset.Wish{wish("a", 0, 0, 0), wish("b", 1, 0, 0)},
			"b a", time.Hour, "",
		},
		"for long": {
			[]*service{{job: "a"}, {job: "b"}}, []taskset.Wish{wish("a", 0, 0, 2*time.Hour), wish("b", 0, 0, time.Hour-time.Second)},
			"a+ b", time.Second, "",
		},
		"the second queue is lower": {
			[]*service{{job: "a"}, {job: "b", second: true}, {job: "c", second: true}}, []taskset.Wish{wish("a", 0, -1, 0), wish("b", 0, 0, 0), wish("c", 0, -1, 0)},
			"a b c", time.Hour, "a+0 b-1",
		},
	} {
		x := &census{s: &esl.State{Now: now}, byID: make(map[string]*service), waits: c.waits}
		for i, job := range c.jobs {
			job.rank = i + 1
			x.byID[job.job] = job
		}
		again := x.inOrder(time.Hour)
		var order []string
		for _, w := range x.waits {
			if x.byID[w.Job].long {
				w.Job += "+"
			}
			order = append(order, w.Job)
		}
		if got := strings.Join(order, " "); got != c.order || again.Sub(now) != c.again {
			t.Errorf("%s: %s, again in %s; want %s, %s", name, got, again.Sub(now), c.order, c.again)
		}
		var raised []string
		for _, r := range x.reordered().Raise {
			raised = append(raised, r.ID+map[int]string{0: "+0", -1: "-1"}[r.By])
		}
		if got := strings.Join(raised, " "); got != c.raised {
			t.Errorf("%s: raised are %s, want %s", name, got, c.raised)
		}
	}
}

// TestWithout leaves out one unit for each reservation that makes room for its like.
func TestWithout(t *testing.T) {
	s := &esl.State{View: viewtest.NewBench(t, 1).View, Namespace: "d"}
	cores := func(n types.Quantity) []types.Bundle {
		return []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": n})}}
	}
	wish := func(id, job string, n types.Quantity) taskset.Wish {
		return taskset.Wish{ID: id, Job: job, Ways: [][]types.Bundle{cores(n)}}
	}
	room := &cluster.Reservation{}
	room.Info.V = &types.Reservation{Job: "a", Bundles: cores(2)}
	units := []taskset.Wish{wish("1", "b", 2), wish("2", "a", 3), wish("3", "a", 2), wish("4", "a", 2)}
	got := ""
	for _, w := range without(s, units, []*cluster.Reservation{room}) {
		got += w.ID
	}
	if got != "124" {
		t.Errorf("without the room for one: %s", got)
	}
}
