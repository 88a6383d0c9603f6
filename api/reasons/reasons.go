package reasons

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/scheduler/explain"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// Explained is an explanation with those of policies.
type Explained struct {
	why.Explanation
	// Policies are the explanations of the job's policies, a sentence each.
	Policies []string `json:"policies,omitempty"`
	// Reasons are the same as data.
	Reasons []why.Reason `json:"reasons,omitempty"`
	// Closed names the exhausted budget of its namespace: the job and its policies cannot add
	// anything then.
	Closed string `json:"closed,omitempty"`
}

// Sentences are the text to show: first the explanations of policies, from which the rest follows,
// and last what delays objects that do not exist yet.
func (e Explained) Sentences(wide bool, voice action.Renderer) []string {
	lines := append(slices.Clone(e.Policies), e.Lines(wide, voice)...)
	if e.Closed != "" {
		lines = append(lines, e.Closed)
	}
	return lines
}

// ClosedText says why nothing can be added to a namespace. It is empty for one within its budget.
func ClosedText(ctx context.Context, client *controlplane.Client, voice action.Renderer) (string, error) {
	closed, err := client.Closed(ctx, client.Namespace())
	if closed == nil || err != nil {
		return "", err
	}
	return "nothing can be added: " + types.Render(controlplane.OverBudget(client.Namespace(), closed), voice), nil
}

// Explain adds the explanations of its job's policies to an explanation.
func Explain(ctx context.Context, client *controlplane.Client, e why.Explanation, view *cluster.View, now time.Time, voice action.Renderer) (Explained, error) {
	var s *Policies
	if job := jobOf(view, e); job != "" {
		var err error
		if s, err = PoliciesOf(ctx, client, job, view, view.Revision, now, voice); err != nil {
			return Explained{}, err
		}
	}
	return explainedBy(s, e, voice), nil
}

// explainedBy adds the explanations of the policies of a job, nil for none.
func explainedBy(s *Policies, e why.Explanation, voice action.Renderer) Explained {
	out := Explained{Explanation: e.In(voice)}
	if s == nil {
		return out
	}
	s.explain(&e)
	out.Explanation = e.In(voice)
	switch {
	case e.Kind != why.KindTask:
		out.Policies = s.SaysOfAll()
	case e.Phase == string(types.Pending):
		out.Reasons = s.says(cluster.ID{Namespace: e.Namespace, ID: e.ID})
		out.Policies = why.Summaries(out.Reasons)
	}
	return out
}

// Waiting says why a task waits. The zero value means that it does not wait.
type Waiting struct {
	// Why is one sentence.
	Why string
	// Never says of a task that can never run on the present nodes why, and what to do; empty for
	// any other task.
	Never string
}

// WhyWait says why tasks wait. NotFound: one of them is gone.
func WhyWait(ctx context.Context, client *controlplane.Client, now time.Time, voice action.Renderer, tasks ...string) ([]Waiting, error) {
	subjects := make([]explain.Subject, len(tasks))
	for i, id := range tasks {
		subjects[i] = explain.Subject{Kind: why.KindTask, Namespace: client.Namespace(), ID: id}
	}
	explained, view, err := explain.WhyEach(ctx, client.Store(), subjects, now)
	if err != nil {
		return nil, err
	}
	out, ofJobs := make([]Waiting, len(tasks)), make(map[string]*Policies)
	for i, e := range explained {
		if e.Phase != string(types.Pending) {
			continue
		}
		job := jobOf(view, e)
		s, read := ofJobs[job]
		if !read && job != "" {
			if s, err = PoliciesOf(ctx, client, job, view, view.Revision, now, voice); err != nil {
				return nil, err
			}
			ofJobs[job] = s
		}
		out[i] = explainedBy(s, e, voice).Waiting(voice)
	}
	return out, nil
}

// Waiting says why a task waits, by its explanation.
func (e Explained) Waiting(voice action.Renderer) (w Waiting) {
	if e.Phase != string(types.Pending) {
		return w
	}
	w.Why = e.Sentences(false, voice)[0]
	if e.Infeasible {
		w.Never = strings.TrimSpace(e.Summary + " " + e.Suggestion.Render(voice))
	}
	return w
}

// jobOf returns the job that an explanation is about or belongs to; empty for none.
func jobOf(view *cluster.View, e why.Explanation) string {
	id := cluster.ID{Namespace: e.Namespace, ID: e.ID}
	switch e.Kind {
	case why.KindJob:
		return e.ID
	case why.KindTask:
		if t := view.Task(id); t != nil && t.Info.V != nil {
			return t.Info.V.Job
		}
	case why.KindReservation:
		if r := view.Reservations[id]; r != nil && r.Info.V != nil {
			return r.Info.V.Job
		}
	}
	return ""
}
