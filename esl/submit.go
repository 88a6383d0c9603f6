package esl

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/ids"
	"github.com/escher-sched/escher/controlplane/submitter"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
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
	settings, unchanged, err := c.settings(ctx)
	if err != nil {
		return nil, err
	}
	policies = required(settings, policies)
	shared, reads, err := c.shared(ctx, settings, batch.Declared, policies)
	if err != nil {
		return nil, err
	}
	if err := reads.Add(unchanged); err != nil {
		return nil, err
	}
	if policies, err = charged(submitter.From(ctx), c.Namespace(), job.Labels, policies, shared); err != nil {
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
	job = withDefaults(job, settings, policies)
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

// shared reads the shared policies that policies refer to, except those declared in the same
// transaction. A submission on condition of the read set fails if one of them has been changed or
// withdrawn since.
func (c *Client) shared(ctx context.Context, settings *types.Namespace, declared map[string]Policy, policies []Policy) (map[string]Policy, controlplane.ReadSet, error) {
	out, reads := make(map[string]Policy), make(controlplane.ReadSet)
	named := make(map[string]bool)
	for i, p := range policies {
		u, ok := p.(Use)
		if !ok {
			continue
		}
		id := u.Name
		if named[id] {
			return nil, nil, Invalid("policies[%d] (%s): the job uses %s twice: drop one of them", i, p.Kind(), id)
		}
		named[id] = true
		if out[id] = declared[id]; out[id] != nil {
			continue
		}
		at := Named(c.Namespace(), id)
		if !allows(settings, c.Namespace(), at) {
			return nil, nil, types.Errorf(types.Denied, "policies[%d] (%s): name: jobs of namespace %s may not take part in %s: have an administrator allow it: %s", i, p.Kind(), c.Namespace(), types.Cut(id, types.MaxName), action.AllowPolicy.Of(c.Namespace(), types.Cut(id, types.MaxName)))
		}
		policy, revision, err := c.readShared(ctx, at, id)
		if err != nil {
			return nil, nil, types.Errorf(types.ClassOf(err), "policies[%d] (%s): %w", i, p.Kind(), err)
		}
		out[id], reads[controlplane.PoliciesKey(at.Namespace, at.ID)] = policy, revision
	}
	return out, reads, nil
}

// readShared reads the shared policy with an id, which the job names so.
func (c *Client) readShared(ctx context.Context, at cluster.ID, id string) (Policy, int64, error) {
	if err := types.ValidateName("the name of a shared policy", at.ID); err != nil {
		return nil, 0, err
	}
	of, err := controlplane.New(c.Store(), at.Namespace)
	if err != nil {
		return nil, 0, err
	}
	kept, revision, err := of.Policies(ctx, at.ID)
	switch {
	case types.Is(err, types.NotFound):
		return nil, 0, types.Errorf(types.Precondition, "there is no shared policy %q: declare it first, or correct the name", id)
	case err != nil:
		return nil, 0, err
	case kept.Job != "":
		return nil, 0, types.Errorf(types.Precondition, "%q is a job, and no shared policy: correct the name", id)
	}
	policy, err := c.Kinds.Read(kept.Policies[0])
	return policy, revision, err
}

// settings are those of the namespace of the client, and the condition that they stay so.
func (c *Client) settings(ctx context.Context) (*types.Namespace, controlplane.ReadSet, error) {
	n, err := c.GetNamespace(ctx, c.Namespace())
	if err != nil && !types.Is(err, types.NotFound) {
		return nil, nil, err
	}
	return &n.Namespace, controlplane.ReadSet{controlplane.NamespaceKey(c.Namespace()): n.Revision}, nil
}

// Required returns policies with a Use of each shared policy in which every job of the namespace takes part,
// unless they have one.
func (c *Client) Required(ctx context.Context, policies []Policy) ([]Policy, error) {
	n, _, err := c.settings(ctx)
	if err != nil {
		return nil, err
	}
	return required(n, policies), nil
}

// withDefaults returns a job whose tasks request what the settings of their namespace add to their requests, if
// they draw on a share of another namespace: they draw for that, too.
func withDefaults(job controlplane.Job, settings *types.Namespace, policies []Policy) controlplane.Job {
	elsewhere := func(p Policy) bool {
		u, ok := p.(Use)
		return ok && strings.Contains(u.Name, ":")
	}
	if len(settings.Defaults) == 0 || !slices.ContainsFunc(policies, elsewhere) {
		return job
	}
	job.Tasks = slices.Clone(job.Tasks)
	for i := range job.Tasks {
		t := &job.Tasks[i].Task
		t.Requests = t.Requests.Plus(settings.Missing(t.Requests))
	}
	return job
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
