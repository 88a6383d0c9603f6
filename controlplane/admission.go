package controlplane

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// Option configures a Client in New.
type Option func(*Client)

// WithNotice makes the client call told before a submission waits because too many tasks wait
// already. It calls told once for each wait, with the reason in words. Told must return soon; calls
// may be concurrent.
func WithNotice(told func(reason string)) Option {
	return func(c *Client) { c.notice = told }
}

// admit returns when the cluster admits new tasks again. keys are compared keys as they were found:
// admit returns at once unless one of them closes admission. It waits while too many tasks wait.
// Precondition: admission is closed for another reason. Unavailable: ctx is done before admission
// opens.
func (c *Client) admit(ctx context.Context, s Store, keys []KV) error {
	for _, kv := range keys {
		if kv.Key != AdmissionKey() || kv.ModRevision == 0 {
			continue
		}
		a, _, err := admission(ctx, s)
		if err != nil || a == nil {
			return err
		}
		if !a.Busy {
			return refusal(a)
		}
		c.notice(a.Reason)
		return untilAdmitted(ctx, s)
	}
	return nil
}

// refusal returns the error for closed admission: Precondition.
func refusal(a *types.Admission) error {
	return types.Errorf(types.Precondition, "nothing new is admitted: %s: wait until ended tasks are deleted, %s, or give etcd a larger quota", a.Reason, action.DeleteEnded.Of())
}

// admission reads the key that closes admission; nil means that admission is open.
func admission(ctx context.Context, s Store) (a *types.Admission, revision int64, err error) {
	kv, err := Get(ctx, s, AdmissionKey())
	if err != nil || kv.ModRevision == 0 {
		return nil, 0, err
	}
	if a = new(types.Admission); !Read(kv, a) {
		a = &types.Admission{Busy: true, Reason: "the reason is unreadable: a server writes it again"}
	}
	return a, kv.ModRevision, nil
}

// untilAdmitted waits while too many tasks wait. Each client polls at random intervals of its own.
func untilAdmitted(ctx context.Context, s Store) error {
	wait := RetryPolicy()
	for {
		a, _, err := admission(ctx, s)
		switch {
		case err != nil && !types.ClassOf(err).Retryable():
			return err
		case err == nil && a == nil:
			return nil
		case err == nil && !a.Busy:
			return refusal(a)
		}
		if err := supervise.Pause(ctx, wait.NextBackOff()+time.Duration(rand.Int64N(int64(10*time.Millisecond)))); err != nil {
			if a == nil {
				a = new(types.Admission)
			}
			return types.Errorf(types.Unavailable, "nothing new was admitted in time: %s: submit it later, or wait longer: %w", a.Reason, err)
		}
	}
}
