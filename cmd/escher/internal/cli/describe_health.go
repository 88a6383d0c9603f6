package cli

import (
	"fmt"

	"github.com/escher-sched/escher/types"
)

// phaseText is how far a task is, and how it is found if it is looked at.
func phaseText(phase types.Phase, health types.Health) string {
	if phase != types.Running || health == "" {
		return string(phase)
	}
	return fmt.Sprintf("%s (%s)", phase, health)
}

// checkText says what a check looks at, how often, and what becomes of it.
func checkText(c types.Check) string {
	c = c.WithDefaults()
	what := ""
	switch {
	case len(c.Exec) > 0:
		what = "run " + commandText(c.Exec)
	case c.HTTP != nil:
		what = fmt.Sprintf("GET %s%s", c.HTTP.Port, first(c.HTTP.Path, "/"))
		if c.HTTP.Status != 0 {
			what += fmt.Sprintf(" is %d", c.HTTP.Status)
		}
	case c.TCP != nil:
		what = "connect to " + c.TCP.Port
	}
	text := fmt.Sprintf("%s: %s, every %s, within %s, %d failures", c.Name, what, c.Every, c.Timeout, c.Failures)
	if c.Successes > 1 {
		text += fmt.Sprintf(", %d successes", c.Successes)
	}
	if c.StartPeriod > 0 {
		text += fmt.Sprintf(", from %s on", c.StartPeriod)
	}
	return text + ", then " + string(c.Then)
}

// writeHealth writes how it is looked at, and told to end.
func (t *taskDescription) writeHealth(s *sheet) {
	for _, c := range t.spec.Checks {
		s.line("  check", checkText(c))
	}
	if w := t.spec.Warn; w != nil {
		s.line("  warning", fmt.Sprintf("%s, %s before its end", w.Signal, w.Before))
	}
	if t.spec.Init {
		s.line("  init", "yes")
	}
}
