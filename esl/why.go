package esl

import (
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/types"
)

// Why returns the reasons why a task waits for policies of its job; none if it waits for none of
// them.
func Why(v *cluster.View, kinds Kinds, task cluster.ID, now time.Time) []why.Reason {
	t := v.Task(task)
	if t == nil || t.Info.V == nil || t.Info.V.Job == "" {
		return nil
	}
	c := v.Policies[cluster.ID{Namespace: task.Namespace, ID: t.Info.V.Job}]
	if c == nil || c.V == nil || c.V.Job == "" {
		return nil
	}
	var out []why.Reason
	page := readEntry(cluster.ID{Namespace: task.Namespace, ID: t.Info.V.Job}, c, kinds)
	for i, p := range page.Policies {
		if wrong := c.V.Policies[i].Wrong; wrong != "" && t.Phase() == types.Pending {
			out = append(out, why.Say(why.Wrong, "the program that keeps it finds this wrong with policy %s: %s: correct it, and submit the job again", c.V.Policies[i].Kind, wrong))
			continue
		}
		if teller, ok := p.(Explainer); ok {
			s := &State{View: v, Now: now, Namespace: task.Namespace, ID: t.Info.V.Job, Job: t.Info.V.Job, Label: page.Labels[i], Kinds: kinds}
			var reason why.Reason
			if err := Contain(func() { reason = teller.Why(s, task.ID) }); err != nil {
				says, _, _ := strings.Cut(err.Error(), "\n")
				reason = why.Say(why.Wrong, "policy %s cannot say what the task waits for: %s", page.Labels[i], says)
			}
			if !reason.IsZero() {
				out = append(out, reason)
			}
		}
	}
	return out
}
