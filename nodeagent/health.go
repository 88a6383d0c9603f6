package nodeagent

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/escher-sched/escher/types"
)

// This file evaluates the checks of a process, without I/O and without a clock. The prober makes
// the probes.

const (
	// firstProbe is the delay of the first probe after the start of a process, and the interval
	// during its start period: a caller that waits for a healthy process waits no longer.
	firstProbe = time.Second
	// healthGap is the least time between two reports of a changed health, except the first: an
	// alternating health must not fill the store.
	healthGap = 30 * time.Second
	// maxOutcome limits the output of a probe that is kept, in bytes.
	maxOutcome = 200
)

// Health is the combined result of the checks of a process.
type Health struct {
	// State is empty while nothing is known.
	State types.Health
	// Reason is why the process is unhealthy.
	Reason string
	// Ends reports whether the process must end because of it.
	Ends bool
}

// outcome is the result of a probe.
type outcome struct {
	good bool
	// unknown reports whether the probe could not be made: that says nothing of the process.
	unknown bool
	// text is the output of the probe, or why it failed.
	text string
}

// standing is the state of a check of a process.
type standing struct {
	state types.Health
	// failed and succeeded count the latest consecutive probes.
	failed, succeeded int
	// reason is why the check fails.
	reason string
}

// next returns the state of a check after a probe of a process that has run for age. c has its
// defaults.
func (st standing) next(c *types.Check, o outcome, age time.Duration) standing {
	switch {
	case o.unknown:
	case o.good:
		st.failed, st.succeeded = 0, min(st.succeeded+1, c.Successes)
		if st.succeeded == c.Successes {
			st.state, st.reason = types.Healthy, ""
		}
	case st.state == types.HealthStarting && age < c.StartPeriod:
		st.succeeded = 0
	default:
		st.failed, st.succeeded = min(st.failed+1, c.Failures), 0
		if st.failed == c.Failures {
			st.state, st.reason = types.Unhealthy, o.text
		}
	}
	return st
}

// probeAt returns the time of the next probe of a process, given the times of its start and its
// last probe. A zero last means no probe yet.
func (st standing) probeAt(c *types.Check, started, last time.Time) time.Time {
	soon := min(c.Every, firstProbe)
	switch {
	case last.IsZero():
		return started.Add(soon)
	case st.state == types.HealthStarting && last.Sub(started) < c.StartPeriod:
		return last.Add(soon)
	}
	return last.Add(c.Every)
}

// healthOf returns the combined result of all checks. told is the health that an earlier life of
// the agent reported: it holds until every check has a result.
func healthOf(checks []types.Check, all []standing, told Health) Health {
	h := Health{State: types.Healthy}
	for i, st := range all {
		ends := checks[i].Then == types.ThenRestart
		switch {
		case st.state == types.Unhealthy && (h.State != types.Unhealthy || ends && !h.Ends):
			h = Health{State: types.Unhealthy, Reason: fmt.Sprintf("check %s: %s", checks[i].Name, st.reason), Ends: ends}
		case st.state == types.HealthStarting && h.State == types.Healthy:
			h.State = types.HealthStarting
		}
	}
	if h.State == types.HealthStarting && told.State != "" {
		return told
	}
	return h
}

// unhealthyText returns the reason of a process that ended because it was unhealthy.
func unhealthyText(s *Seen) string {
	if s.Health.Reason == "" {
		return "unhealthy"
	}
	return "unhealthy: " + s.Health.Reason
}

// hasChecks reports whether the process has checks.
func hasChecks(d *Desired) bool { return d.Spec != nil && len(d.Spec.Checks) > 0 }

// toldHealth returns the stored health of the running process; State is empty if none is stored.
func toldHealth(s *Seen) Health {
	if s.Reported.Phase != types.ReportRunning || s.Reported.Ended != 0 || s.Reported.Restarts != s.Restart {
		return Health{}
	}
	return Health{State: s.Reported.Health, Reason: s.Reported.Reason}
}

// presentHealth returns the health of a running process as far as it is known.
func presentHealth(d *Desired, s *Seen) Health {
	h := s.Health
	if h.State == "" {
		h = toldHealth(s)
	}
	if h.State == "" && hasChecks(d) {
		h.State = types.HealthStarting
	}
	if h.State != types.Unhealthy {
		h.Reason = ""
	}
	return h
}

// untoldHealth reports whether the health of the process differs from the reported one, and the
// earliest time to report it; the zero time means at once.
func untoldHealth(d *Desired, s *Seen) (untold bool, from time.Time) {
	told := &s.Reported
	if s.Sending != nil {
		told = s.Sending
	}
	if told.Health != s.Reported.Health {
		return false, time.Time{} // Storing that report sets the time of the next one.
	}
	h := presentHealth(d, s)
	if s.Refused || told.Phase != types.ReportRunning || told.Ended != 0 || h.State == told.Health {
		return false, time.Time{}
	}
	if told.Health == types.HealthStarting || s.HealthAt.IsZero() {
		return true, time.Time{}
	}
	return true, s.HealthAt.Add(healthGap)
}

// runs returns the report of a running process.
func runs(d *Desired, s *Seen) *types.Report {
	h := presentHealth(d, s)
	return &types.Report{
		Phase: types.ReportRunning, Binding: d.Revision, Started: nanos(s.began()), Image: s.Image,
		Restarts: s.Restart, Delay: s.Reported.Delay, Health: h.State, Reason: h.Reason,
	}
}

// oneLine makes the output of a program fit for a reason: its beginning, on one line, and without
// control characters that would move a terminal's cursor.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if r == utf8.RuneError || unicode.IsControl(r) || unicode.IsSpace(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(text, " "))
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxOutcome {
		text = strings.ToValidUTF8(text[:maxOutcome], "")
	}
	return text
}
