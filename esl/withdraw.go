package esl

import (
	"context"
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

// Withdraw ends the shared policy of an id, and removes the resources that it has made:
// those that are named after it, and are of no job. Who holds of them goes on. More of them
// than go into one transaction are removed after it. NotFound: there is none. Precondition:
// policies of jobs refer to it, which the error names, and it is not forced; their tasks
// that wait would do so for ever.
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
	made, err := c.madeBy(ctx, id, kept)
	if err != nil {
		return err
	}
	if made.count() <= perPlan {
		made.remove(t)
		_, err = t.Commit(ctx)
		return err
	}
	// First the policy, or it would make again what is removed.
	if _, err := t.Commit(ctx); err != nil {
		return err
	}
	return c.removeInParts(ctx, id, made)
}

// made are resources, by name, where they are: each once.
type made struct {
	pools []string
	// every are on every node, and what nodes have of these goes with them; own are on
	// nodes alone.
	every []string
	own   map[string][]string
}

// count is how many keys are written, at least.
func (m *made) count() int {
	n := len(m.pools) + len(m.every)
	for _, nodes := range m.own {
		n += len(nodes)
	}
	return n
}

// remove adds that all of them go.
func (m *made) remove(t *controlplane.Transaction) {
	gone := func(name string, where controlplane.Where) { t.SetResource(name, 0, where, controlplane.SetOptions{}) }
	for _, name := range m.pools {
		gone(name, controlplane.InCluster())
	}
	for _, name := range m.every {
		gone(name, controlplane.OnEvery())
	}
	for _, name := range sortedKeys(m.own) {
		if !slices.Contains(m.every, name) {
			gone(name, controlplane.OnNode(m.own[name]...))
		}
	}
}

// parts returns them as so many at once that each part fits any store: what is on nodes
// before what is on every node.
func (m *made) parts() []made {
	var parts []made
	for names := range slices.Chunk(m.pools, perPlan) {
		parts = append(parts, made{pools: names})
	}
	for _, name := range sortedKeys(m.own) {
		for nodes := range slices.Chunk(m.own[name], perPlan) {
			parts = append(parts, made{own: map[string][]string{name: nodes}})
		}
	}
	for names := range slices.Chunk(m.every, perPlan) {
		parts = append(parts, made{every: names})
	}
	return parts
}

// removeInParts removes what a policy has made that is withdrawn, unless it is declared
// again meanwhile: then it is that one's.
func (c *Client) removeInParts(ctx context.Context, id string, m made) error {
	none := controlplane.ReadSet{controlplane.PoliciesKey(c.Namespace(), id): 0}
	for _, part := range m.parts() {
		for try := 1; ; try++ {
			t := c.Begin(none)
			part.remove(t)
			_, err := t.Commit(ctx)
			if err == nil {
				break
			}
			if types.Is(err, types.Conflict) {
				if _, _, is := c.Policies(ctx, id); is == nil {
					return nil
				}
			}
			if !types.Is(err, types.Conflict) || try == withdrawTries {
				return types.Errorf(types.Internal, "it is withdrawn, but resources that it has made are left, such as %s: declare it again, and withdraw it: %w", part.any(), err)
			}
		}
	}
	return nil
}

// any returns the name of one of them.
func (m *made) any() string {
	for _, name := range slices.Concat(m.pools, m.every, sortedKeys(m.own)) {
		return name
	}
	return ""
}

// madeBy returns the resources that are named after shared policies, and are of no job.
func (c *Client) madeBy(ctx context.Context, id string, kept types.Policies) (made, error) {
	m := made{own: make(map[string][]string)}
	prefix := controlplane.Prefix(controlplane.Resources, c.Namespace())
	for _, label := range Labels(kept.Policies) {
		name := own(id, label, "")
		kvs, _, err := controlplane.ListAll(ctx, c.Store(), controlplane.ListOptions{Prefix: prefix + name})
		if err != nil {
			return made{}, err
		}
		for _, kv := range kvs {
			var r types.Resource
			at, ok := controlplane.Parse(kv.Key)
			if !ok || !ofName(at.Name, name) || types.Decode(kv.Value, &r) == nil && r.Lifetime == types.OfJob {
				continue
			}
			switch at.Where {
			case types.ClusterWide:
				m.pools = append(m.pools, at.Name)
			case types.EveryNode:
				m.every = append(m.every, at.Name)
			default:
				m.own[at.Name] = append(m.own[at.Name], at.Where)
			}
		}
	}
	return m, nil
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
