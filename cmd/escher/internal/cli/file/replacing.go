package file

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/types"
)

// replacing has the flags that say whether and how tasks are replaced.
type replacing struct {
	cmd     *cobra.Command
	opts    *apply.Options
	atOnce  int
	order   string
	healthy time.Duration
}

func addReplacing(cmd *cobra.Command, opts *apply.Options) *replacing {
	r := &replacing{cmd: cmd, opts: opts}
	set := cmd.Flags()
	set.BoolVar(&opts.Replace, "replace", false, "stop tasks and jobs that differ, and launch them again")
	set.IntVar(&r.atOnce, "at-once", 0, "with --replace: how many tasks of a job are replaced at once (default: as in the file)")
	set.StringVar(&r.order, "order", "", "with --replace: stop-first or start-first (default: as in the file)")
	set.DurationVar(&r.healthy, "healthy", 0, "with --replace: how long new tasks must be healthy before the next are replaced (default: as in the file)")
	return r
}

// override makes the flags count in place of the updates in the documents.
func (r *replacing) override(docs []manifest.Document) error {
	u, err := r.update()
	if err != nil || u == (manifest.Update{}) {
		return err
	}
	return apply.Override(docs, u, time.Now())
}

// update returns the values of the flags that were given. Invalid: one of them means nothing.
func (r *replacing) update() (manifest.Update, error) {
	var u manifest.Update
	for _, name := range []string{"at-once", "order", "healthy"} {
		switch given := r.cmd.Flags().Changed(name); {
		case !given:
			continue
		case !r.opts.Replace:
			return u, types.Errorf(types.Invalid, "%s: says how tasks are replaced, and without --replace none is: add --replace, or leave it out", name)
		}
		switch name {
		case "at-once":
			if r.atOnce < 1 || r.atOnce > manifest.MaxTasks {
				return u, types.Errorf(types.Invalid, "at-once: %d is out of range: give 1 to %d, or leave it out for that of the file", r.atOnce, manifest.MaxTasks)
			}
			u.AtOnce = r.atOnce
		case "order":
			u.Order = manifest.UpdateOrder(r.order)
			if u.Order != manifest.StopFirst && u.Order != manifest.StartFirst {
				return u, types.Errorf(types.Invalid, "order: %q is unknown: use stop-first or start-first, or leave it out for that of the file", r.order)
			}
		case "healthy":
			if r.healthy <= 0 || r.healthy > types.MaxGrace {
				return u, types.Errorf(types.Invalid, "healthy: %s is out of range: give more than 0s and at most %s, or leave it out for that of the file", r.healthy, types.MaxGrace)
			}
			u.Healthy = types.Duration(r.healthy)
		}
	}
	return u, nil
}

// String returns the flags as they were given, each after a space.
func (r *replacing) String() string {
	text := ""
	if r.opts.Replace {
		text += " --replace"
	}
	if r.atOnce != 0 {
		text += fmt.Sprintf(" --at-once %d", r.atOnce)
	}
	if r.order != "" {
		text += " --order " + r.order
	}
	if r.healthy != 0 {
		text += fmt.Sprintf(" --healthy %s", r.healthy)
	}
	return text
}
