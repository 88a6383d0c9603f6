package estimate

import (
	"cmp"
	"fmt"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/taskset"
	"github.com/escher-sched/escher/types"
)

// Estimate makes tasks request what past runs of the same name used, instead of what is declared: a
// quantile of these runs and a margin. With too few runs, tasks request what is declared. A task that used
// up its memory requests more in its next attempt.
//
// The numbers are those of Quasar and Autopilot (Delimitrou and Kozyrakis, ASPLOS 2014; Rzadca et al.,
// EuroSys 2020): a quantile of a histogram whose runs count half after a week.
type Estimate struct {
	// Memory and CPU are quantiles such as p99, of the peak of each run, and of the mean of each run.
	// Empty means as declared; both empty means p99 of memory.
	Memory string `json:"memory,omitempty" desc:"which part of past runs used at most what a task requests, such as p99; as declared if it is left out"`
	CPU    string `json:"cpu,omitempty" desc:"the same for processors, by the mean of each run"`
	// Margin is added, in percent; empty means 15 %.
	Margin string `json:"margin,omitempty" desc:"how much more a task requests, in percent; 15% if it is left out"`
	// Runs is the least number of runs; 0 means 3. A run counts half after a week.
	Runs int `json:"runs,omitempty" desc:"from how many runs on; 3 if it is left out" zero:"would be an estimate without runs: leave it out for 3" max:"1000"`
}

// Kind returns estimate.
func (Estimate) Kind() string { return "estimate" }

// Describe says what the policy does, and its flags.
func (Estimate) Describe() esl.Description {
	return esl.Description{Does: "tasks request what past runs of the same name used; more after they used up their memory", Flags: []esl.Flag{{
		Name: "estimate", Usage: "request what past runs used: memory, cpu or both, with a quantile: memory=p99,cpu=p95",
		Text: parse, Values: esl.Values{Words: []string{"memory", "memory=p99", "memory,cpu"}},
		With: []esl.Flag{{
			Name: "estimate-margin", Usage: "with --estimate: how much more, such as 30% (default: 15%)", Text: esl.Sets[string]("margin"),
			Alone: "belongs to --estimate: say what to estimate, such as --estimate memory",
		}},
	}}}
}

// Validate checks the values.
func (p Estimate) Validate() error {
	_, memory := quantile("memory", cmp.Or(p.Memory, defaultPart))
	_, cpu := quantile("cpu", cmp.Or(p.CPU, defaultPart))
	_, margin := percent(p.margin())
	return esl.Join(memory, cpu, margin, esl.InvalidIf(p.Runs < 0 || p.Runs > 1000, "runs: %d is not within 1 and 1000: change it, or leave it out for 3", p.Runs))
}

func (p Estimate) margin() string { return cmp.Or(p.Margin, "15%") }

func (p Estimate) runs() int { return cmp.Or(p.Runs, 3) }

// NeedsHistory returns true: the requests follow from past runs.
func (Estimate) NeedsHistory() bool { return true }

// parts returns the quantile of each resource to estimate.
func (p Estimate) parts() map[types.ResourceID]string {
	parts := map[types.ResourceID]string{types.Memory: p.Memory, types.CPU: p.CPU}
	if p.Memory == "" && p.CPU == "" {
		parts[types.Memory] = defaultPart
	}
	return parts
}

// of returns the estimate of a resource; 0 if there are too few runs, or it is not to be estimated.
func (p Estimate) of(h *types.History, id types.ResourceID) types.Quantity {
	return estimated(h, id, p.parts()[id], p.margin(), p.runs())
}

// Apply replaces requests by estimates.
func (p Estimate) Apply(g *esl.Group) error {
	if err := p.Validate(); err != nil {
		return err
	}
	for i := range g.Tasks {
		for id := range p.parts() {
			t := &g.Tasks[i]
			if q := allowed(t, id, p.of(g.History(i), id)); q > 0 {
				t.Task.Requests = with(t.Task.Requests, string(id), q)
			}
		}
	}
	return nil
}

// Next lets waiting tasks request more that have used up their memory.
func (p Estimate) Next(s *esl.State) esl.Plan {
	plan := esl.Plan{Reason: "they have used up their memory", Idle: "no waiting task has used up its memory"}
	for _, t := range s.Members() {
		want := grown(t)
		if want > 0 && len(plan.Request) < taskset.AtOnce {
			plan.Request = append(plan.Request, esl.Request{Task: t.ID.ID, Requests: with(t.Info.V.Requests, string(types.Memory), want)})
		}
	}
	return plan
}

// Why tells what a task requests after it used up its memory.
func (p Estimate) Why(s *esl.State, task string) why.Reason {
	t, ok := taskset.Waits(s, task)
	if !ok || t.Status.V == nil || t.Status.V.Cause != types.CauseMemory {
		return why.Reason{}
	}
	return why.Say(why.Order, "estimate: it used up %s of memory, and requests %s now",
		t.Status.V.Used.Memory.Format(types.Memory), t.Info.V.Requests.Get(string(types.Memory)).Format(types.Memory))
}

// Origin says where the requests of a task come from, a line for each.
func (p Estimate) Origin(s *esl.State, t *cluster.Task) []string {
	var out []string
	for _, id := range []types.ResourceID{types.CPU, types.Memory} {
		part := p.parts()[id]
		if part == "" {
			continue
		}
		h, has := s.History(t), t.Info.V.Requests.Get(string(id)).Format(id)
		if q := p.of(h, id); q > 0 {
			out = append(out, fmt.Sprintf("%s %s: as of the submission%s; now %s of %d past runs and %s is %s", id, has, since(t, id), part, h.Runs, p.margin(), q.Format(id)))
		} else {
			out = append(out, fmt.Sprintf("%s %s: as declared; %d of %d past runs are known", id, has, runs(h), p.runs()))
		}
	}
	return out
}
