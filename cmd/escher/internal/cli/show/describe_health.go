package show

import (
	"fmt"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/render"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

// checkText says what a check looks at, how often, and what a failure does.
func checkText(c types.Check) string {
	c = c.WithDefaults()
	what := ""
	switch {
	case len(c.Exec) > 0:
		what = "run " + render.CommandText(c.Exec)
	case c.HTTP != nil:
		what = fmt.Sprintf("GET %s%s", c.HTTP.Port, cmdutil.First(c.HTTP.Path, "/"))
		if c.HTTP.Status != 0 {
			what += fmt.Sprintf(" is %d", c.HTTP.Status)
		}
	case c.TCP != nil:
		what = "connect to " + c.TCP.Port
	}
	text := fmt.Sprintf("%s: %s, every %s, within %s, %s", c.Name, what, c.Every, c.Timeout, words.Count(c.Failures, "failure"))
	if c.Successes > 1 {
		text += fmt.Sprintf(", %d successes", c.Successes)
	}
	if c.StartPeriod > 0 {
		text += fmt.Sprintf(", from %s on", c.StartPeriod)
	}
	return text + ", then " + string(c.Then)
}

// writeHealth writes the checks and the warning before the end.
func (t *taskDescription) writeHealth(s *render.Sheet) {
	for _, c := range t.spec.Checks {
		s.Line("  check", checkText(c))
	}
	if t.spec.NoHealthcheck {
		s.Line("  check", "none, not that of the image either")
	}
	if w := t.spec.Warn; w != nil {
		s.Line("  warning", fmt.Sprintf("%s, %s before its end", w.Signal, w.Before))
	}
	if t.spec.Init {
		s.Line("  init", "yes")
	}
}
