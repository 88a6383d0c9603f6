package esl

import (
	"context"
	"maps"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// shared reads the shared policies that others refer to, but for those declared, which are
// of the same transaction. The read set is what was read of the store: who goes by it
// submits nothing under a policy that has been changed, or withdrawn, since.
func (c *Client) shared(ctx context.Context, declared map[string]Policy, policies []Policy) (map[string]Policy, controlplane.ReadSet, error) {
	out, reads := make(map[string]Policy), make(controlplane.ReadSet)
	for i, p := range policies {
		r, ok := p.(Refers)
		if !ok {
			continue
		}
		id := r.Shared()
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

// readShared reads the shared policy of an id.
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

// withdrawTries is how often it is looked again who refers to a policy, when somebody has
// just begun to, or ended.
const withdrawTries = 10

// Withdraw ends the shared policy of an id, and removes the resources that are named
// after it; who holds of them goes on. NotFound: there is none. Precondition: policies of
// jobs refer to it, which the error names, and it is not forced; their tasks that wait
// would do so for ever.
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
	switch {
	case err != nil:
		return err
	case !force && len(jobs) > 0:
		return types.Errorf(types.Precondition, "%d jobs refer to it, such as %s: stop them first, or force it", len(jobs), jobs[0])
	case !force:
		t.IfNoPoliciesSince(at)
	}
	if err := c.removeMade(ctx, t, id); err != nil {
		return err
	}
	_, err = t.Commit(ctx)
	return err
}

// removeMade adds that the resources go that are named after an id.
func (c *Client) removeMade(ctx context.Context, t *controlplane.Transaction, id string) error {
	prefix := controlplane.Prefix(controlplane.Resources, c.Namespace())
	made, _, err := controlplane.ListAll(ctx, c.Store(), controlplane.ListOptions{Prefix: prefix + id + ".", KeysOnly: true})
	if err != nil {
		return err
	}
	where := make(map[string]controlplane.Where)
	for _, kv := range made {
		k, ok := controlplane.Parse(kv.Key)
		if !ok {
			continue
		}
		w, known := where[k.Name]
		switch {
		case k.Where == types.ClusterWide:
			w = controlplane.InCluster()
		case k.Where == types.EveryNode || known && len(w.Nodes) == 0:
			w = controlplane.OnEvery() // that takes what nodes have of their own, too
		default:
			w.Nodes = append(w.Nodes, k.Where)
		}
		where[k.Name] = w
	}
	for _, name := range slices.Sorted(maps.Keys(where)) {
		t.SetResource(name, 0, where[name], controlplane.SetOptions{})
	}
	return nil
}

// referring returns the jobs that refer to a shared policy, sorted, and the revision at
// which that was read.
func (c *Client) referring(ctx context.Context, id string) ([]string, int64, error) {
	kvs, at, err := controlplane.ListAll(ctx, c.Store(), controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Policies, c.Namespace())})
	if err != nil {
		return nil, 0, err
	}
	v := cluster.New()
	for _, kv := range kvs {
		if _, _, err := v.Apply(controlplane.Event{KV: kv}); err != nil {
			return nil, 0, err
		}
	}
	var jobs []string
	for job := range bookOf(v, c.Kinds).from(cluster.ID{Namespace: c.Namespace(), ID: id}) {
		jobs = append(jobs, job)
	}
	slices.Sort(jobs)
	return jobs, at, nil
}
