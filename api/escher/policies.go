package escher

import (
	"context"

	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/keep"
)

// RunPolicies runs policies of this program until ctx is done: for jobs of all namespaces that name
// one of their kinds. Each function makes an empty policy. Precondition: the program is a task.
func (c *Client) RunPolicies(ctx context.Context, policies ...func() esl.Policy) error {
	if c.jobs == nil {
		return errInside("run policies")
	}
	return keep.Run(ctx, c.jobs.Store(), keep.Options{Kinds: esl.Kinds{}.With(policies...), Measure: c.measure, Log: c.log})
}
