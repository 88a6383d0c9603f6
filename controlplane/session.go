package controlplane

import (
	"context"
	"time"

	"github.com/escher-sched/escher/controlplane/ids"
	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// A Session is the presence of an application. The resources, tasks and reservations that name it
// end with it. It lasts while Run runs, and at most ttl longer.
type Session struct {
	// ID is the name of the session in its namespace.
	ID string

	c     *Client
	ttl   time.Duration
	lease LeaseID
	// sent is the sending time of the last successful renewal.
	sent time.Time
}

// MinTTL is the shortest time to live of a session; a shorter one cannot be renewed reliably.
const MinTTL = time.Second

// OpenSession opens a session. The name tells people its owner. ttl is how long it lasts without
// renewal, in whole seconds. The caller calls Run soon.
func (c *Client) OpenSession(ctx context.Context, name string, ttl time.Duration) (*Session, error) {
	errs := []error{types.ValidateName("name", name)}
	if ttl < MinTTL {
		errs = append(errs, types.Errorf(types.Invalid, "ttl: %s is too short: give %s or more", ttl, MinTTL))
	}
	if err := invalid(errs); err != nil {
		return nil, types.Errorf(types.Invalid, "open session %q: %w", name, err)
	}
	s := &Session{ID: ids.New(name), c: c, ttl: ttl, sent: time.Now()}
	lease, err := c.store.GrantLease(ctx, ttl)
	if err != nil {
		return nil, types.Errorf(types.ClassOf(err), "open session %s: %w", name, err)
	}
	s.lease = lease
	change := NewChange(NewBatch())
	c.ifInBudget(change)
	change.IfUnchanged(SessionKey(c.ns, s.ID), 0)
	change.PutOn(SessionKey(c.ns, s.ID), &types.Session{Name: name}, lease)
	res, err := Commit(ctx, c.store, change.Txn())
	switch {
	case err != nil:
		return nil, types.Errorf(types.ClassOf(err), "open session %s: %w", name, err)
	case !res.Committed:
		if err := c.inBudget(ctx, c.store, differing(change.Txn(), res.Read)); err != nil {
			return nil, types.Errorf(types.ClassOf(err), "open session %s: %w", name, err)
		}
		return nil, types.Errorf(types.AlreadyExists, "open session %s: it exists already: open it again", s.ID)
	}
	return s, nil
}

// Run renews the session until ctx is done, and then returns ctx.Err(); the session lasts for up to
// its time to live. Precondition: the session and everything it owned are lost.
func (s *Session) Run(ctx context.Context) error {
	retry := RetryPolicy()
	wait := s.ttl / 3
	for {
		if err := supervise.Pause(ctx, wait); err != nil {
			return err
		}
		sent := time.Now()
		ttl, err := s.renew(ctx)
		switch {
		case err == nil:
			s.sent, s.ttl = sent, ttl
			retry.Reset()
			wait = ttl / 3
		case ctx.Err() != nil:
			return ctx.Err()
		case types.Is(err, types.NotFound):
			return types.Errorf(types.Precondition, "keep session %s: it has ended: open another", s.ID)
		case time.Since(s.sent) >= s.ttl:
			return types.Errorf(types.Precondition, "keep session %s: the store did not renew it for %s: %w", s.ID, time.Since(s.sent), err)
		default:
			wait = min(retry.NextBackOff(), max(0, s.ttl-time.Since(s.sent)))
		}
	}
}

// renew renews the lease once, and gives up when the session has expired.
func (s *Session) renew(ctx context.Context) (time.Duration, error) {
	ctx, cancel := context.WithDeadline(ctx, s.sent.Add(s.ttl))
	defer cancel()
	return s.c.store.RenewLease(ctx, s.lease)
}

// Close ends the session and everything it owns. An ended session is a success.
func (s *Session) Close(ctx context.Context) error {
	if err := s.c.store.RevokeLease(ctx, s.lease); err != nil {
		return types.Errorf(types.ClassOf(err), "close session %s: %w", s.ID, err)
	}
	return nil
}
