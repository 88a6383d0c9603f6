package esl

import (
	"context"
	"maps"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

// shared reads the shared policies that policies refer to, except those declared in the same
// transaction. A submission on condition of the read set fails if one of them has been changed or
// withdrawn since.
func (c *Client) shared(ctx context.Context, declared map[string]Policy, policies []Policy) (map[string]Policy, controlplane.ReadSet, error) {
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
		policy, revision, err := c.readShared(ctx, id)
		if err != nil {
			return nil, nil, types.Errorf(types.ClassOf(err), "policies[%d] (%s): %w", i, p.Kind(), err)
		}
		out[id], reads[controlplane.PoliciesKey(c.Namespace(), id)] = policy, revision
	}
	return out, reads, nil
}

// readShared reads the shared policy with an id.
func (c *Client) readShared(ctx context.Context, id string) (Policy, int64, error) {
	if err := types.ValidateName("the name of a shared policy", id); err != nil {
		return nil, 0, err
	}
	kept, revision, err := c.Policies(ctx, id)
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

// withdrawTries is how often Withdraw tries when jobs that refer to the policy come or go
// meanwhile.
const withdrawTries = 10

// Withdraw ends the shared policy with an id, and removes the resources named after it that belong
// to no job. Tasks that hold of them go on. It is one transaction. The garbage collector removes
// soon what does not fit in it, even if the caller dies. Resources from an older version, without a
// lifetime, go first, in parts: the policy creates them again if the caller dies in between.
// NotFound: there is none. Precondition: jobs that have not ended refer to the policy, and force is
// false. Their waiting tasks would wait for ever. The error names one.
func (c *Client) Withdraw(ctx context.Context, id string, force bool) error {
	for try := 1; ; try++ {
		err := c.withdraw(ctx, id, force)
		if !types.Is(err, types.Conflict) || try == withdrawTries {
			if err != nil {
				return types.Errorf(types.ClassOf(err), "withdraw %s: %w", id, err)
			}
			return nil
		}
	}
}

func (c *Client) withdraw(ctx context.Context, id string, force bool) error {
	kept, revision, err := c.Policies(ctx, id)
	if err != nil {
		return err
	}
	if kept.Job != "" {
		return types.Errorf(types.Precondition, "it is a job, and no shared policy: stop its tasks")
	}
	t := c.Begin().RemovePolicies(id, revision)
	jobs, at, err := c.referring(ctx, id)
	if err == nil && len(jobs) > 0 {
		jobs, err = c.living(ctx, jobs)
	}
	switch {
	case err != nil:
		return err
	case !force && len(jobs) > 0:
		return types.Errorf(types.Precondition, "it is in use by %s, such as %s: stop them first, or force the removal", words.Count(len(jobs), "job"), jobs[0])
	case !force:
		t.IfNoPoliciesSince(at)
	}
	made, lasting, err := c.madeBy(ctx, id, kept)
	if err != nil {
		return err
	}
	if made.keys() > PerPlan && lasting.keys() > 0 {
		t := c.Begin().If(controlplane.ReadSet{controlplane.PoliciesKey(c.Namespace(), id): revision})
		lasting.first(PerPlan).remove(t)
		if _, err := t.Commit(ctx); err != nil {
			return err
		}
		return c.withdraw(ctx, id, force)
	}
	made.first(PerPlan).remove(t)
	_, err = t.Commit(ctx)
	return err
}

// created holds the names of resources by where they are, each once.
type created struct {
	pools []string
	// every is on every node, and includes what single nodes have of these; own is on single nodes
	// only.
	every []string
	own   map[string][]string
}

// remove adds the removal of all of them to a transaction.
func (m *created) remove(t *controlplane.Transaction) {
	gone := func(name string, where controlplane.Where) { t.SetResource(name, 0, where, controlplane.SetOptions{}) }
	for _, name := range m.pools {
		gone(name, controlplane.InCluster())
	}
	for _, name := range m.every {
		gone(name, controlplane.OnEvery())
	}
	for _, name := range slices.Sorted(maps.Keys(m.own)) {
		gone(name, controlplane.OnNode(m.own[name]...))
	}
}

// keys returns how many keys they have in the store.
func (m *created) keys() int {
	n := len(m.pools) + len(m.every)
	for _, on := range m.own {
		n += len(on)
	}
	return n
}

// first returns as many of them as take at most so many keys; those on single nodes come last.
func (m *created) first(most int) *created {
	out := created{own: make(map[string][]string)}
	n := min(most, len(m.pools))
	out.pools, most = m.pools[:n], most-n
	for _, name := range m.every {
		if n := 1 + len(m.own[name]); n <= most {
			out.every, most = append(out.every, name), most-n
		}
	}
	for _, name := range slices.Sorted(maps.Keys(m.own)) {
		if n := min(most, len(m.own[name])); n > 0 && !slices.Contains(m.every, name) {
			out.own[name], most = m.own[name][:n], most-n
		}
	}
	return &out
}

// madeBy returns the resources named after a shared policy that belong to no job. lasting are those
// that do not end with the policy, except those on every node.
func (c *Client) madeBy(ctx context.Context, id string, kept types.Policies) (m, lasting created, err error) {
	m.own, lasting.own = make(map[string][]string), make(map[string][]string)
	prefix := controlplane.Prefix(controlplane.Resources, c.Namespace())
	for _, label := range Labels(kept.Policies) {
		name := OwnName(id, label, "")
		kvs, _, err := controlplane.ListAll(ctx, c.Store(), controlplane.ListOptions{Prefix: prefix + name})
		if err != nil {
			return m, lasting, err
		}
		for _, kv := range kvs {
			var r types.Resource
			at, ok := controlplane.Parse(kv.Key)
			if !ok || !ofName(at.Name, name) || types.Decode(kv.Value, &r) == nil && r.Lifetime == types.OfJob {
				continue
			}
			m.add(at)
			if r.Lifetime != types.OfPolicy && at.Where != types.EveryNode {
				lasting.add(at)
			}
		}
	}
	slices.Sort(m.pools) // those created at declaration come first
	slices.Sort(m.every)
	return m, lasting, nil
}

// add adds a resource by where it is.
func (m *created) add(at controlplane.Key) {
	switch at.Where {
	case types.ClusterWide:
		m.pools = append(m.pools, at.Name)
	case types.EveryNode:
		m.every = append(m.every, at.Name)
	default:
		m.own[at.Name] = append(m.own[at.Name], at.Where)
	}
}

// referring returns the jobs that refer to a shared policy, sorted, and the revision of that read.
func (c *Client) referring(ctx context.Context, id string) ([]string, int64, error) {
	kvs, at, err := controlplane.ListAll(ctx, c.Store(), controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Policies, c.Namespace())})
	if err != nil {
		return nil, 0, err
	}
	v := cluster.New()
	for _, kv := range kvs {
		_, _, _ = v.Apply(controlplane.Event{KV: kv}) // unreadable policies count as absent
	}
	var jobs []string
	for job := range registryOf(v, c.Kinds).from(cluster.ID{Namespace: c.Namespace(), ID: id}) {
		jobs = append(jobs, job)
	}
	slices.Sort(jobs)
	return jobs, at, nil
}

// living returns those of jobs that have not ended: a task has not ended, or the job is not yet
// submitted in full.
func (c *Client) living(ctx context.Context, jobs []string) ([]string, error) {
	complete, _, err := controlplane.ListAll(ctx, c.Store(), controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Jobs, c.Namespace()), KeysOnly: true})
	if err != nil {
		return nil, err
	}
	ended := make(map[string]bool)
	for _, kv := range complete {
		if k, ok := controlplane.Parse(kv.Key); ok {
			ended[k.ID] = true
		}
	}
	_, err = c.EachTask(ctx, func(t controlplane.TaskState) error {
		if !t.Phase().Ended() {
			delete(ended, t.Task.Job)
		}
		return nil
	})
	return slices.DeleteFunc(jobs, func(job string) bool { return ended[job] }), err
}
