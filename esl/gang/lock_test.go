package gang

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/types"
)

// taskOf returns a task that requests amounts of resources.
func taskOf(requests map[string]types.Quantity, change ...func(*types.Task)) controlplane.Submission {
	t := types.Task{Requests: types.NewRequests(requests)}
	for _, f := range change {
		f(&t)
	}
	return controlplane.Submission{Task: t}
}

func cpu(milli types.Quantity) map[string]types.Quantity {
	return map[string]types.Quantity{"cpu": milli}
}

func gpus(milli types.Quantity, models ...string) controlplane.Submission {
	return taskOf(map[string]types.Quantity{"gpu": milli}, func(t *types.Task) {
		if len(models) > 0 {
			t.Devices = []types.DeviceRequest{{Resource: "gpu", Models: models}}
		}
	})
}

// TestGangRefuses reports the errors of a gang at submission, with field and remedy.
func TestGangRefuses(t *testing.T) {
	either := func(t *types.Task) { t.Alternatives = []types.Alternative{{}, {}} }
	gives := func(t *types.Task) {
		t.Provides = []types.Provide{{Name: "x", Amount: esl.One, When: types.WhenBound}}
	}
	for says, c := range map[string]struct {
		tasks    []controlplane.Submission
		policies []esl.Policy
	}{
		"":                                       {esl.Copies(2, taskOf(cpu(1))), []esl.Policy{Gang{PerNode: 2, In: esl.Zone, Loss: esl.Alone, Restarts: 7}}},
		"perNode: -1 is negative":                {esl.Copies(2, taskOf(cpu(1))), []esl.Policy{Gang{PerNode: -1}}},
		"restarts: 2 are allowed, and onLoss":    {esl.Copies(2, taskOf(cpu(1))), []esl.Policy{Gang{Restarts: 2}}},
		`onLoss: "retry" is unknown`:             {esl.Copies(2, taskOf(cpu(1))), []esl.Policy{Gang{Loss: "retry"}}},
		`in: "row" is unknown`:                   {esl.Copies(2, taskOf(cpu(1))), []esl.Policy{Gang{In: "row"}}},
		"perNode: 2 are to be together":          {esl.Copies(2, taskOf(cpu(1))), []esl.Policy{Gang{PerNode: 2, In: esl.Node}}},
		"gang and apart exclude each other":      {esl.Copies(2, taskOf(cpu(1))), []esl.Policy{Gang{In: esl.Node}, place.Apart{}}},
		"apart has at most 1 on one node":        {esl.Copies(4, taskOf(cpu(1))), []esl.Policy{place.Apart{}, Gang{PerNode: 2}}},
		"tasks[1].alternatives":                  {[]controlplane.Submission{taskOf(cpu(1)), taskOf(cpu(1), either)}, []esl.Policy{Gang{}}},
		"x: some ask for it":                     {[]controlplane.Submission{taskOf(cpu(1), gives), taskOf(map[string]types.Quantity{"x": esl.One})}, []esl.Policy{Gang{}}},
		"gpu: those together on a node ask":      {esl.Copies(3, gpus(500)), []esl.Policy{Gang{PerNode: 3}}},
		"devices: those together on a node":      {[]controlplane.Submission{gpus(1000, "A100"), gpus(1000, "H100")}, []esl.Policy{Gang{In: esl.Node}}},
		"tasks[0].retries: 2, and with onLoss":   {esl.Copies(2, taskOf(cpu(1), func(t *types.Task) { t.Retries = 2 })), []esl.Policy{Gang{}}},
		"accumulate: what is locked collects":    {esl.Copies(2, taskOf(cpu(1), func(t *types.Task) { t.Accumulate = true })), []esl.Policy{Gang{}}},
		"nothing to be locked: give cpu":         {esl.Copies(2, taskOf(nil)), []esl.Policy{Gang{}}},
		`"cpu@foo" is of another reservation`:    {esl.Copies(2, taskOf(map[string]types.Quantity{"cpu@foo": 1})), []esl.Policy{Gang{}}},
		"locked already by gang: drop one":       {esl.Copies(2, taskOf(cpu(1))), []esl.Policy{Gang{}, Gang{}}},
		"prefer gives tasks[0] alternatives":     {esl.Copies(2, taskOf(cpu(1))), []esl.Policy{Gang{}, place.Prefer{Of: []place.Choice{{Rack: "a"}}, Anywhere: manifest.Wait(1e9)}}},
		"policies[1] (gang): tasks[0].alternati": {esl.Copies(1, taskOf(cpu(1), either)), []esl.Policy{place.Apart{}, Gang{}}},
	} {
		t.Run(says, func(t *testing.T) {
			g := &esl.Group{Namespace: "d", ID: "j", Tasks: c.tasks}
			err := g.Apply(c.policies)
			if says == "" && err != nil || says != "" && (!types.Is(err, types.Invalid) || !strings.Contains(err.Error(), says)) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestLock reserves the requests of all policies, with a bundle for tasks on one node, and tasks
// draw on nothing else.
func TestLock(t *testing.T) {
	at := taskOf(map[string]types.Quantity{"cpu": 100, "rack/r1": 1, "pool": esl.One}, func(t *types.Task) { t.Priority = 3 })
	g := &esl.Group{Namespace: "d", ID: "j", Session: "s", Tasks: esl.Copies(3, at)}
	for i := range g.Tasks {
		g.Tasks[i].Task.Session = "s"
	}
	if err := g.Apply([]esl.Policy{Gang{PerNode: 2}, place.Apart{PerNode: 2}}); err != nil {
		t.Fatal(err)
	}
	r := g.Reservations[0]
	if len(g.Reservations) != 1 || r.ID != "j.gang" || r.Job != "j" || r.Session != "s" || r.Priority != 3 || !r.Accumulate || r.Lost != types.WaitForNode {
		t.Errorf("%+v", g.Reservations)
	}
	text := func(r types.Requests) (out string) {
		for _, x := range r {
			out += x.Name + "=" + x.Amount.Format(types.ResourceID(x.Name)) + " "
		}
		return out
	}
	for i, want := range []string{"cpu=0.2 j.apart=2 pool=2 rack/r1=0.002 ", "cpu=0.1 j.apart=1 pool=1 rack/r1=0.001 "} {
		if got := text(r.Bundles[i].Requests); got != want {
			t.Errorf("bundle %d is %q, want %q", i, got, want)
		}
	}
	if got := text(g.Tasks[0].Task.Requests); got != "cpu@j.gang=0.1 j.apart@j.gang=1 pool@j.gang=1 rack/r1=0.001 " {
		t.Errorf("a task asks for %q", got)
	}
	if at.Task.Requests.Get("cpu") != 100 || g.Tasks[0].Task.OnDisconnect != types.StopLost {
		t.Error("what was given has changed, or a loss does not end the task")
	}
}

// TestRelock reserves the same again, for the remaining tasks.
func TestRelock(t *testing.T) {
	g := &esl.Group{Namespace: "d", ID: "j", Tasks: []controlplane.Submission{gpus(1000, "A100"), gpus(2000, "A100"), taskOf(cpu(5))}}
	if err := g.Apply([]esl.Policy{Gang{}}); err != nil {
		t.Fatal(err)
	}
	var left []*types.Task
	for i := range g.Tasks[1:] {
		left = append(left, &g.Tasks[i+1].Task)
	}
	r, err := esl.Relock(left, "j.gang", 1)
	if err != nil || len(r.Bundles) != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
	for i, b := range r.Bundles {
		was := g.Reservations[0].Bundles[i+1]
		if types.Requests(b.Requests).Get("gpu") != was.Requests.Get("gpu") || len(b.Requests) != len(was.Requests) || len(b.Devices) != len(was.Devices) {
			t.Errorf("bundle %d is %+v, was %+v", i, b, was)
		}
	}
	if d := r.Bundles[0].Devices[0]; d.Resource != "gpu" {
		t.Errorf("devices are of %q", d.Resource)
	}
}
