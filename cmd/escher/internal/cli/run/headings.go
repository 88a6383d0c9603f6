package run

import "github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"

// policyFlags is the heading of the flags that policies declare.
const policyFlags = "Placement and policies"

// runHeadings puts the flags of run below headings, those that most tasks need first.
func runHeadings() []cmdutil.Heading {
	return []cmdutil.Heading{
		{Title: "Resources", Flags: []string{
			"cpu", "memory", "gpu", "gpu-model", "gpu-memory", "gpu-topology", "count", "array", "request", "alternative", "provide",
			"reservation", "accumulate", "cpu-burst", "memory-limit", "estimate", "estimate-margin",
		}},
		{Title: policyFlags, Flags: []string{
			"gang", "spread", "queue", "share", "semaphore", "after", "after-each", "at-once", "priority", "preempt", "elastic", "best-effort", "quiet",
			"pack", "apart", "together", "balance", "colocate-with", "near", "near-wait", "near-step", "prefer", "per-node", "max-skew",
			"interleave", "on-loss", "shortest", "earliest-deadline", "least-attained", "aging", "stay", "migrate", "policy", "scheduler",
		}},
		{Title: "Container", Flags: []string{
			"env", "env-file", "secret", "workdir", "port", "mount", "scratch", "tmpfs", "shm-size", "user", "entrypoint", "binary", "init", "interactive", "tty",
		}},
		{Title: "Health and restarts", Flags: []string{
			"retries", "restart", "restart-delay", "restart-max-delay", "max-run", "deadline", "grace", "signal", "stop-signal",
			"on-disconnect", "health-cmd", "health-http", "health-tcp", "health-interval", "health-timeout", "health-retries",
			"health-start-period", "health-then", "no-healthcheck",
		}},
		{Title: "Rights", Flags: []string{"cap-add", "cap-drop", "privileged", "read-only", "pids-limit", "ulimit", "socket"}},
		{Title: "Output", Flags: []string{"detach", "name", "label"}},
	}
}
