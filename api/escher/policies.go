package escher

import (
	"context"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/decisions"
	"github.com/escher-sched/escher/esl/keep"
)

// RunPolicies runs policies of this program until ctx is done: for jobs of all namespaces that name
// one of their kinds. Each function makes an empty policy. Precondition: the program is a task.
func (c *Client) RunPolicies(ctx context.Context, policies ...func() esl.Policy) error {
	if c.jobs == nil {
		return errInside("run policies")
	}
	return keep.Run(ctx, c.jobs.Store(), keep.Options{Kinds: esl.Kinds{}.With(policies...), Measure: c.measure, Log: c.log, Decisions: c.decided})
}

// PolicyLog returns the last decisions of the policies that RunPolicies of this client runs for a job,
// or of a shared policy, the oldest first: what each decided, and why it did nothing. The client
// remembers the last 32 of each of the last 1,000 policies.
func (c *Client) PolicyLog(id string) []decisions.Entry {
	return c.decided.Of(cluster.ID{Namespace: c.namespace, ID: id}, 0).Entries
}
