package place

import (
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/e2e/viewtest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// TestSteps checks steps, and says where a task may go that has waited.
func TestSteps(t *testing.T) {
	after := func(in esl.Domain, d time.Duration) Step { return Step{In: in, After: manifest.Duration(d)} }
	rack, zone := after(esl.Rack, 10*time.Second), after(esl.Zone, time.Minute)
	for _, c := range []struct {
		first  esl.Domain
		then   []Step
		wait   manifest.Wait
		wrong  string // part of the error; empty means none
		waited time.Duration
		where  string
	}{
		{esl.Node, nil, 0, "", time.Hour, "it is to be near x: it waits for room there"},
		{esl.Node, nil, manifest.Wait(time.Minute), "", 20 * time.Second, "it is to be near x: it goes anywhere in 40s"},
		{esl.Node, nil, -1, "", 0, "it was to be near x, and goes anywhere by now"},
		{esl.Node, []Step{rack, zone}, 0, "", 0, "it is to be near x: it goes into its rack in 10s"},
		{esl.Node, []Step{rack, zone}, 0, "", 10 * time.Second, "it was to be near x, and goes into its rack by now, into its zone in 50s"},
		{esl.Node, []Step{rack, zone}, manifest.Wait(time.Hour), "", time.Minute, "it was to be near x, and goes into its zone by now, anywhere in 59m0s"},
		{esl.Rack, []Step{zone}, 0, "", time.Hour, "it was to be near x, and goes into its zone by now"},
		{esl.Node, []Step{zone, after(esl.Rack, time.Hour)}, 0, "steps[1].in: rack is not larger than zone", 0, ""},
		{esl.Rack, []Step{rack}, 0, "steps[0].in: rack is not larger than rack", 0, ""},
		{esl.Node, []Step{after(esl.Rack, time.Hour), zone}, 0, "steps[1].after: 1m0s is less than after of rack, 1h0m0s", 0, ""},
		{esl.Node, []Step{zone}, manifest.Wait(time.Second), "wait: 1s is less than after of zone, 1m0s", 0, ""},
		{esl.Node, []Step{after(esl.Node, 0)}, 0, `steps[0].in: "node" is no step`, 0, ""},
	} {
		steps := stepsFrom(c.first, c.then, c.wait)
		err := esl.Join(validSteps(steps)...)
		switch {
		case (err != nil) != (c.wrong != ""), err != nil && !strings.Contains(err.Error(), c.wrong):
			t.Errorf("%v: %v, want %q", steps, err, c.wrong)
		case err == nil:
			if got := whereTo(steps, "near x", c.waited); got != c.where {
				t.Errorf("%v: %q, want %q", steps, got, c.where)
			}
		}
	}
}

// TestDataset names the data of tasks by the numbers in their requests.
func TestDataset(t *testing.T) {
	for name, c := range map[string]struct {
		of       dataset
		requests []string
		want     string
	}{
		"one for all":         {dataset{name: "x", numbered: "x."}, []string{"x"}, "x"},
		"one for all, though": {dataset{name: "x", numbered: "x."}, []string{"x.3"}, "x"},
		"each":                {dataset{name: "x", each: true, numbered: "x."}, []string{"cpu", "x.3"}, "x.3"},
		"each, by the rack":   {dataset{name: "x", each: true, numbered: "j.near."}, []string{"j.near.zone.7", "j.near.3"}, "x.3"},
		"of another version":  {dataset{name: "x", each: true, numbered: "x."}, []string{"cpu"}, "x"},
	} {
		task := &types.Task{Job: "j"}
		for i, name := range c.requests {
			if i == 0 {
				task.Requests = types.Requests{{Name: name, Amount: 1}}
			} else {
				task.Alternatives = append(task.Alternatives, types.Alternative{Requests: types.Requests{{Name: name, Amount: 1}}})
			}
		}
		if got := c.of.ofTask(viewTask(t, task)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// viewTask returns a task as the view has it.
func viewTask(t *testing.T, task *types.Task) (out *cluster.Task) {
	t.Helper()
	b := viewtest.NewBench(t, 0)
	b.Put(controlplane.TaskKey("d", "t"), task)
	for out = range b.View.Tasks() {
		return out
	}
	return nil
}
