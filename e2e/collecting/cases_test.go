package collecting

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/esltest"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/admission"
	"github.com/escher-sched/escher/esl/collect"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/room"
	"github.com/escher-sched/escher/esl/turn"
	"github.com/escher-sched/escher/types"
)

// arrives is a job of a case.
type arrives struct {
	name string
	// at is when it is submitted, in seconds.
	at int
	// tasks is how many it has; more than one are a gang. Each requests a node, or what of says.
	tasks int
	of    map[string]types.Quantity
	// runs is how long it runs, in minutes; known says so to Escher, as a limit that is a little longer.
	runs     float64
	known    bool
	priority int
	policies []esl.Policy
	// deadline is within how many minutes it is to end; 0 means that it has none.
	deadline float64
}

// smallCase says which jobs arrive, and when they are to begin, by name, in minutes. Four nodes become free
// after 10, 20, 30 and 40 minutes, unless nodes says which there are. Gangs collect after 30 seconds.
type smallCase struct {
	nodes []hollow.Node
	// known says until when the nodes are taken, as a limit.
	known  bool
	before func(ctx context.Context, c *hollow.Cluster, client *esl.Client) error
	jobs   []arrives
	want   string
}

// wholeNode is what a job requests that takes a node.
var wholeNode = map[string]types.Quantity{"cpu": 1000}

// bundles are the requests of a reservation of nodes.
func bundlesOf(n int) (all []types.Bundle) {
	for range n {
		all = append(all, bundleOf(wholeNode))
	}
	return all
}

// withGPUs are nodes of eight devices.
func withGPUs(n int) []hollow.Node {
	nodes := hollow.Nodes(n, 1)
	for i := range nodes {
		nodes[i].Capacity["gpu"] = 8000
	}
	return nodes
}

// oldGang is a gang of four that collects.
func oldGang() arrives { return arrives{name: "old", at: 10, tasks: 4, runs: 10} }

// casesAhead are about what precedes a gang that collects.
func casesAhead() map[string]smallCase {
	old := oldGang()
	return map[string]smallCase{
		"a task of higher priority": {jobs: []arrives{old, {name: "new", at: 70, tasks: 1, runs: 5, priority: 9}}, want: "new 10, old 40"},
		"a gang of two of higher priority": {jobs: []arrives{old, {name: "new", at: 70, tasks: 2, runs: 5, priority: 9}},
			want: "new 20, old 40"},
		"a gang of four of higher priority": {jobs: []arrives{old, {name: "new", at: 70, tasks: 4, runs: 5, priority: 9}},
			want: "new 40, old 45"},
		"a gang that evicts": {jobs: []arrives{old, {name: "new", at: 70, tasks: 2, runs: 2, priority: 9, policies: []esl.Policy{room.Preempt{}}}},
			want: "new 1.2, old 40"},
		"older tasks of higher priority": {jobs: []arrives{{name: "a", at: 5, tasks: 1, runs: 5, priority: 5}, {name: "b", at: 5, tasks: 1, runs: 5, priority: 5}, old},
			want: "a 10, b 15, old 40"},
	}
}

// casesBehind are about what follows it, and about the order of what waits.
func casesBehind() map[string]smallCase {
	old := oldGang()
	return map[string]smallCase{
		"a younger task": {jobs: []arrives{old, {name: "new", at: 70, tasks: 1, runs: 5}}, want: "new 50, old 40"},
		"a younger gang": {jobs: []arrives{old, {name: "new", at: 70, tasks: 2, runs: 5}}, want: "new 50, old 40"},
		"a younger gang of higher priority, behind an older of the same": {
			jobs: []arrives{old, {name: "a", at: 60, tasks: 2, runs: 15, priority: 3}, {name: "b", at: 70, tasks: 2, runs: 15, priority: 3}},
			want: "a 20, b 35, old 50"},
		"an older gang of lower priority": {
			jobs: []arrives{{name: "low", at: 10, tasks: 2, runs: 5, priority: -1}, {name: "new", at: 70, tasks: 4, runs: 5}},
			want: "low 20, new 40"},
		"a task that has waited long, raised": {jobs: []arrives{old, {name: "new", at: 70, tasks: 1, runs: 5, policies: []esl.Policy{turn.Aging{Every: manifest.Duration(12 * time.Minute)}}}},
			want: "new 13.2, old 40"},
		"the shortest of three": {jobs: []arrives{
			{name: "a", at: 10, tasks: 1, runs: 60, known: true, policies: []esl.Policy{turn.Shortest{}}},
			{name: "b", at: 20, tasks: 1, runs: 25, known: true, policies: []esl.Policy{turn.Shortest{}}},
			{name: "c", at: 30, tasks: 1, runs: 5, known: true, policies: []esl.Policy{turn.Shortest{}}},
		}, want: "a 20, b 15, c 10"},
		"the earliest deadline of two": {jobs: []arrives{
			{name: "a", at: 10, tasks: 1, runs: 5, known: true, deadline: 600, policies: []esl.Policy{turn.EarliestDeadline{}}},
			{name: "b", at: 20, tasks: 1, runs: 5, known: true, deadline: 30, policies: []esl.Policy{turn.EarliestDeadline{}}},
		}, want: "a 15, b 10"},
	}
}

// casesBackfill are about what may pass it, as it ends in time.
func casesBackfill() map[string]smallCase {
	old := oldGang()
	return map[string]smallCase{
		"a younger task that ends in time": {known: true, jobs: []arrives{old, {name: "new", at: 70, tasks: 1, runs: 5, known: true}},
			want: "new 10, old 40"},
		"a younger task that might not end in time": {known: true, jobs: []arrives{old, {name: "new", at: 70, tasks: 1, runs: 45, known: true}},
			want: "new 50, old 40"},
		"a younger task that ends in time, nobody knows when the nodes are free": {jobs: []arrives{old, {name: "new", at: 70, tasks: 1, runs: 5, known: true}},
			want: "new 50, old 40"},
		"two younger tasks one after another on one node": {known: true, jobs: []arrives{old,
			{name: "a", at: 70, tasks: 1, runs: 8, known: true}, {name: "b", at: 80, tasks: 1, runs: 8, known: true}, {name: "c", at: 90, tasks: 1, runs: 15, known: true}},
			want: "a 10, b 18, c 20, old 40"},
		"a younger gang that ends in time": {known: true, jobs: []arrives{old, {name: "new", at: 70, tasks: 2, runs: 15, known: true}},
			want: "new 20, old 40"},
		"a younger gang that might not end in time": {known: true, jobs: []arrives{old, {name: "new", at: 70, tasks: 2, runs: 25, known: true}},
			want: "new 50, old 40"},
		"a younger gang of which nobody knows when it ends": {known: true, jobs: []arrives{old, {name: "new", at: 70, tasks: 2, runs: 15}},
			want: "new 50, old 40"},
		"a younger task that ends before a gang on the nodes does": {known: true, jobs: []arrives{
			{name: "first", at: 5, tasks: 3, runs: 20, known: true}, old, {name: "new", at: 31 * 60, tasks: 1, runs: 9, known: true}},
			want: "first 30, new 40, old 50"},
		"a task behind two younger gangs, one after another": {known: true, jobs: []arrives{old,
			{name: "a", at: 70, tasks: 2, runs: 9, known: true}, {name: "b", at: 80, tasks: 3, runs: 9, known: true}, {name: "c", at: 90, tasks: 1, runs: 5, known: true}},
			want: "a 20, b 30, c 10, old 40"},
	}
}

// casesElse are about what else is in the way: devices, racks, reservations, queues, quotas.
func casesElse() map[string]smallCase {
	use := []esl.Policy{esl.Use{Name: "line"}}
	declare := func(s esl.Shared) func(context.Context, *hollow.Cluster, *esl.Client) error {
		return func(ctx context.Context, _ *hollow.Cluster, client *esl.Client) error {
			return client.Declare(ctx, "line", s, "")
		}
	}
	return map[string]smallCase{
		"devices that the gang leaves": {nodes: withGPUs(4), jobs: []arrives{
			{name: "old", at: 10, tasks: 4, runs: 10, of: map[string]types.Quantity{"cpu": 1000, "gpu": 6000}},
			{name: "new", at: 70, tasks: 1, runs: 5, of: map[string]types.Quantity{"gpu": 2000}},
			{name: "more", at: 80, tasks: 1, runs: 5, of: map[string]types.Quantity{"gpu": 8000}},
		}, want: "more 50, new 1.2, old 40"},
		"a gang in one rack": {nodes: hollow.Racks(hollow.Nodes(4, 1), 2), jobs: []arrives{
			{name: "old", at: 10, tasks: 2, runs: 30, policies: []esl.Policy{gang.Gang{In: esl.Rack}}},
			{name: "new", at: 70, tasks: 2, runs: 5, policies: []esl.Policy{gang.Gang{In: esl.Rack}}},
		}, want: "new 40, old 20"},
		"a reservation": {before: func(ctx context.Context, _ *hollow.Cluster, client *esl.Client) error {
			time.Sleep(5 * time.Second)
			return client.Reserve(ctx, "kept", types.Reservation{Bundles: bundlesOf(4), Accumulate: true})
		}, jobs: []arrives{
			{name: "new", at: 70, tasks: 1, runs: 5},
			{name: "owner", at: 80, tasks: 1, runs: 5, of: map[string]types.Quantity{"cpu@kept": 1000}},
		}, want: "new never, owner 40"},
		"a queue in the way": {before: declare(admission.Queue{Limit: 1}), jobs: []arrives{
			{name: "a", at: 10, tasks: 1, runs: 25, policies: use}, {name: "b", at: 20, tasks: 1, runs: 5, policies: use}, {name: "new", at: 70, tasks: 1, runs: 5},
		}, want: "a 10, b 35, new 20"},
		"a gang that a closed queue holds": {before: declare(admission.Queue{Closed: true}), jobs: []arrives{
			{name: "old", at: 10, tasks: 4, runs: 10, policies: use}, {name: "new", at: 70, tasks: 1, runs: 5},
		}, want: "new 10, old never"},
		"a gang beyond its quota": {before: func(ctx context.Context, c *hollow.Cluster, _ *esl.Client) error {
			admin, err := c.Client("admin")
			if err != nil {
				return err
			}
			if _, err := admin.SetResource(ctx, "cores", 2000, controlplane.InCluster(), controlplane.SetOptions{Declare: true}); err != nil {
				return err
			}
			return esltest.Put(c.Store, controlplane.NamespaceKey("d"), &types.Namespace{Quotas: []types.Quota{{Resource: types.CPU, Pool: "admin:cores"}}})
		}, jobs: []arrives{
			{name: "old", at: 10, tasks: 3, runs: 30}, {name: "a", at: 70, tasks: 1, runs: 15}, {name: "b", at: 80, tasks: 1, runs: 5}, {name: "c", at: 90, tasks: 1, runs: 5},
		}, want: "a 10, b 20, c 25, old never"},
	}
}

// TestSmallCases runs each case on a hollow cluster, in virtual time.
func TestSmallCases(t *testing.T) {
	for _, cases := range []map[string]smallCase{casesAhead(), casesBehind(), casesBackfill(), casesElse()} {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { c.run(t) })
			})
		}
	}
}

// lasts is when a case ends: what has not begun by then never does.
const lasts = 75 * time.Minute

func (c smallCase) run(t *testing.T) {
	nodes := c.nodes
	if nodes == nil {
		nodes = hollow.Nodes(4, 1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cluster, err := hollow.Start(ctx, hollow.Config{Nodes: nodes, Collect: collect.Config{After: 30 * time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	}()
	client, err := cluster.Client("d")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	begun := make(map[string]time.Duration)
	watched := make(chan error, 1)
	go func() {
		watched <- client.Watch(ctx, controlplane.WatchTasks{}, func(u controlplane.StatusUpdate) error {
			for _, x := range u.Changes {
				name, _, _ := strings.Cut(x.ID, "-")
				if _, ok := begun[name]; !ok && x.Status != nil && x.Status.Phase == types.Running {
					begun[name] = time.Since(start)
				}
			}
			return nil
		})
	}()
	if err := c.submit(ctx, cluster, client, start); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Until(start.Add(lasts)))
	if err := cluster.Audit(ctx); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-watched; err != nil && ctx.Err() == nil {
		t.Error(err)
	}
	c.check(t, begun)
}

// submit submits what takes the nodes, and each job at its time.
func (c smallCase) submit(ctx context.Context, cluster *hollow.Cluster, client *esl.Client, start time.Time) error {
	for i := range 4 {
		taken := arrives{name: fmt.Sprint("taken", i), tasks: 1, runs: float64(10 * (i + 1)), known: c.known,
			of: map[string]types.Quantity{"cpu": 1000, fmt.Sprintf("node/n%02d", i): 1}}
		if err := taken.submit(ctx, client); err != nil {
			return err
		}
	}
	time.Sleep(2 * time.Second)
	if c.before != nil {
		if err := c.before(ctx, cluster, client); err != nil {
			return err
		}
	}
	for _, j := range c.jobs {
		time.Sleep(time.Until(start.Add(time.Duration(j.at) * time.Second)))
		if err := j.submit(ctx, client); err != nil {
			return err
		}
	}
	return nil
}

func (j arrives) submit(ctx context.Context, client *esl.Client) error {
	runs := time.Duration(j.runs * float64(time.Minute))
	t := types.Task{Name: j.name, Priority: j.priority, Requests: types.NewRequests(wholeNode)}
	if j.of != nil {
		t.Requests = types.NewRequests(j.of)
	}
	if j.known {
		t.MaxRun = runs + 10*time.Second
	}
	if j.deadline > 0 {
		t.Deadline = time.Now().Add(time.Duration(j.deadline * float64(time.Minute))).UnixNano()
	}
	var all []controlplane.Submission
	for i := range j.tasks {
		all = append(all, controlplane.Submission{ID: fmt.Sprint(j.name, "-", i), Task: t,
			Spec: &types.Spec{Image: "escher.local/hollow", Command: []string{"run", runs.String()}}})
	}
	policies := j.policies
	isGang := func(p esl.Policy) bool { return p.Kind() == gang.Gang{}.Kind() }
	if j.tasks > 1 && !slices.ContainsFunc(policies, isGang) {
		policies = append(slices.Clip(policies), gang.Gang{})
	}
	_, err := client.Submit(ctx, controlplane.Job{ID: j.name, Tasks: all}, policies...)
	return err
}

// check compares when the jobs began with what is wanted: up to half a minute later.
func (c smallCase) check(t *testing.T, begun map[string]time.Duration) {
	for _, one := range strings.Split(c.want, ", ") {
		name, text, _ := strings.Cut(one, " ")
		at, ok := begun[name]
		want, err := strconv.ParseFloat(text, 64)
		switch {
		case text == "never":
			if ok {
				t.Errorf("%s begins after %.1f minutes, and is not to", name, at.Minutes())
			}
		case err != nil:
			t.Errorf("%q is no time", one)
		case !ok || at.Minutes() < want-0.1 || at.Minutes() > want+0.5:
			t.Errorf("%s begins after %.1f minutes, want %s (%v)", name, at.Minutes(), text, begun)
		}
	}
}
