package estimate_test

import (
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
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/estimate"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/types"
)

const gib types.Quantity = 1 << 30

// node is a large node with memory.
func node() []hollow.Node {
	return []hollow.Node{{Name: "n", Capacity: map[string]types.Quantity{"cpu": 64_000, "memory": 256 * gib}}}
}

// using is a task that declares 2 cores and 8 GiB, and uses what is given.
func using(memory types.Quantity, cpu int) controlplane.Submission {
	s := hollow.Task(2000, "run", "10m", "memory", fmt.Sprint(int64(memory))+"B", "cpu", fmt.Sprintf("%dm", cpu))
	s.Task.Requests = types.NewRequests(map[string]types.Quantity{"cpu": 2000, "memory": 8 * gib})
	return s
}

// requested returns what a task requests.
func requested(t *testing.T, c *hollow.Cluster, id string) (cpu, memory types.Quantity) {
	t.Helper()
	v, err := c.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r := v.Task(esltest.IDOf(id)).Info.V.Requests
	return r.Get("cpu"), r.Get("memory")
}

// TestEstimate requests what past runs used, as soon as there are enough of them; of gangs too.
func TestEstimate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.OrderedOn(t, node())
		run := func(s controlplane.Submission, n int, policies ...esl.Policy) (cpu, memory types.Quantity) {
			l := esltest.Submitted(t, jobs, esl.Copies(n, s), policies...)
			cpu, memory = requested(t, c, l.Tasks[0])
			esltest.Statuses(t, jobs, controlplane.UntilEnded, l.Tasks...)
			esltest.Pass(time.Minute)
			return cpu, memory
		}
		all := estimate.Estimate{Memory: "p100", CPU: "p50"}
		for i := range 3 {
			if cpu, memory := run(using(gib, 500), 1, all); cpu != 2000 || memory != 8*gib {
				t.Errorf("after %d runs it requests %d, %d", i, cpu, memory)
			}
		}
		if cpu, memory := run(using(gib, 500), 1, all); cpu < 575 || cpu > 630 || memory < 115*gib/100 || memory > 126*gib/100 {
			t.Errorf("after 3 runs it requests %d, %d", cpu, memory)
		}
		if cpu, memory := run(using(gib, 500), 1, estimate.Estimate{Margin: "100%"}); cpu != 2000 || memory < 2*gib || memory > 219*gib/100 {
			t.Errorf("memory alone, with a margin: it requests %d, %d", cpu, memory)
		}
		if _, memory := run(using(gib, 500), 1, estimate.Estimate{Runs: 10}); memory != 8*gib {
			t.Errorf("with fewer than 10 runs it requests %d", memory)
		}
		l := esltest.Submitted(t, jobs, esl.Copies(3, using(gib, 500)), all, gang.Gang{})
		v, err := c.View(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for id, r := range v.Reservations {
			for _, b := range r.Info.V.Bundles {
				if m := b.Requests.Get("memory"); m < 115*gib/100 || m > 126*gib/100 {
					t.Errorf("reservation %s of the gang has %d", id, m)
				}
			}
		}
		esltest.Statuses(t, jobs, controlplane.UntilEnded, l.Tasks...)
		esltest.NothingLeft(t, c)
	})
}

// TestEstimateGrows: a task that used up its memory requests more, until it suffices; what others request
// stays, and so does a task that failed otherwise.
func TestEstimateGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.OrderedOn(t, node())
		s := using(11*gib, 500) // more than it declares, and more than its limit
		s.Task.Retries, s.Spec.MemoryLimit = 5, 9*gib
		l := esltest.Submitted(t, jobs, esl.Copies(1, s), estimate.Estimate{})
		fails := hollow.Task(1000, "run", "1m", "exit", "3")
		fails.Task.Retries = 1
		other := esltest.Submitted(t, jobs, esl.Copies(1, fails), estimate.Estimate{})
		esltest.Pass(10*time.Minute + 500*time.Millisecond)
		if text := esltest.TaskWhy(t, c, l.Tasks[0]); !strings.Contains(text, "estimate: it used up 9Gi of memory, and requests 11520Mi now") {
			t.Errorf("why: %q", text)
		}
		ended := esltest.Statuses(t, jobs, controlplane.UntilEnded, l.Tasks[0], other.Tasks[0])
		if s := ended[0]; s.Phase != types.Succeeded || s.Failures != 1 || s.Used.Memory != 11*gib {
			t.Errorf("it is %s after %d failures, and used %d", s.Phase, s.Failures, s.Used.Memory)
		}
		if cpu, memory := requested(t, c, l.Tasks[0]); cpu != 2000 || memory != 11*gib+256<<20 {
			t.Errorf("it requests %d, %d", cpu, memory)
		}
		if cpu, memory := requested(t, c, other.Tasks[0]); cpu != 1000 || memory != 0 || ended[1].Phase != types.Failed {
			t.Errorf("the other requests %d, %d, and is %s", cpu, memory, ended[1].Phase)
		}
		esltest.NothingLeft(t, c)
	})
}

// TestEstimateOrigin says where requests come from.
func TestEstimateOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, jobs := esltest.OrderedOn(t, node())
		origin := func(id string) []string {
			v, err := c.View(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return esl.Origins(v, builtin.Kinds(), cluster.ID{Namespace: "d", ID: id})
		}
		for i := range 4 {
			l := esltest.Submitted(t, jobs, esl.Copies(1, using(gib, 500)), estimate.Estimate{Memory: "p50"})
			if got := origin(l.Tasks[0]); i < 3 && !slices.Equal(got, []string{fmt.Sprintf("memory 8Gi: as declared; %d of 3 past runs are known", i)}) {
				t.Errorf("%q", got)
			}
			esltest.Statuses(t, jobs, controlplane.UntilEnded, l.Tasks...)
			esltest.Pass(time.Minute)
		}
		l := esltest.Submitted(t, jobs, esl.Copies(1, using(gib, 500)), estimate.Estimate{Memory: "p50"})
		if got := origin(l.Tasks[0]); !slices.Equal(got, []string{"memory 1178Mi: as of the submission; now p50 of 4 past runs and 15% is 1178Mi"}) {
			t.Errorf("%q", got)
		}
	})
}

// TestEstimateIsValidated refuses wrong values, and names the field.
func TestEstimateIsValidated(t *testing.T) {
	for problem, p := range map[string]estimate.Estimate{
		"":       {Memory: "p99.9", CPU: "p0", Margin: "0%", Runs: 1000},
		"memory": {Memory: "99"}, "memory:": {Memory: "p101"}, "cpu": {CPU: "pNaN"}, "cpu:": {CPU: "p"},
		"margin": {Margin: "15"}, "margin:": {Margin: "-1%"}, "runs": {Runs: -1}, "runs:": {Runs: 1001},
	} {
		if err := p.Validate(); (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("%s: %v", problem, err)
		}
	}
	flag := esl.Describe(estimate.Estimate{}).Flags[0]
	for text, want := range map[string]esl.Parameters{
		"memory": {"memory": "p99"}, "cpu=p95,memory": {"cpu": "p95", "memory": "p99"}, "": nil, "disk": nil, "cpu,cpu": nil,
	} {
		got, err := flag.Text(text)
		if (err == nil) != (want != nil) || want != nil && fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("--estimate %s: %v, %v", text, got, err)
		}
	}
}
