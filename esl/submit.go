package esl

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Client submits jobs with policies, in the namespace of its controlplane client.
type Client struct {
	*controlplane.Client
	// Kinds are the known kinds of shared policies.
	Kinds Kinds

	registered registered
}

// MaxJob is the most bytes in the id of a job with policies: the names of objects that the policies
// create begin with it.
const MaxJob = 40

// Submit submits a job in one transaction: tasks, what the policies create for them, and the
// policies. A server runs these, or the holder of the job's session. A job too large for one
// transaction becomes visible as if it were one: see controlplane.Transaction.InParts.
//
// Invalid: a policy, or two together, can never be satisfied, or is misspelled; the error names all
// problems. Others as of controlplane.Client.Launch.
func (c *Client) Submit(ctx context.Context, job Job, policies ...Policy) (controlplane.Launched, error) {
	t, launched, err := c.Prepare(ctx, job, policies...)
	if err != nil {
		return controlplane.Launched{}, err
	}
	done, err := t.InParts().Commit(ctx)
	if err != nil {
		return controlplane.Launched{}, types.Errorf(types.ClassOf(err), "submit %s: %w", nameOf(Job{ID: cmp.Or(launched.Job, job.ID), Name: job.Name}), err)
	}
	launched.Revision, launched.Parts = done.Revision, done.Parts
	return launched, nil
}

// Prepare is Submit without the commit: to add to the transaction, or to preview it.
func (c *Client) Prepare(ctx context.Context, job Job, policies ...Policy) (*controlplane.Transaction, controlplane.Launched, error) {
	e, err := c.Expand(ctx, job, policies...)
	if err != nil {
		return nil, controlplane.Launched{}, err
	}
	t := c.Begin(job.If)
	return t, e.Add(t), nil
}

// ReadPolicies makes policies of their stored forms. Errors are those of Kinds.Read.
func (c *Client) ReadPolicies(stored []types.Policy) ([]Policy, error) {
	policies := make([]Policy, len(stored))
	for i, one := range stored {
		p, err := c.Kinds.Read(one)
		if err != nil {
			return nil, err
		}
		policies[i] = p
	}
	return policies, nil
}

// Expanded is a job with the additions of its policies, before anything is written.
type Expanded struct {
	*Group

	noneSince int64
	// drawn reports whether the client generated the id.
	drawn bool
	wish  string
	kept  types.Policies
	// reads is the read set of the shared policies.
	reads controlplane.ReadSet
}

// Expand applies policies to a job, and writes nothing. Errors as of Submit.
func (c *Client) Expand(ctx context.Context, job Job, policies ...Policy) (*Expanded, error) {
	g, err := c.group(ctx, job, policies)
	if err != nil {
		return nil, types.Errorf(types.ClassOf(err), "submit %s: %w", nameOf(job), err)
	}
	e := &Expanded{Group: g, noneSince: job.NoneSince, drawn: job.ID == "", kept: types.Policies{Job: g.ID, Session: job.Session}, reads: g.reads}
	for _, p := range policies {
		one, err := Stored(p)
		if err != nil {
			return nil, err
		}
		e.kept.Policies = append(e.kept.Policies, one)
	}
	if job.Wished {
		e.wish = controlplane.RequestDigest(job.Tasks, e.kept.Policies)
	}
	return e, nil
}

// Add adds the job and its additions to a transaction.
func (e *Expanded) Add(t *controlplane.Transaction) controlplane.Launched {
	t.If(e.reads)
	launched := t.LaunchJob(controlplane.Job{ID: e.ID, GeneratedID: e.drawn, Name: e.Name, NoneSince: e.noneSince, Wish: e.wish}, e.Tasks...)
	for _, r := range e.Reservations {
		t.Reserve(r.ID, r.Reservation)
	}
	for _, s := range e.Resources {
		t.SetResource(s.Name, s.Capacity, s.Where, s.Options)
	}
	if len(e.kept.Policies) > 0 {
		t.SetPolicies(e.ID, e.kept, 0)
	}
	return launched
}

// nameOf returns the name of a job in errors.
func nameOf(job Job) string {
	if name := cmp.Or(job.ID, job.Name); name != "" {
		return "job " + name
	}
	return "job without a name"
}

// group makes a group of a job, and applies policies to it. If they refuse because of cached nodes,
// it reads the nodes and applies them again.
func (c *Client) group(ctx context.Context, job Job, policies []Policy) (*Group, error) {
	if len(job.Tasks) == 0 {
		return nil, Invalid("tasks: there are none: give at least one")
	}
	if len(job.ID) > MaxJob {
		return nil, Invalid("job.id: %q has %d bytes, and names of what its policies make begin with it: at most %d are allowed, shorten it", job.ID, len(job.ID), MaxJob)
	}
	shared, reads, err := c.shared(ctx, job.Shared, policies)
	if err != nil {
		return nil, err
	}
	if err := c.follows(ctx, job.Beside, policies); err != nil {
		return nil, err
	}
	nodes, fresh, err := c.look(ctx, policies, false)
	if err != nil {
		return nil, err
	}
	g, err := c.applied(job, policies, shared, nodes)
	if !fresh && types.Is(err, types.Precondition) {
		if nodes, _, err = c.look(ctx, policies, true); err != nil {
			return nil, err
		}
		g, err = c.applied(job, policies, shared, nodes)
	}
	g.reads = reads
	return g, err
}

// applied returns the group of a job after its policies have been applied.
func (c *Client) applied(job Job, policies []Policy, shared map[string]Policy, nodes map[string]*types.Node) (*Group, error) {
	g := &Group{
		Namespace: c.Namespace(), ID: job.ID, Name: job.Name, Session: job.Session, Tasks: slices.Clone(job.Tasks), Shared: shared, Nodes: nodes,
		ops: c.Store().Limits().Ops,
	}
	if g.ID == "" {
		g.ID = newJob(job.Name)
	}
	for i := range g.Tasks {
		if g.Session != "" {
			g.Tasks[i].Task.Session = g.Session
		}
	}
	return g, g.Apply(policies)
}

// newJob generates an id for a job with policies.
func newJob(name string) string {
	if name == "" {
		name = "job"
	}
	if most := MaxJob - 12; len(name) > most {
		name = strings.TrimRight(name[:most], "-_.")
	}
	return controlplane.NewID(name)
}
