// Package doctor finds problems of a machine that runs an agent or will run one, and their
// remedies. Gather collects facts, and Diagnose, which is pure, judges them. Nothing changes:
// Gather removes the files that a probe writes below the state directory.
package doctor

import (
	"slices"

	"github.com/escher-sched/escher/types"
)

// Status is the severity of a finding.
type Status string

// The statuses. A problem prevents an agent or its tasks from working. With a warning they work,
// but something is worse than necessary or will fail one day.
const (
	OK      Status = "ok"
	Warning Status = "warning"
	Problem Status = "problem"
)

// Finding is a result of one check.
type Finding struct {
	// Check is the name of the check; some have several findings.
	Check  string `json:"check"`
	Status Status `json:"status"`
	// Message is one sentence.
	Message string `json:"message"`
	// Remedy is what to do, if possible a command; empty if all is well.
	Remedy types.Text `json:"remedy,omitzero"`
}

// Diagnose judges facts. It returns at least one finding for each check that applies, in a fixed
// order.
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

// problem adds a problem. remedy formats args, which may be actions, like types.Textf.
func (d *diagnosis) problem(message, remedy string, args ...any) {
	d.all = append(d.all, Finding{d.check, Problem, message, types.Textf(remedy, args...)})
}

// warn adds a warning, like problem.
func (d *diagnosis) warn(message, remedy string, args ...any) {
	d.all = append(d.all, Finding{d.check, Warning, message, types.Textf(remedy, args...)})
}

// done returns the findings, or, if there are none, OK with the message well.
func (d *diagnosis) done(well string) []Finding {
	if len(d.all) == 0 {
		return []Finding{{Check: d.check, Status: OK, Message: well}}
	}
	return d.all
}
