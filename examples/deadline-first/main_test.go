package main

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/gang"
)

// job is a job of a case: its tasks with so many cores each and a deadline in hours, 0 for none.
type job struct {
	name         string
	tasks, cores int
	deadline     int
	policies     []esl.Policy
}

// began runs jobs under the policy, submitted in their order while a task outside of it holds two
// cores for ten seconds, and returns the names of the jobs in the order in which they began.
func began(t *testing.T, nodes []hollow.Node, p DeadlineFirst, jobs []job) (order []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		kinds := builtin.Kinds().With(func() esl.Policy { return DeadlineFirst{} })
		c, err := hollow.Start(t.Context(), hollow.Config{Nodes: nodes, Kinds: kinds})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}()
		client, err := c.Client("default")
		if err != nil {
			t.Fatal(err)
		}
		if err := client.Declare(t.Context(), "line", p, ""); err != nil {
			t.Fatal(err)
		}
		hog := hollow.Task(2000, "run", "10s")
		if _, err := client.Submit(t.Context(), controlplane.Job{Name: "hog", Tasks: []controlplane.Submission{hog}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		order = beginnings(t, client, jobs)
		if err := c.Audit(t.Context()); err != nil {
			t.Error(err)
		}
	})
	return order
}

// beginnings submits jobs, waits for their ends, and returns their names in the order in which their
// first tasks began.
func beginnings(t *testing.T, client *esl.Client, jobs []job) []string {
	t.Helper()
	tasks := make(map[string][]string)
	for _, j := range jobs {
		task := hollow.Task(1000*j.cores, "run", "5s")
		if j.deadline > 0 {
			task.Task.Deadline = time.Now().Add(time.Duration(j.deadline) * time.Hour).UnixNano()
		}
		policies := append(slices.Clone(j.policies), esl.Use{Name: "line"})
		done, err := client.Submit(t.Context(), controlplane.Job{Name: j.name, Tasks: esl.Copies(j.tasks, task)}, policies...)
		if err != nil {
			t.Fatal(err)
		}
		tasks[j.name] = done.Tasks
		time.Sleep(time.Second)
	}
	first := make(map[string]int64)
	for name, ids := range tasks {
		ended, err := client.Wait(t.Context(), controlplane.UntilEnded, ids...)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			if at := ended[id].Bound; first[name] == 0 || at < first[name] {
				first[name] = at
			}
		}
	}
	names := make([]string, 0, len(jobs))
	for _, j := range jobs {
		names = append(names, j.name)
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(first[a], first[b]) })
	return names
}

// TestOrder lets jobs begin by their deadlines, whatever their sizes and whenever they came.
func TestOrder(t *testing.T) {
	one := hollow.Nodes(1, 4)
	two := append(hollow.Nodes(1, 4), hollow.Node{Name: "small", Capacity: hollow.Nodes(1, 1)[0].Capacity})
	for name, c := range map[string]struct {
		nodes  []hollow.Node
		policy DeadlineFirst
		jobs   []job
		want   string
	}{
		"by deadline": {one, DeadlineFirst{}, []job{
			{name: "never", tasks: 1, cores: 4}, {name: "late", tasks: 1, cores: 4, deadline: 3}, {name: "early", tasks: 1, cores: 4, deadline: 1}, {name: "middle", tasks: 1, cores: 4, deadline: 2},
		}, "early middle late never"},
		"none overtakes": {one, DeadlineFirst{}, []job{
			{name: "wide", tasks: 1, cores: 4, deadline: 1}, {name: "narrow", tasks: 1, cores: 1, deadline: 2},
		}, "wide narrow"},
		"nor with backfill": {one, DeadlineFirst{Backfill: true}, []job{
			{name: "wide", tasks: 1, cores: 4, deadline: 1}, {name: "narrow", tasks: 1, cores: 1, deadline: 2},
		}, "wide narrow"},
		"nor on a node that the first cannot use": {two, DeadlineFirst{}, []job{
			{name: "wide", tasks: 1, cores: 4, deadline: 1}, {name: "narrow", tasks: 1, cores: 1, deadline: 2},
		}, "wide narrow"},
		"there with backfill": {two, DeadlineFirst{Backfill: true}, []job{
			{name: "wide", tasks: 1, cores: 4, deadline: 1}, {name: "narrow", tasks: 1, cores: 1, deadline: 2},
		}, "narrow wide"},
		"a gang as a whole": {one, DeadlineFirst{}, []job{
			{name: "gang", tasks: 2, cores: 2, deadline: 1, policies: []esl.Policy{gang.Gang{}}}, {name: "narrow", tasks: 1, cores: 1, deadline: 2},
		}, "gang narrow"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(began(t, c.nodes, c.policy, c.jobs), " "); got != c.want {
				t.Errorf("they begin in the order %s, want %s", got, c.want)
			}
		})
	}
}

// TestGuideShowsThePolicy: docs/policies/own-order.md shows the tested policy.
func TestGuideShowsThePolicy(t *testing.T) {
	program, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	guide, err := os.ReadFile("../../docs/policies/own-order.md")
	if err != nil {
		t.Fatal(err)
	}
	_, policy, _ := strings.Cut(string(program), "// DeadlineFirst is")
	policy, _, _ = strings.Cut(policy, "func main()")
	if shown := strings.TrimSpace("// DeadlineFirst is" + policy); !strings.Contains(string(guide), "```go\n"+shown+"\n```") {
		t.Errorf("the guide does not show:\n%s", shown)
	}
}
