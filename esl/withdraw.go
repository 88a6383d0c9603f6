package esl

import (
	"context"
	"maps"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/submitter"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/words"
)

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

// takingPart returns clients of the other namespaces whose jobs may take part in a policy.
func (c *Client) takingPart(ctx context.Context, id string) (out []*controlplane.Client, err error) {
	all, err := c.Namespaces(ctx)
	if err != nil {
		return nil, err
	}
	at := cluster.ID{Namespace: c.Namespace(), ID: id}
	for i := range all {
		n := &all[i]
		if n.Name == at.Namespace || !allows(&n.Namespace, n.Name, at) {
			continue
		}
		of, err := controlplane.New(c.Store(), n.Name)
		if err != nil {
			return nil, err
		}
		out = append(out, of)
	}
	return out, nil
}

// withdrawElsewhere removes the pools of a withdrawn policy in the namespaces whose jobs may take part. If the
// caller dies, the next policy of that name does.
func (c *Client) withdrawElsewhere(ctx context.Context, id string, kept types.Policies) error {
	ctx = submitter.With(ctx, submitter.Submitter{}) // its makers have no right to them
	all, err := c.takingPart(ctx, id)
	if err != nil {
		return err
	}
	owner := OwnName(OwnerOf(c.Namespace()+":"+id), Labels(kept.Policies)[0], "") + "."
	for _, of := range all {
		kvs, _, err := controlplane.ListAll(ctx, c.Store(), controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Resources, of.Namespace()) + owner, KeysOnly: true})
		if err != nil {
			return err
		}
		for part := range slices.Chunk(kvs, PerPlan) {
			t := of.Begin()
			for _, kv := range part {
				if k, ok := controlplane.Parse(kv.Key); ok && k.Where == types.ClusterWide {
					t.SetResource(k.Name, 0, controlplane.InCluster(), controlplane.SetOptions{})
				}
			}
			if _, err := t.Commit(ctx); err != nil {
				return err
			}
		}
	}
	return nil
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
		if err := c.noneSince(ctx, t, id, at); err != nil {
			return err
		}
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
	if _, err = t.Commit(ctx); err != nil {
		return err
	}
	return c.withdrawElsewhere(ctx, id, kept)
}

// noneSince makes a transaction depend on no job having begun to refer to a policy after a revision.
func (c *Client) noneSince(ctx context.Context, t *controlplane.Transaction, id string, at int64) error {
	t.IfNoPoliciesSince(at)
	all, err := c.takingPart(ctx, id)
	for _, of := range all {
		t.In(of).IfNoPoliciesSince(at)
	}
	t.In(c.Client)
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

// referring returns the jobs that refer to a shared policy, sorted, and the revision of that read. Those of
// other namespaces have their namespace before them.
func (c *Client) referring(ctx context.Context, id string) ([]string, int64, error) {
	v := cluster.New()
	at := int64(0)
	for _, prefix := range []string{controlplane.Prefix(controlplane.Policies), controlplane.Prefix(controlplane.Namespaces)} {
		kvs, revision, err := controlplane.ListAll(ctx, c.Store(), controlplane.ListOptions{Prefix: prefix, Revision: at})
		if err != nil {
			return nil, 0, err
		}
		for _, kv := range kvs {
			_, _, _ = v.Apply(controlplane.Event{KV: kv}) // unreadable ones count as absent
		}
		at = revision
	}
	s := &State{View: v, Namespace: c.Namespace(), ID: id, Kinds: c.Kinds}
	return slices.Sorted(maps.Keys(s.Referring())), at, nil
}

// living returns those of jobs that have not ended: a task has not ended, or the job is not yet
// submitted in full.
func (c *Client) living(ctx context.Context, jobs []string) ([]string, error) {
	by := make(map[string][]string)
	for _, job := range jobs {
		ns := Named(c.Namespace(), job).Namespace
		by[ns] = append(by[ns], job)
	}
	var out []string
	for _, ns := range slices.Sorted(maps.Keys(by)) {
		of, err := controlplane.New(c.Store(), ns)
		if err != nil {
			return nil, err
		}
		ended, err := ended(ctx, of)
		if err != nil {
			return nil, err
		}
		out = append(out, slices.DeleteFunc(by[ns], func(job string) bool { return ended[Named(ns, job).ID] })...)
	}
	return out, nil
}

// ended returns the jobs of a namespace of which all tasks have ended.
func ended(ctx context.Context, c *controlplane.Client) (map[string]bool, error) {
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
	return ended, err
}
