package gang

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/match"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// lockedBefore, lockedAfter and notLocked are when something was locked for members.
const (
	lockedBefore = 1
	lockedAfter  = 1000
	notLocked    = -1
)

// startOf is when the members were bound.
func startOf() time.Time { return time.Unix(1e9, 0) }

// member is a task of a job as a view has it: its phase, which attempt it is at, and
// whether it leaves.
type member struct {
	phase   types.Phase
	attempt int
	leaves  string // evict, stop
}

// stateOf makes a state of members, called 0 and on, a second after they were bound.
func stateOf(t *testing.T, members []member, lockedAt int64) *esl.State {
	t.Helper()
	v := cluster.New()
	put := func(key string, m types.Message, rev int64) {
		if _, _, err := v.Apply(controlplane.Event{KV: controlplane.KV{Key: key, Value: types.Encode(1, m), ModRevision: rev, CreateRevision: rev}}); err != nil {
			t.Fatal(err)
		}
	}
	for i, m := range members {
		task := &types.Task{Job: "j"}
		switch m.leaves {
		case "evict":
			task.Evict = m.attempt
		case "stop":
			task.Stop = &types.Stop{Reason: "enough"}
		}
		id := fmt.Sprintf("%04d", i)
		put(controlplane.TaskKey("d", id), task, int64(2*i+10))
		if m.attempt > 0 {
			put(controlplane.StatusKey("d", id), &types.Status{Phase: m.phase, Attempt: m.attempt, ExitCode: 1, Bound: startOf().UnixNano()}, int64(2*i+11))
		}
	}
	if lockedAt > 0 {
		put(controlplane.ReservationKey("d", "j.gang"), &types.Reservation{Job: "j"}, lockedAt)
	}
	return &esl.State{View: v, Now: startOf().Add(time.Second), Namespace: "d", ID: "j", Job: "j", Label: "gang"}
}

func TestKeepWhole(t *testing.T) {
	waits := member{types.Pending, 0, ""}
	runs := func(attempt int) member { return member{types.Running, attempt, ""} }
	again := func(attempt int) member { return member{types.Pending, attempt - 1, ""} }
	leaves := func(attempt int) member { return member{types.Running, attempt, "evict"} }
	for name, c := range map[string]struct {
		members []member
		alone   bool
		evicted string
		stopped string
		// locked is when, before if it is left out; given: it is given back.
		locked int64
		given  bool
		// late is how much later it is looked.
		late time.Duration
	}{
		"none is bound":                      {members: []member{waits, waits}},
		"all run":                            {members: []member{runs(1), runs(1)}},
		"all run again":                      {members: []member{runs(3), runs(3)}},
		"some are bound yet":                 {members: []member{runs(1), waits}},
		"one is to run again":                {members: []member{again(2), runs(1), runs(1)}, evicted: "12", given: true},
		"one was evicted":                    {members: []member{leaves(1), runs(1), runs(1)}, evicted: "12", given: true},
		"the others leave already":           {members: []member{again(2), leaves(1), leaves(1)}, given: true},
		"one leaves, one is to":              {members: []member{again(2), leaves(1), runs(1)}, evicted: "2", given: true},
		"all were evicted":                   {members: []member{leaves(1), again(2), leaves(1)}, given: true},
		"one runs again":                     {members: []member{runs(2), again(2), again(2)}},
		"one is behind":                      {members: []member{runs(3), runs(2), again(3)}, evicted: "1"},
		"one waits that will be behind":      {members: []member{runs(3), again(2), runs(3)}},
		"one waits for long":                 {members: []member{runs(2), again(2), runs(2)}, late: within, evicted: "02", given: true},
		"one was never bound for long":       {members: []member{runs(1), waits}, late: within, evicted: "0", given: true},
		"one is to have no place":            {members: []member{runs(2), again(2)}, locked: notLocked, evicted: "0"},
		"all run, and nothing is locked":     {members: []member{runs(2), runs(2)}, locked: notLocked},
		"all wait, of what was before":       {members: []member{again(2), again(2)}, given: true},
		"all wait, and it is locked anew":    {members: []member{again(2), again(2)}, locked: lockedAfter},
		"all wait, and nothing is locked":    {members: []member{again(2), again(2)}, locked: notLocked},
		"one has failed":                     {members: []member{{types.Failed, 1, ""}, runs(1), waits}, stopped: "12"},
		"one was cancelled":                  {members: []member{runs(1), {types.Cancelled, 1, ""}}, stopped: "0"},
		"one is being stopped":               {members: []member{runs(1), {types.Running, 1, "stop"}}, stopped: "0"},
		"all are being stopped":              {members: []member{{types.Running, 1, "stop"}, {types.Bound, 1, "stop"}}},
		"one has succeeded":                  {members: []member{{types.Succeeded, 1, ""}, runs(1)}},
		"one has, and one is to run again":   {members: []member{{types.Succeeded, 1, ""}, runs(1), again(2)}, stopped: "12"},
		"one has, and one was evicted":       {members: []member{{types.Succeeded, 2, ""}, leaves(2)}, stopped: "1"},
		"all have ended":                     {members: []member{{types.Succeeded, 1, ""}, {types.Failed, 1, ""}}},
		"alone: one is to run again":         {members: []member{again(2), runs(1), runs(1)}, alone: true},
		"alone: one has failed":              {members: []member{{types.Failed, 4, ""}, runs(1)}, alone: true, stopped: "1"},
		"alone: one has succeeded before it": {members: []member{{types.Succeeded, 1, ""}, again(2)}, alone: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := stateOf(t, c.members, cmp.Or(c.locked, lockedBefore))
			s.Now = s.Now.Add(c.late)
			plan := keepWhole(s, s.Members(), c.alone, s.Own(""))
			evicted, stopped := "", ""
			for _, e := range plan.Evict {
				evicted += e.Task[3:]
				if e.Attempt != c.members[e.Task[3]-'0'].attempt {
					t.Errorf("attempt %d of %s is evicted", e.Attempt, e.Task)
				}
			}
			for _, s := range plan.Stop {
				stopped += s.Task[3:]
				if s.Reason == "" {
					t.Errorf("%s is stopped for no reason", s.Task)
				}
			}
			if evicted != c.evicted || stopped != c.stopped {
				t.Errorf("evicted %q, want %q; stopped %q, want %q", evicted, c.evicted, stopped, c.stopped)
			}
			if given := len(plan.Unreserve) == 1; given != c.given {
				t.Errorf("it is given back: %t, want %t", given, c.given)
			}
		})
	}
}

func TestNoneStarts(t *testing.T) {
	runs, waits := member{types.Running, 1, ""}, member{types.Pending, 0, ""}
	done, failed := member{types.Succeeded, 1, ""}, member{types.Failed, 1, ""}
	stops, stopped := member{types.Running, 1, "stop"}, member{types.Pending, 1, "stop"}
	for name, c := range map[string]struct {
		members     []member
		none, alone bool
	}{
		"none has ended":                    {[]member{runs, runs}, false, false},
		"one is not bound yet":              {[]member{runs, waits}, false, false},
		"one has succeeded":                 {[]member{done, runs}, true, false},
		"one has, and one is not bound yet": {[]member{done, runs, waits}, false, false},
		"one has failed, the others leave":  {[]member{failed, stops, stopped}, true, true},
		"all leave":                         {[]member{stops, stopped}, true, true},
		"all have ended":                    {[]member{done, failed}, true, true},
		"all are forgotten":                 {nil, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			members := stateOf(t, c.members, lockedBefore).Members()
			if none, alone := noneStarts(members, false), noneStarts(members, true); none != c.none || alone != c.alone {
				t.Errorf("%t, and alone %t; want %t and %t", none, alone, c.none, c.alone)
			}
		})
	}
}

// Of many a part is ended in one transaction, and then the next, until there is none.
func TestKeepWholeInParts(t *testing.T) {
	members := make([]member, 100)
	for i := range members {
		members[i] = member{types.Running, 1, ""}
	}
	members[99].phase = types.Failed
	for _, want := range []int{40, 40, 19, 0} {
		s := stateOf(t, members, lockedBefore)
		plan := keepWhole(s, s.Members(), false, s.Own(""))
		if len(plan.Stop) != want {
			t.Fatalf("%d are stopped, want %d", len(plan.Stop), want)
		}
		for _, s := range plan.Stop {
			var i int
			if _, err := fmt.Sscanf(s.Task, "%d", &i); err != nil {
				t.Fatal(err)
			}
			members[i].leaves = "stop"
		}
	}
}

// It is locked again when no member has a node any more, and all may be bound; at once if
// each is alone.
func TestGangIsLockedAgain(t *testing.T) {
	again := member{types.Pending, 1, ""}
	for name, c := range map[string]struct {
		loss    esl.Loss
		members []member
		retry   time.Duration
		again   bool
	}{
		"all wait":               {esl.Restart, []member{again, again}, 0, true},
		"one has to wait longer": {esl.Restart, []member{again, again}, time.Minute, false},
		"one leaves":             {esl.Restart, []member{again, {types.Running, 1, "evict"}}, 0, false},
		"alone: one waits":       {esl.Alone, []member{again, {types.Running, 1, ""}}, time.Minute, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := stateOf(t, c.members, notLocked)
			if c.retry > 0 {
				st := &types.Status{Phase: types.Pending, Attempt: 1, Retry: s.Now.Add(c.retry).UnixNano()}
				if _, _, err := s.View.Apply(controlplane.Event{KV: controlplane.KV{
					Key: controlplane.StatusKey("d", "0000"), Value: types.Encode(1, st), ModRevision: 500, CreateRevision: 11,
				}}); err != nil {
					t.Fatal(err)
				}
			}
			plan := Gang{Loss: c.loss}.Next(s)
			if got := len(plan.Reserve) == 1; got != c.again {
				t.Errorf("locked again: %t, want %t", got, c.again)
			}
			if c.retry > 0 && c.loss == esl.Restart && !plan.RequeueAfter.Equal(s.Now.Add(c.retry)) {
				t.Errorf("it is looked again at %s", plan.RequeueAfter)
			}
		})
	}
}

func needsFor(amounts ...types.Quantity) [][]cluster.Need {
	out := make([][]cluster.Need, len(amounts))
	for i, a := range amounts {
		out[i] = []cluster.Need{{ID: types.CPU, Amount: a}}
	}
	return out
}

func TestFitting(t *testing.T) {
	nodes := map[string]*types.Node{}
	in := make([]*cluster.Node, 3)
	for i := range in {
		name := fmt.Sprint(i)
		nodes[name] = &types.Node{
			Capacity: types.Requests{{Name: "cpu", Amount: 4}}, Labels: []types.Label{{Name: "rack", Value: fmt.Sprint("r", i/2)}},
		}
		in[i] = &cluster.Node{Name: name}
		in[i].Info.V = nodes[name]
	}
	for name, c := range map[string]struct {
		needs      [][]cluster.Need
		fit, most  int
		mostInRack int
	}{
		"all":             {needsFor(4, 4, 4), 3, 3, 2},
		"one too many":    {needsFor(4, 4, 4, 4), 3, 3, 2},
		"too large":       {needsFor(5), 0, 0, 0},
		"several a node":  {needsFor(2, 2, 2, 2, 2, 2, 2), 6, 6, 4},
		"kinds":           {needsFor(3, 3, 1, 1, 4), 5, 5, 5},
		"small before":    {needsFor(1, 1, 1, 4, 4), 5, 5, 5},
		"not all kinds":   {needsFor(4, 4, 4, 1), 3, 4, 3},
		"none is wanted":  {nil, 0, 0, 0},
		"too large among": {needsFor(1, 9, 1), 2, 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			if got := match.Empty(cluster.New()).Fit(in, c.needs); got != c.fit {
				t.Errorf("%d fit, want %d", got, c.fit)
			}
			if got, known := taskset.MostInNodes(nodes, "", c.needs); got != c.most || !known {
				t.Errorf("%d fit at most, want %d", got, c.most)
			}
			if got, _ := taskset.MostInNodes(nodes, esl.Rack, c.needs); got != c.mostInRack {
				t.Errorf("%d fit a rack at most, want %d", got, c.mostInRack)
			}
		})
	}
	nodes["x"] = nil
	if _, known := taskset.MostInNodes(nodes, "", needsFor(1)); known {
		t.Error("it is known what a node has of which nothing can be read")
	}
	if _, known := taskset.MostInNodes(nil, "", needsFor(1)); known {
		t.Error("it is known of a cluster without nodes")
	}
}
