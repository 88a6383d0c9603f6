// Package library submits jobs with policies, for the command line, programs, and the sockets of
// tasks.
package library

import (
	"context"
	"errors"

	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/types"
)

// Submit submits a job, to which policies may apply, and stores what it was requested to be, so that a
// file can be applied to it later.
func Submit(ctx context.Context, jobs *esl.Client, job controlplane.Job, policies ...esl.Policy) (controlplane.Launched, error) {
	all, err := jobs.Required(ctx, policies)
	if err != nil {
		return controlplane.Launched{}, err
	}
	if len(all) == 0 {
		return jobs.LaunchJob(ctx, job)
	}
	stored, err := esl.StoredForms(all)
	if err != nil {
		return controlplane.Launched{}, err
	}
	job.RequestDigest = apply.RequestDigest(job.Tasks, stored)
	return jobs.Submit(ctx, job, policies...)
}

// Launch submits tasks: as a job, if all jobs of their namespace take part in a policy.
func Launch(ctx context.Context, jobs *esl.Client, tasks ...controlplane.Submission) (controlplane.Launched, error) {
	all, err := jobs.Required(ctx, nil)
	if err != nil {
		return controlplane.Launched{}, err
	}
	if len(all) == 0 || len(tasks) == 0 {
		return jobs.Launch(ctx, tasks...)
	}
	return Submit(ctx, jobs, controlplane.Job{Name: tasks[0].Task.Name, Labels: tasks[0].Task.Labels, Tasks: tasks})
}

// Known submits jobs by the HTTP API, also by the socket of a task. It knows the built-in policies; those with a
// domain in their names are stored for the program that runs them.
func Known() *requests.Library {
	return &requests.Library{Submit: submitStored, Launch: func(ctx context.Context, c *controlplane.Client, tasks ...controlplane.Submission) (controlplane.Launched, error) {
		return Launch(ctx, builtin.New(c), tasks...)
	}}
}

// submitStored submits a job. Invalid: the error names each policy that is unknown, or whose parameters are wrong.
func submitStored(ctx context.Context, c *controlplane.Client, job controlplane.Job, policies []types.Policy) (controlplane.Launched, error) {
	if n := len(policies); n > types.MaxPolicies { // the error would name each
		return controlplane.Launched{}, types.Errorf(types.Invalid, "job.policies: has %d: at most %d are allowed, drop some", n, types.MaxPolicies)
	}
	jobs := builtin.New(c)
	made := make([]esl.Policy, len(policies))
	var errs []error
	for i, p := range policies {
		if n := len(p.With); n > types.MaxPolicyBytes { // Apply may take long for each name in them
			errs = append(errs, types.Errorf(types.Invalid, "job.policies[%d].with: has %d bytes: at most %d are allowed, shorten it", i, n, types.MaxPolicyBytes))
			continue
		}
		var err error
		if made[i], err = jobs.Kinds.Read(p); err != nil {
			errs = append(errs, types.Errorf(types.Invalid, "job.policies[%d]: %w", i, err))
		}
	}
	if len(errs) > 0 {
		return controlplane.Launched{}, types.Errorf(types.Invalid, "%w", errors.Join(errs...))
	}
	return Submit(ctx, jobs, job, made...)
}
