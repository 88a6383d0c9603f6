package nodeagent

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/escher-sched/escher/types"
)

// What the checks of a process say, and when it is told and acted upon: without I/O and
// without a clock. The probes themselves are made by prober.

const (
	// firstProbe is how long after its start a process is looked at first, and how
	// often while it may fail: whoever waits for it to be healthy waits no longer.
	firstProbe = time.Second
	// healthGap is the least time between two reports of another health, but for the
	// first one: a process that is healthy and unhealthy by turns is not to fill the
	// store.
	healthGap = 30 * time.Second
	// maxOutcome is how much is kept of what a probe printed, in bytes.
	maxOutcome = 200
)

// Health is what the checks of a process say of it.
type Health struct {
	// State is empty as long as nothing is known.
	State types.Health
	// Reason says why it is unhealthy.
	Reason string
	// Ends tells that it is to be ended for that.
	Ends bool
}

// outcome is how a probe ended.
type outcome struct {
	good bool
	// unknown tells that it could not be made: that says nothing of the process.
	unknown bool
	// text is what it printed, or why it is not good.
	text string
}

// standing is how a check of a process stands.
type standing struct {
	state types.Health
	// failed and succeeded count the last probes, in a row.
	failed, succeeded int
	// reason is why it fails.
	reason string
}

// next is how a check stands after a probe of a process that has run for age. c has
// its defaults.
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

// probeAt is when a process is to be looked at again that was started, and looked at last,
// at these times; the zero time is never.
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

// healthOf is what all checks say together. told is what an earlier life of the agent
// reported of the process: it holds until every check has been made often enough.
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

// unhealthyText is the reason of what ended because it was unhealthy.
func unhealthyText(s *Seen) string {
	if s.Health.Reason == "" {
		return "unhealthy"
	}
	return "unhealthy: " + s.Health.Reason
}

// hasChecks reports whether the process is to be looked at now and then.
func hasChecks(d *Desired) bool { return d.Spec != nil && len(d.Spec.Checks) > 0 }

// toldHealth is what is stored of the health of the process that runs; the state is empty
// if nothing is.
func toldHealth(s *Seen) Health {
	if s.Reported.Phase != types.ReportRunning || s.Reported.Ended != 0 || s.Reported.Restarts != s.Restart {
		return Health{}
	}
	return Health{State: s.Reported.Health, Reason: s.Reported.Reason}
}

// presentHealth is what is known of the health of a process that runs.
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

// untoldHealth reports whether the health of the process is another than was reported,
// and when that may be said; the zero time is at once.
func untoldHealth(d *Desired, s *Seen) (untold bool, from time.Time) {
	told := &s.Reported
	if s.Sending != nil {
		told = s.Sending
	}
	if told.Health != s.Reported.Health {
		return false, time.Time{} // When that is stored is when the next one may come.
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

// runs is the report of a process that runs.
func runs(d *Desired, s *Seen) *types.Report {
	h := presentHealth(d, s)
	return &types.Report{
		Phase: types.ReportRunning, Binding: d.Revision, Started: nanos(s.began()), Image: s.Image,
		Restarts: s.Restart, Delay: s.Reported.Delay, Health: h.State, Reason: h.Reason,
	}
}

// oneLine makes what a program printed fit for a reason: its beginning, on one line, and
// without what would move the cursor of whoever reads it.
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
