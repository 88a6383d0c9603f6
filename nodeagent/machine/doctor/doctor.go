// Package doctor says what would go wrong on a machine that runs an agent, or is to
// run one, and how to fix it: Gather looks, and Diagnose, which is pure, judges what it
// saw. Nothing is changed; what a probe writes, below the state directory, is gone when
// it returns.
package doctor

import "slices"

// Status says how bad a finding is.
type Status string

// The statuses. A problem keeps an agent or its tasks from working; with a warning they
// work, and something will be worse than it need be, or fail one day.
const (
	OK      Status = "ok"
	Warning Status = "warning"
	Problem Status = "problem"
)

// Finding is what one check has to say.
type Finding struct {
	// Check names the check; some have several findings.
	Check  string `json:"check"`
	Status Status `json:"status"`
	// Message is one sentence.
	Message string `json:"message"`
	// Remedy is what to do, a command where there is one; empty when all is well.
	Remedy string `json:"remedy,omitempty"`
}

// Diagnose judges facts: at least one finding for each check that applies, in an order
// that does not change.
func Diagnose(f Facts) []Finding {
	var all []Finding
	for _, check := range []func(Facts) []Finding{
		checkUser, checkKernel, checkCgroups, checkSwap, checkSeccomp, checkClock, checkBoot, checkLimits, checkUnit,
		checkContainerd, checkRunc, checkInit, checkStateDir, checkImages, checkSockets, checkLogs, checkAgent, checkWatchdog, checkContainers,
		checkHost, checkDNS, checkAPI, checkCertificate, checkFirewall, checkPorts,
		checkGPUs, checkCDI,
		checkEtcd, checkCredentials, checkDatabase, checkServers, checkName, checkVersions,
	} {
		all = append(all, check(f)...)
	}
	return all
}

// Worst returns the worst status among findings.
func Worst(all []Finding) Status {
	has := func(s Status) bool {
		return slices.ContainsFunc(all, func(f Finding) bool { return f.Status == s })
	}
	switch {
	case has(Problem):
		return Problem
	case has(Warning):
		return Warning
	}
	return OK
}

// diagnosis collects the findings of one check.
type diagnosis struct {
	check string
	all   []Finding
}

func of(check string) *diagnosis { return &diagnosis{check: check} }

func (d *diagnosis) problem(message, remedy string) {
	d.all = append(d.all, Finding{d.check, Problem, message, remedy})
}

func (d *diagnosis) warn(message, remedy string) {
	d.all = append(d.all, Finding{d.check, Warning, message, remedy})
}

// done returns what was found; if that is nothing, that all is well, and how.
func (d *diagnosis) done(well string) []Finding {
	if len(d.all) == 0 {
		return []Finding{{Check: d.check, Status: OK, Message: well}}
	}
	return d.all
}
