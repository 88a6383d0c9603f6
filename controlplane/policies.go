package controlplane

import (
	"context"
	"strings"

	"github.com/escher-sched/escher/types"
)

// Policies returns the policies stored under an id, and the revision of their last change. The id
// is that of a job, or of policies that jobs share. NotFound: there are none.
func (c *Client) Policies(ctx context.Context, id string) (types.Policies, int64, error) {
	var p types.Policies
	kv, err := Get(ctx, c.store, PoliciesKey(c.ns, id))
	if err == nil && kv.ModRevision == 0 {
		err = types.Errorf(types.NotFound, "there are none")
	}
	if err == nil && !Read(kv, &p) {
		err = Unreadable(kv.Key)
	}
	if err != nil {
		return p, 0, types.Errorf(types.ClassOf(err), "read policies %s: %w", id, err)
	}
	return p, kv.ModRevision, nil
}

// SetPolicies stores p under an id, in place of the policies of a revision; 0 means that there are
// none yet. The job and the session of p must exist, or be launched earlier in the transaction.
func (t *Transaction) SetPolicies(id string, p types.Policies, revision int64) *Transaction {
	errs := []error{types.ValidateName("id", id), p.Validate()}
	if err := invalid(errs); err != nil {
		return t.add(nil, types.Errorf(types.Invalid, "set policies %q: %w", id, err))
	}
	return t.add(&setPolicies{c: t.c, id: id, p: &p, revision: revision}, nil)
}

// RemovePolicies deletes the policies of an id, which must be those of a revision.
func (t *Transaction) RemovePolicies(id string, revision int64) *Transaction {
	return t.add(&setPolicies{c: t.c, id: id, revision: revision}, types.ValidateName("id", id))
}

// setPolicies is an edit that stores policies, or removes them if p is nil.
type setPolicies struct {
	c        *Client
	id       string
	p        *types.Policies
	revision int64
}

func (e *setPolicies) verb() string { return "set policies " + e.id }

func (e *setPolicies) draw(ctx context.Context, s Store, change *Change) error {
	key := PoliciesKey(e.c.ns, e.id)
	change.IfUnchanged(key, e.revision)
	if e.p == nil {
		change.Delete(key)
		return nil
	}
	if id := e.p.Job; id != "" {
		if err := e.c.ifThere(ctx, s, change, JobKey(e.c.ns, id), false, "job", id, "job"); err != nil {
			return err
		}
	}
	if id := e.p.Session; id != "" {
		if err := e.c.ifThere(ctx, s, change, SessionKey(e.c.ns, id), false, "session", id, "session"); err != nil {
			return err
		}
	}
	e.c.ifInBudget(change)
	change.Put(key, e.p)
	return nil
}

// refused returns an error if the policies have changed.
func (e *setPolicies) refused(ctx context.Context, s Store, keys []KV) error {
	if err := e.c.inBudget(ctx, s, keys); err != nil {
		return err
	}
	for _, kv := range keys {
		switch {
		case kv.Key != PoliciesKey(e.c.ns, e.id):
		case e.revision == 0 && e.p != nil && e.p.Job != "":
			return types.Errorf(types.AlreadyExists, "policies with the id %q exist already, shared by jobs or of another job: choose another job id", e.id)
		case e.revision == 0:
			return types.Errorf(types.AlreadyExists, "policies with that id exist: read them and set them again")
		default:
			return types.Errorf(types.Conflict, "they have changed: read them again, decide again")
		}
	}
	return nil
}

func (e *setPolicies) done(int64) {}

// once reports false: the same policies may be set again.
func (e *setPolicies) once() bool { return false }

// IfNoPoliciesSince makes the transaction depend on no policies of the namespace having been set
// after a revision: Conflict. So a caller can remove an object without references, and no policy
// can start to refer to it meanwhile.
func (t *Transaction) IfNoPoliciesSince(revision int64) *Transaction {
	return t.add(&noPolicies{ns: t.c.ns, since: revision}, nil)
}

// noPolicies is the condition of IfNoPoliciesSince.
type noPolicies struct {
	ns    string
	since int64
}

func (e *noPolicies) verb() string { return "check policies" }

func (e *noPolicies) draw(_ context.Context, _ Store, change *Change) error {
	change.IfNoneSince(Prefix(Policies, e.ns), e.since)
	return nil
}

func (e *noPolicies) refused(_ context.Context, _ Store, keys []KV) error {
	for _, kv := range keys {
		if strings.HasPrefix(kv.Key, Prefix(Policies, e.ns)) && kv.ModRevision > e.since {
			return types.Errorf(types.Conflict, "%s was set at revision %d, after %d: read again, decide again", kv.Key, kv.ModRevision, e.since)
		}
	}
	return nil
}

func (e *noPolicies) done(int64) {}

func (e *noPolicies) once() bool { return false }
