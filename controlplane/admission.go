package controlplane

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// Option changes a Client that is being made.
type Option func(*Client)

// WithNotice has the client tell, in words, that it waits before it submits, as too
// many tasks wait already: once each time that it begins to. Told must return soon; it
// may be called concurrently.
func WithNotice(told func(reason string)) Option {
	return func(c *Client) { c.notice = told }
}

// admit returns when something new is admitted again, if one of the keys, as they
// were found, says that it is not: at once where it does not. It waits while too many
// tasks wait. Precondition: nothing new is admitted for another reason. Unavailable: ctx
// is done before there is room.
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

// refusal is the error that nothing new is admitted: Precondition.
func refusal(a *types.Admission) error {
	return types.Errorf(types.Precondition, "nothing new is admitted: %s: wait until what has ended is deleted, %s, or give etcd a larger quota", a.Reason, action.DeleteEnded.Of())
}

// admission reads what is said about new tasks; nil is nothing.
func admission(ctx context.Context, s Store) (a *types.Admission, revision int64, err error) {
	kv, err := get(ctx, s, AdmissionKey())
	if err != nil || kv.ModRevision == 0 {
		return nil, 0, err
	}
	if a = new(types.Admission); !Read(kv, a) {
		a = &types.Admission{Busy: true, Reason: "it cannot be read why: a server writes it again"}
	}
	return a, kv.ModRevision, nil
}

// untilAdmitted waits while too many tasks wait. Those that wait for it ask at times
// of their own.
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
