package library

import (
	"context"
	"slices"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// maxDecisions bounds how often an application decides again after a concurrent change.
const maxDecisions = 5

// Application applies documents to the namespace of a client.
type Application struct {
	Client  *controlplane.Client
	Docs    []manifest.Document
	Options apply.Options
	// Now is the clock.
	Now func() time.Time
	// Voice words what blocks a change.
	Voice action.Renderer
	// May reports whether surplus tasks, which are no longer described, may be stopped.
	May func(surplus []string) (bool, error)
	// Send sends the directories of the tasks, before any is launched; nil means that there are none.
	Send func() error
	// Told hears of the steps of updates; nil means no one.
	Told func(apply.Step)
}

// Perform decides and commits, and returns the last decision, also with most errors, and the view it was
// made by. After a concurrent change, such as another apply of the same file, it decides again, unless
// the options have the revision to go by. Errors are those of Decide, Decision.Perform, May and Send.
func (a *Application) Perform(ctx context.Context) (*apply.Decision, *cluster.View, error) {
	for try := 1; ; try++ {
		d, view, err := Decide(ctx, a.Client, a.Docs, a.Now(), a.Options, a.Voice)
		if err != nil {
			return nil, nil, err
		}
		if surplus := d.Surplus(); len(surplus) > 0 && !a.Options.Replace {
			if a.Options.Replace, err = a.May(surplus); err != nil {
				return d, view, err
			}
			if a.Options.Replace {
				continue
			}
		}
		if launches(d) && d.Blocked() == nil && a.Send != nil {
			if err := a.Send(); err != nil {
				return d, view, err
			}
		}
		d.Told = a.Told
		err = d.Perform(ctx, a.Client)
		if !types.Is(err, types.Conflict) || a.Options.If.Revision != 0 || try == maxDecisions {
			return d, view, err
		}
	}
}

// launches reports whether a decision launches tasks.
func launches(d *apply.Decision) bool {
	return slices.ContainsFunc(d.Changes, func(c apply.Change) bool {
		return c.Action == apply.Launch || c.Action == apply.Replace || c.Action == apply.Update
	})
}
