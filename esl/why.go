package esl

import (
	"fmt"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
)

// Why returns what a task waits for on account of the policies of its job, a sentence
// each; nothing if it waits for none of them.
func Why(v *cluster.View, kinds Kinds, task cluster.ID, now time.Time) []string {
	t := v.Task(task)
	if t == nil || t.Info.V == nil || t.Info.V.Job == "" {
		return nil
	}
	c := v.Policies[cluster.ID{Namespace: task.Namespace, ID: t.Info.V.Job}]
	if c == nil || c.V == nil || c.V.Job == "" {
		return nil
	}
	page := readPage(cluster.ID{Namespace: task.Namespace, ID: t.Info.V.Job}, c, kinds)
	var out []string
	for i, p := range page.policies {
		if teller, ok := p.(Teller); ok {
			s := &State{View: v, Now: now, Namespace: task.Namespace, ID: t.Info.V.Job, Job: t.Info.V.Job, label: page.labels[i], kinds: kinds}
			var text string
			if err := contained(func() { text = teller.Why(s, task.ID) }); err != nil {
				says, _, _ := strings.Cut(err.Error(), "\n")
				text = fmt.Sprintf("policy %s cannot say what the task waits for: %s", page.labels[i], says)
			}
			if text != "" {
				out = append(out, text)
			}
		}
	}
	return out
}
