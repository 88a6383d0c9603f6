// Package plan shows what applying documents would do: the changes, and where tasks would be placed.
package plan

import (
	"context"
	"strings"
	"time"

	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/api/reasons"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/scheduler/explain"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// Plan is what applying documents would do, and where tasks would be placed.
type Plan struct {
	apply.Decision

	Placements []Placement `json:"placements" nullable:"false"`
	// Closed names the exhausted budget of the namespace: nothing can be added then.
	Closed string `json:"closed,omitempty"`
}

// Placement is where tasks of one document would be placed: those with the same result.
type Placement struct {
	Kind  manifest.Kind `json:"kind"`
	Name  string        `json:"name,omitempty"`
	Tasks int           `json:"tasks"`
	// Node is where they would run; empty if they would wait.
	Node string `json:"node,omitempty"`
	// Why says what they would wait for.
	Why *why.Explanation `json:"why,omitempty"`
}

// Make plans documents. The errors are those of library.Decide.
func Make(ctx context.Context, client *controlplane.Client, docs []manifest.Document, now time.Time, opts apply.Options, voice action.Renderer) (out Plan, err error) {
	d, view, err := library.Decide(ctx, client, docs, now, opts, voice)
	if err != nil {
		return out, err
	}
	if err := d.Preview(ctx, client, view); err != nil {
		return out, err
	}
	out.Decision = *d
	if out.Placements, err = placements(view, client.Namespace(), d.Changes, now, explain.Plan, voice); err != nil {
		return out, err
	}
	out.Closed, err = reasons.ClosedText(ctx, client, voice)
	return out, err
}

// Never returns the placements of those tasks of a decision that can never run on the present nodes.
// Without a prediction there are none.
func Never(view *cluster.View, ns string, d *apply.Decision, now time.Time, voice action.Renderer) []Placement {
	all, err := placements(view, ns, d.Changes, now, explain.Impossible, voice)
	never := []Placement{}
	for _, p := range all {
		if err == nil && p.Why != nil && p.Why.Infeasible {
			never = append(never, p)
		}
	}
	return never
}

// prediction is explain.Plan, or explain.Impossible.
type prediction func(*cluster.View, []controlplane.Submission, string, time.Time) ([]explain.Placement, error)

// placements predicts where the tasks of changes would be placed.
func placements(view *cluster.View, ns string, changes []apply.Change, now time.Time, predict prediction, voice action.Renderer) ([]Placement, error) {
	var subs []controlplane.Submission
	var of []*apply.Change
	for i := range changes {
		for _, s := range changes[i].Submissions {
			subs, of = append(subs, s), append(of, &changes[i])
		}
	}
	rows := []Placement{}
	if len(subs) == 0 {
		return rows, nil
	}
	placed, err := predict(view, subs, ns, now)
	if err != nil {
		return nil, err
	}
	type group struct {
		change    *apply.Change
		node, why string
	}
	at := make(map[group]int)
	for i, p := range placed {
		if p.Why != nil {
			p.Why = plannedWhy(of[i], p.Why, voice)
		}
		g := group{change: of[i], node: p.Node}
		if p.Why != nil {
			g.why = p.Why.Summary
		}
		if _, seen := at[g]; !seen {
			at[g] = len(rows)
			rows = append(rows, Placement{Kind: of[i].Kind, Name: of[i].Name, Node: p.Node, Why: p.Why})
		}
		rows[at[g]].Tasks++
	}
	return rows, nil
}

// plannedWhy says why a task of a change would wait. It names the policies of the job, which act
// only after submission.
func plannedWhy(c *apply.Change, x *why.Explanation, voice action.Renderer) *why.Explanation {
	e := x.In(voice)
	id, policies := c.Planned()
	if id == "" {
		return &e
	}
	kinds := builtin.Kinds()
	for i, name := range esl.Labels(policies) {
		prefix := id + "." + name
		if reasons.MadeUnder(prefix, e.Unmet) {
			e.Suggestion = types.Textf("Policy %s does that once the job is submitted.", name)
		}
		if kind := kinds[policies[i].Kind]; kind != nil && !e.Infeasible {
			if frees := esl.Describe(kind()).Frees; frees != "" {
				e.Suggestion = types.Textf("Policy %s %s once it is submitted, if it fits then.", name, frees)
			}
		}
	}
	for _, shared := range reasons.RefersTo(&types.Policies{Job: id, Policies: policies}) {
		if reasons.MadeUnder(esl.OwnerOf(shared), e.Unmet) {
			e.Suggestion = types.Textf("How much of it there is, policy %s says.", shared)
		}
	}
	e.Summary = strings.ReplaceAll(e.Summary, id+".", "<job>.")
	return &e
}
