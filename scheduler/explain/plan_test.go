package explain

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/scheduler/schedulertest"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

func TestPlan(t *testing.T) {
	inSmall(t, func(w *small) {
		w.pair()
		w.launch("hog", q{"cpu": 1500, "node/n1": 1})
		w.launch("waits", q{"cpu": 9000})
		v := w.view()
		revision, tasks := v.Revision, v.NumTasks()
		either := alternatives(alternative(q{"data": 1000}, 0), alternative(q{"cpu": 100, "node/n1": 1}, 0))
		got, err := Plan(v, []controlplane.Submission{
			submission("a", q{"cpu": 1500}), submission("", q{"cpu": 1000}), submission("", q{"cpu": 1000}), submission("", q{"gpu": 1000}), submission("b", q{}, either),
		}, "d", w.now)
		w.must(err)
		var text []string
		for _, p := range got {
			line := fmt.Sprintf("%s %s %d", p.Task, p.Node, p.Alternative)
			if p.Why != nil {
				line += fmt.Sprintf(" %t %s", p.Why.Infeasible, p.Why.Summary)
			}
			text = append(text, line)
		}
		want := []string{
			"a n2 0",
			"task-2  0 false It waits for 1 cpu: none of 2 nodes has that free, and n2 is nearest with 0.5 of 2 cpu.",
			"task-3  0 false It waits for 1 cpu: none of 2 nodes has that free, and n2 is nearest with 0.5 of 2 cpu.",
			"task-4  0 true It can never run: it asks for 1 gpu, and none of 2 nodes has any.",
			"b n1 1",
		}
		if fmt.Sprint(text) != fmt.Sprint(want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(text, "\n"), strings.Join(want, "\n"))
		}
		if v.Revision != revision || v.NumTasks() != tasks {
			t.Error("the view was changed")
		}
		// A planned task counts as a holder.
		if h := got[1].Why.Holders; !strings.Contains(fmt.Sprint(h), "{task a d cpu 1.5 n2 ") {
			t.Error(h)
		}
		// But there is nothing to stop yet.
		if text := got[1].Why.Suggestion.String(); text != "It goes on when a ends, which holds 1.5 cpu on n2." {
			t.Errorf("it suggests %q", text)
		}
	})
}

// TestPlanBuildsOnItself: resources of an earlier task of the plan, or of a reservation, count.
func TestPlanBuildsOnItself(t *testing.T) {
	inSmall(t, func(w *small) {
		w.pair()
		v := w.view()
		r := &types.Reservation{Bundles: []types.Bundle{{Requests: types.NewRequests(q{"cpu": 1500})}}}
		kv := controlplane.KV{Key: controlplane.ReservationKey("d", "train"), Value: types.Encode(1, r), ModRevision: v.Revision + 1}
		if _, _, err := v.Apply(controlplane.Event{KV: kv}); err != nil {
			t.Fatal(err)
		}
		got, err := Plan(v, []controlplane.Submission{
			submission("giver", q{"cpu": 100}, provides("data", types.WhenBound)), submission("taker", q{"data": 1000}),
			submission("member", q{"cpu@train": 1000}), submission("large", q{"cpu@train": 2000}),
		}, "d", w.now)
		w.must(err)
		if got[0].Node == "" || got[1].Node != got[0].Node || got[2].Node == "" {
			t.Error(got)
		}
		if why := got[3].Why; why == nil || !why.Infeasible || !strings.Contains(why.Summary, "it asks for 2 cpu@train, and that holds 1.5 on n") {
			t.Error(why)
		}
	})
}

func TestPlanIsRefused(t *testing.T) {
	inSmall(t, func(w *small) {
		w.pair()
		w.launch("used", q{"cpu": 100})
		_, err := Plan(w.view(), []controlplane.Submission{submission("used", q{})}, "d", w.now)
		if !types.Is(err, types.AlreadyExists) {
			t.Error(err)
		}
		_, err = Plan(w.view(), []controlplane.Submission{submission("", q{"cpu": -1})}, "d", w.now)
		if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), "tasks[0]") {
			t.Error(err)
		}
		w.put(controlplane.AdmissionKey(), &types.Admission{Reason: "full"})
		if _, err = Plan(w.view(), []controlplane.Submission{submission("", q{})}, "d", w.now); !types.Is(err, types.Precondition) {
			t.Error(err)
		}
	})
}

// oddities are resources of all kinds, and tasks that request them.
func oddities(t *rapid.T) []any {
	var kvs []any
	for i := range 6 {
		if rapid.Bool().Draw(t, "on node") {
			r := &types.Resource{Capacity: types.Quantity(1000 * rapid.IntRange(0, 2).Draw(t, "capacity")), NodeSession: int64(rapid.IntRange(1, 8).Draw(t, "session"))}
			kvs = append(kvs, controlplane.ResourceKey("a", "data", fmt.Sprint("n", i)), r)
		}
	}
	for _, where := range []string{types.ClusterWide, types.EveryNode} {
		name := rapid.SampledFrom([]string{"queue", "slot"}).Draw(t, "name")
		if rapid.Bool().Draw(t, "there") {
			kvs = append(kvs, controlplane.ResourceKey("a", name, where), &types.Resource{Capacity: types.Quantity(rapid.IntRange(0, 2000).Draw(t, "capacity"))})
		}
	}
	names := []string{"cpu", "gpu", "data", "queue", "slot", "node/n0", "node/n9", "rack/r1", "port/8080", "port", "cpu@r0", "gpu@r0", "cpu@none"}
	requests := func() types.Requests {
		amounts := make(q)
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(names), 1, 3, rapid.ID[string]).Draw(t, "requests") {
			amounts[name] = types.Quantity(500 * rapid.IntRange(1, 4).Draw(t, "amount"))
			switch name { // invalid submissions are absent
			case "port":
				amounts[name] += amounts[name] % 1000
			case "port/8080":
				amounts[name] = 1000
			}
		}
		return types.NewRequests(amounts)
	}
	for i := range rapid.IntRange(1, 8).Draw(t, "odd tasks") {
		x := &types.Task{Requests: requests(), Submitted: int64(i)}
		if rapid.Bool().Draw(t, "alternatives") {
			x.Alternatives = []types.Alternative{{Requests: requests()}, {Requests: requests(), After: time.Hour}}
		}
		if rapid.Bool().Draw(t, "provides") {
			x.Provides = []types.Provide{{Name: "data", Amount: 1000, When: rapid.SampledFrom([]types.When{types.WhenBound, types.WhenRunning, types.WhenSucceeded}).Draw(t, "when")}}
		}
		kvs = append(kvs, controlplane.TaskKey("a", fmt.Sprint("odd", i)), x)
	}
	return kvs
}

// TestExplainAgreesWithSchedule: in any cluster, tasks that Schedule leaves waiting are explained
// as waiting. Tasks that it places were never called infeasible, and a plan places what Schedule
// places.
func TestExplainAgreesWithSchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := schedulertest.Snapshot(t, append(schedulertest.AnyCluster(t), oddities(t)...)...)
		now := time.Unix(100, 0)
		decision, after := scheduler.Simulate(v, scheduler.Config{}, now)
		for _, x := range decision.Waiting {
			e := explainerIn(v, after, now)
			explain := e.task
			if x.Reservation {
				explain = e.reservation
			}
			got, err := explain(x.ID)
			if err != nil {
				t.Fatal(err)
			}
			if !x.Reservation && got.Cause == why.AboutToBind || got.Suggestion.IsZero() && got.Cause != why.AllowedLater || len(got.Lines(false, action.Action.String)) > why.MaxLines {
				t.Fatalf("%s waits: %s", x.ID, strings.Join(got.Lines(true, action.Action.String), "\n"))
			}
		}
		for _, b := range decision.Binds {
			got, err := Explain(v, b.Task, now)
			if err != nil || got.Infeasible {
				t.Fatalf("%s is placed: %s %v", b.Task, got.Summary, err)
			}
		}
	})
}

// question is an object of a large cluster to explain. all bounds the visits per object, perNode
// those per node in addition.
type question struct {
	what         string
	all, perNode int
	about        func(e *explainer) (why.Explanation, error)
}

func questions() []question {
	task := func(id string) func(e *explainer) (why.Explanation, error) {
		return func(e *explainer) (why.Explanation, error) { return e.task(clusterID("a", id)) }
	}
	return []question{
		{"a task that waits for room", 1, 1, task("p0")},
		{"a task of three alternatives", 1, 3, task("alternatives")},
		{"a task that waits for a provider", 2, 2, task("needy")},
		{"a reservation", 1, 4, func(e *explainer) (why.Explanation, error) { return e.reservation(clusterID("a", "gang")) }},
		{"a job of all that waits", 1, shapesExplained, func(e *explainer) (why.Explanation, error) { return e.job(clusterID("a", "j")) }},
		{"a node", 1, 1, func(e *explainer) (why.Explanation, error) { return e.node("a", "n7") }},
	}
}

// TestExplainLooksOnce: an explanation visits each object a few times, not once per other object.
func TestExplainLooksOnce(t *testing.T) {
	const nodes, running, pending = 1000, 3000, 2000
	v := crowd(t, nodes, running, pending)
	const slack = 200
	for _, c := range questions() {
		e := newExplainer(v, time.Unix(100, 0))
		if _, err := c.about(e); err != nil {
			t.Fatal(err)
		}
		if most := c.all*(nodes+running+pending) + c.perNode*nodes + slack; e.looks > most {
			t.Errorf("%s: looked %d times, at most %d are due", c.what, e.looks, most)
		}
	}
}

// BenchmarkExplain explains in a cluster of 10,000 nodes and 50,000 tasks.
func BenchmarkExplain(b *testing.B) {
	v := crowd(b, 10000, 30000, 20000)
	for _, c := range questions() {
		b.Run(strings.ReplaceAll(c.what, " ", "-"), func(b *testing.B) {
			for b.Loop() {
				e := newExplainer(v, time.Unix(100, 0))
				if _, err := c.about(e); err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(e.looks), "looks")
			}
		})
	}
}

// crowd is a full cluster: three tasks on every node, and many waiting ones.
func crowd(t testing.TB, nodes, running, pending int) *cluster.View {
	v := cluster.New()
	put := func(key string, m types.Message) {
		kv := controlplane.KV{Key: key, Value: types.Encode(1, m), CreateRevision: 1, ModRevision: 1}
		if _, _, err := v.Apply(controlplane.Event{KV: kv}); err != nil {
			t.Fatal(err)
		}
	}
	held := []types.Holding{{Resource: types.CPU, Amount: 600}}
	for i := range nodes {
		name := fmt.Sprint("n", i)
		put(controlplane.NodeKey(name), &types.Node{Capacity: schedulertest.Vector(2000, 0)})
		put(controlplane.AliveKey(name), &types.Alive{})
		put(controlplane.AllocatedKey(name), &types.Allocated{Holds: []types.Holding{{Resource: types.CPU, Amount: types.Quantity(600 * running / nodes)}}})
	}
	for i := range running {
		id, node := fmt.Sprint("r", i), fmt.Sprint("n", i%nodes)
		put(controlplane.TaskKey("a", id), &types.Task{Requests: schedulertest.Vector(600, 0), Submitted: 1})
		put(controlplane.BindingKey(node, "a", id, 1), &types.Binding{Session: 1, Holds: held})
		put(controlplane.StatusKey("a", id), &types.Status{Phase: types.Running, Node: node, Attempt: 1})
	}
	for i := range pending {
		put(controlplane.TaskKey("a", fmt.Sprint("p", i)), &types.Task{Requests: schedulertest.Vector(types.Quantity(1000+i%40), 0), Submitted: int64(math.MaxInt32 - i), Job: "j"})
	}
	put(controlplane.JobKey("a", "j"), &types.Job{Tasks: pending})
	put(controlplane.TaskKey("a", "giver"), &types.Task{Requests: schedulertest.Vector(1900, 0), Provides: []types.Provide{{Name: "data", Amount: 1000, When: types.WhenBound}}})
	put(controlplane.TaskKey("a", "needy"), &types.Task{Requests: types.NewRequests(q{"data": 1000})})
	three := []types.Alternative{{Requests: schedulertest.Vector(1000, 0)}, {Requests: schedulertest.Vector(1900, 0)}, {Requests: schedulertest.Vector(9000, 0)}}
	put(controlplane.TaskKey("a", "alternatives"), &types.Task{Alternatives: three})
	put(controlplane.ReservationKey("a", "gang"), &types.Reservation{Bundles: []types.Bundle{{Requests: schedulertest.Vector(1000, 0)}, {Requests: schedulertest.Vector(1000, 0)}}})
	v.Reached(1)
	return v
}
