package place

import (
	"cmp"
	"strconv"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Near runs tasks where data is: data locality. An ephemeral resource with the name of the data is
// on each node that has a copy. Replicate puts it there, or the task that wrote the data provides
// it. It may come before the tasks or after them. A copy ends with the session of its node.
//
// A task waits for a place near the data before it takes one farther away: delay scheduling. Steps widen
// where it may go, each after its time. After Wait it goes anywhere; with Cache, its node has a copy then.
type Near struct {
	// To is the name of the data. With Each, the i-th task is near To.i, from 0.
	To   string `json:"to" desc:"the name of the data" is:"resource"`
	Each bool   `json:"each,omitempty" desc:"each task has data of its own: the name, a dot, and its number from 0"`
	// In is how near: on a node with the data, or in a rack or zone of one; empty means node.
	In esl.Domain `json:"in,omitempty" desc:"how near: node, or in the rack or zone of one; node if it is left out"`
	// Steps are larger domains, to which a task goes when it has waited.
	Steps []Step `json:"steps,omitempty" desc:"racks or zones of nodes with the data, to which a task goes after a while, the smallest first"`
	// Wait is how long a task waits before it goes anywhere; 0 means without limit.
	Wait manifest.Wait `json:"wait,omitempty" desc:"after how long a task goes anywhere; never if it is left out, at once if it is 0s"`
	// Cache gives the node of a task that runs elsewhere a copy.
	Cache bool `json:"cache,omitempty" desc:"a task that runs elsewhere leaves a copy on its node" needs:"wait"`
	// Copies is how many copies Cache makes at most, existing ones included; 0 means no limit.
	Copies int `json:"copies,omitempty" desc:"the most copies that cache makes; no limit if it is left out" zero:"are none: leave cache out, or leave copies out for no bound" needs:"cache"`
}

// Kind returns near.
func (Near) Kind() string { return "near" }

// Describe says what the policy does, and its flags.
func (Near) Describe() esl.Description {
	return esl.Description{Does: "tasks run where their data is; after a while, anywhere", OneByOne: true, Flags: []esl.Flag{{
		Name: "near", Usage: "name of data: run on a node that has it, as a resource of this name", Text: esl.Sets[string]("to"), Values: esl.Values{Resources: true},
		With: []esl.Flag{{
			Name: "near-step", Usage: "with --near: rack,after=10s or zone,after=1m: after how long to run in the rack or zone of such a node; repeat for both",
			Texts: nearSteps, Values: esl.Values{Words: []string{"rack,after=", "zone,after="}}, Alone: "is given without --near: name the data",
		}, {
			Name: "near-wait", Usage: "with --near: after how long to run anywhere; 0s means at once (default: never)",
			Time: esl.Sets[time.Duration]("wait"), Alone: "is given without --near: name the data",
		}},
	}}}
}

// Validate checks the parameters.
func (p Near) Validate() error {
	return esl.Join(append(validSteps(p.steps()), types.ValidateEphemeral("to", p.To), p.In.Or(esl.Node).Validate("in"),
		esl.InvalidIf(p.Copies < 0, "copies: %d is negative: give how many at most, or leave it out for no bound", p.Copies),
		esl.InvalidIf(p.Copies > 0 && !p.Cache, "copies: %d are allowed, and cache is not set, by which they are made: set it, or leave this out", p.Copies),
		esl.InvalidIf(p.Cache && p.Wait == 0, "cache: no task runs elsewhere, as wait is not given: give it, or leave this out"))...)
}

// steps returns all steps of a task, the first of which is open at once.
func (p Near) steps() []Step { return stepsFrom(p.In.Or(esl.Node), p.Steps, p.Wait) }

// resource returns what the i-th task requests at a step; "" means nothing.
func (p Near) resource(own func(suffix string) string, step Step, i int) string {
	number := strconv.Itoa(i * taskset.BoolInt(p.Each))
	switch step.In {
	case anywhere:
		return ""
	case esl.Node:
		return p.data("").of(i)
	case p.In:
		return own(number)
	}
	return own(string(step.In) + "." + number)
}

// data returns the data of the tasks, which own, what the policy names its resources by, may number.
func (p Near) data(own string) dataset {
	if p.In.Or(esl.Node) == esl.Node {
		own = p.To
	}
	return dataset{name: p.To, each: p.Each, numbered: own + "."}
}

// Apply makes each task request the data: one copy is enough for any number of tasks.
func (p Near) Apply(g *esl.Group) error {
	if err := cmp.Or(p.Validate(), types.ValidateEphemeral("to", p.data("").of(len(g.Tasks)-1))); err != nil {
		return err
	}
	for i := range g.Tasks {
		err := askInSteps(g, i, p.steps(), func(step Step) string {
			name := p.resource(g.Own, step, i)
			if step.isArea() && (i == 0 || p.Each) {
				g.Make(name, 0, controlplane.OnEvery())
			}
			return name
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Next keeps the resource of each rack or zone where the data is, and records copies.
func (p Near) Next(s *esl.State) esl.Plan {
	plan := esl.Plan{Reason: "where the data is", Idle: "its resources are where the data is"}
	s.Seek(esl.Seeking{}) // it follows its tasks and the data
	data := p.data(s.Own(""))
	if !s.Ended() {
		data.widen(s, &plan, areasOf(p.steps()), func(step Step, i int) string { return p.resource(s.Own, step, i) })
	}
	if p.Cache {
		data.cache(s, &plan, p.Copies)
	}
	return plan
}

// Watches returns the data.
func (p Near) Watches() []string { return []string{p.To} }

// ClusterScoped is set: the data of each task has a name of its own.
func (Near) ClusterScoped() {}

// Why says where the data is, and how long the task waits to fit there.
func (p Near) Why(s *esl.State, task string) why.Reason {
	t, ok := taskset.Waits(s, task)
	if !ok {
		return why.Reason{}
	}
	place := "near " + whereIs(s, p.data(s.Own("")).ofTask(t))
	return why.Say(why.Place, "near: %s", whereTo(p.steps(), place, s.Now.Sub(time.Unix(0, t.Info.V.Submitted))))
}
