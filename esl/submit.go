package esl

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/ids"
	"github.com/escher-sched/escher/controlplane/submitter"
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
func (c *Client) Submit(ctx context.Context, job controlplane.Job, policies ...Policy) (controlplane.Launched, error) {
	t, launched, err := c.Prepare(ctx, job, policies...)
	if err != nil {
		return controlplane.Launched{}, err
	}
	done, err := t.InParts().Commit(ctx)
	if err != nil {
		return controlplane.Launched{}, err
	}
	launched.Revision, launched.Parts = done.Revision, done.Parts
	return launched, nil
}

// Prepare is Submit without the commit: to add changes or conditions to the transaction, or to
// preview it.
func (c *Client) Prepare(ctx context.Context, job controlplane.Job, policies ...Policy) (*controlplane.Transaction, controlplane.Launched, error) {
	e, err := c.Expand(ctx, job, Batch{}, policies...)
	if err != nil {
		return nil, controlplane.Launched{}, types.Errorf(types.ClassOf(err), "submit %s: %w", nameOf(job), err)
	}
	t := c.Begin()
	return t, e.Add(t), nil
}

// StoredForms returns the stored forms of policies. Errors are those of Stored.
func StoredForms(policies []Policy) ([]types.Policy, error) {
	stored := make([]types.Policy, len(policies))
	for i, p := range policies {
		var err error
		if stored[i], err = Stored(p); err != nil {
			return nil, err
		}
	}
	return stored, nil
}

// Expanded is a job with the additions of its policies, before anything is written.
type Expanded struct {
	*Group

	// job is the job as requested, with its id; the tasks are those of the group.
	job  controlplane.Job
	kept types.Policies
	// reads is the read set of the shared policies.
	reads controlplane.ReadSet
}

// A Batch describes the transaction in which a job is submitted, if that has more than the job.
type Batch struct {
	// Declared holds the shared policies declared in it, by id. Others are read from the store.
	Declared map[string]Policy
	// Names holds the names of the jobs and tasks launched in it.
	Names []string
}

// Expand applies policies to a job, and writes nothing. Errors are those of Submit, without the name
// of the job.
func (c *Client) Expand(ctx context.Context, job controlplane.Job, batch Batch, policies ...Policy) (*Expanded, error) {
	g, err := c.group(ctx, job, batch, policies)
	if err != nil {
		return nil, err
	}
	job.ID, job.GeneratedID = g.ID, job.GeneratedID || job.ID == ""
	return &Expanded{Group: g, job: job, kept: types.Policies{Job: g.ID, Session: job.Session, Policies: g.stored}, reads: g.reads}, nil
}

// Policies returns the stored forms of the policies.
func (e *Expanded) Policies() []types.Policy { return e.kept.Policies }

// Add adds the job and its additions to a transaction.
func (e *Expanded) Add(t *controlplane.Transaction) controlplane.Launched {
	t.If(e.reads)
	job := e.job
	job.Tasks = e.Tasks
	launched := t.LaunchJob(job)
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
func nameOf(job controlplane.Job) string {
	if name := cmp.Or(job.ID, job.Name); name != "" {
		return "job " + name
	}
	return "job without a name"
}

// group makes a group of a job, and applies policies to it. If they refuse because of cached nodes,
// it reads the nodes and applies them again.
func (c *Client) group(ctx context.Context, job controlplane.Job, batch Batch, policies []Policy) (*Group, error) {
	if len(job.Tasks) == 0 {
		return nil, Invalid("tasks: there are none: give at least one")
	}
	if len(job.ID) > MaxJob {
		return nil, Invalid("job.id: %q has %d bytes, and names of what its policies make begin with it: at most %d are allowed, shorten it", job.ID, len(job.ID), MaxJob)
	}
	shared, reads, err := c.shared(ctx, batch.Declared, policies)
	if err != nil {
		return nil, err
	}
	if policies, err = charged(submitter.From(ctx), c.Namespace(), policies, shared); err != nil {
		return nil, err
	}
	if err := c.follows(ctx, batch.Names, policies); err != nil {
		return nil, err
	}
	nodes, fresh, err := c.look(ctx, policies, false)
	if err != nil {
		return nil, err
	}
	histories, err := c.histories(ctx, job, policies)
	if err != nil {
		return nil, err
	}
	g, err := c.applied(job, policies, shared, nodes, histories)
	if !fresh && types.Is(err, types.Precondition) {
		if nodes, _, err = c.look(ctx, policies, true); err != nil {
			return nil, err
		}
		g, err = c.applied(job, policies, shared, nodes, histories)
	}
	g.reads = reads
	return g, err
}

// applied returns the group of a job after its policies have been applied.
func (c *Client) applied(job controlplane.Job, policies []Policy, shared map[string]Policy, nodes map[string]*types.Node, histories map[string]*types.History) (*Group, error) {
	g := &Group{
		Namespace: c.Namespace(), ID: job.ID, Name: job.Name, Session: job.Session, Tasks: slices.Clone(job.Tasks), Shared: shared, Nodes: nodes, Histories: histories, labels: job.Labels,
		ops: c.Store().Limits().Ops,
	}
	if g.ID == "" {
		g.ID = newJob(job.Name)
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
	return ids.New(name)
}
