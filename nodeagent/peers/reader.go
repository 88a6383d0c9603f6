package peers

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Reader reads the tasks of jobs from the store. Its methods may be called concurrently.
type Reader struct {
	Store controlplane.Store
	// Spec returns a stored spec by its digest. NotFound and Invalid: there is none that can be
	// read.
	Spec func(ctx context.Context, ns, digest string) (*types.Spec, error)

	hosts hosts

	mu sync.Mutex
	// gangs are the latest jobs of which all tasks are awaited, by job and attempt.
	gangs map[gangKey]*gang
}

// Self identifies an attempt.
type Self struct {
	Namespace, Task string
	Attempt         int
	// Revision is the CreateRevision of its binding.
	Revision int64
}

// Task returns a task with one request. It is nil if the task was removed. Unavailable: the store
// does not answer, or the task is unreadable.
func (r *Reader) Task(ctx context.Context, ns, id string) (*types.Task, error) {
	kv, err := controlplane.Get(ctx, r.Store, controlplane.TaskKey(ns, id))
	if err != nil || kv.ModRevision == 0 {
		return nil, err
	}
	t := new(types.Task)
	if !controlplane.Read(kv, t) {
		return nil, unreadable(kv.Key)
	}
	return t, nil
}

func unreadable(key string) error {
	return types.Errorf(types.Unavailable, "%w", controlplane.Unreadable(key))
}

// known returns the tasks of a job with the addresses that are known; none if the job does not list
// them. At the revision of the own bind all tasks of a gang have one: then all of them know the same.
// Otherwise known reads the present. Unavailable: the store does not answer.
func (r *Reader) known(ctx context.Context, self Self, job string) ([]Peer, error) {
	all, complete, err := r.knownAt(ctx, self, job, self.Revision)
	if err == nil && complete || err != nil && !types.Is(err, types.Compacted) {
		return all, err
	}
	all, _, err = r.knownAt(ctx, self, job, 0)
	return all, err
}

// knownAt is known at a revision; 0 means the present. complete reports whether all tasks have a node
// at the attempt of self. Otherwise it reads the addresses of the present only.
func (r *Reader) knownAt(ctx context.Context, self Self, job string, revision int64) (all []Peer, complete bool, err error) {
	members, at, err := r.members(ctx, self.Namespace, job, revision)
	if err != nil || len(members) == 0 {
		return nil, true, err
	}
	if all, err = r.statuses(ctx, self.Namespace, members, at); err != nil {
		return nil, false, err
	}
	complete = !slices.ContainsFunc(all, self.awaits)
	if revision != 0 && !complete {
		return nil, false, nil
	}
	return all, complete, r.locate(ctx, self.Namespace, all, at)
}

// awaits reports whether a task has no node at the attempt of self.
func (s Self) awaits(p Peer) bool { return !p.Phase.Held() || p.Attempt != s.Attempt }

// members returns the ids of the tasks of a job by index, and the revision at which they were read.
func (r *Reader) members(ctx context.Context, ns, job string, revision int64) (ids []string, at int64, err error) {
	key := controlplane.JobKey(ns, job)
	page, err := r.Store.List(ctx, controlplane.ListOptions{Key: key, Revision: revision})
	if err != nil {
		return nil, 0, err
	}
	j := new(types.Job)
	if len(page.KVs) == 0 {
		return nil, 0, types.Errorf(types.Unavailable, "read job %s: it is not there", job)
	}
	if !controlplane.Read(page.KVs[0], j) {
		return nil, 0, unreadable(key)
	}
	return j.Members, page.Revision, nil
}

// statuses returns the tasks with the fields of their statuses. A task with an unreadable status
// counts as Pending.
func (r *Reader) statuses(ctx context.Context, ns string, members []string, revision int64) ([]Peer, error) {
	keys := make([]string, len(members))
	for i, id := range members {
		keys[i] = controlplane.StatusKey(ns, id)
	}
	found, err := r.siblings(ctx, keys, revision)
	if err == nil && found == nil {
		found, err = r.many(ctx, keys, revision)
	}
	if err != nil {
		return nil, err
	}
	all := make([]Peer, len(members))
	for i, id := range members {
		var s types.Status
		if kv, ok := found[keys[i]]; !ok || !controlplane.Read(kv, &s) {
			s = types.Status{}
		}
		all[i] = peer(i, id, &s)
	}
	return all, nil
}

// peer returns a task with the fields of its status. A node without a name that keys can have
// counts as none.
func peer(index int, id string, s *types.Status) Peer {
	p := Peer{Index: index, Task: id, Phase: s.Phase, Node: s.Node, Attempt: s.Attempt}
	if p.Phase == "" || !types.IsName(p.Node) {
		p.Phase = types.Pending
	}
	return p
}

// locate sets the addresses of the tasks that have a node. It leaves out what cannot be read.
func (r *Reader) locate(ctx context.Context, ns string, all []Peer, revision int64) error {
	var keys []string
	for _, p := range all {
		if p.Phase.Held() {
			keys = append(keys, p.binding(ns))
		}
	}
	found, err := r.many(ctx, keys, revision)
	if err != nil {
		return err
	}
	bindings := make(map[int]*types.Binding, len(found))
	nodes := make(map[nodeSession]bool)
	for i, p := range all {
		if b := new(types.Binding); p.Phase.Held() && read(found, p.binding(ns), b) {
			bindings[i] = b
			nodes[nodeSession{p.Node, b.Session}] = true
		}
	}
	known, err := r.hosts.of(ctx, r, nodes, revision)
	if err != nil {
		return err
	}
	specs := make(map[string]*types.Spec) // the tasks of a job usually share one
	for i, b := range bindings {
		host := known[nodeSession{all[i].Node, b.Session}]
		if host == "" {
			continue
		}
		if specs[b.Spec] == nil {
			spec, err := r.Spec(ctx, ns, b.Spec)
			switch {
			case types.Is(err, types.NotFound) || types.Is(err, types.Invalid):
				spec = new(types.Spec) // the task cannot run there
			case err != nil:
				return err
			}
			specs[b.Spec] = spec
		}
		all[i].Host, all[i].Port = host, portOf(b, specs[b.Spec])
	}
	return nil
}

// binding returns the key of the binding of a task that has a node.
func (p Peer) binding(ns string) string {
	return controlplane.BindingKey(p.Node, ns, p.Task, p.Attempt)
}

// read decodes a key, and reports whether it is there and readable.
func read(found map[string]controlplane.KV, key string, m types.Message) bool {
	kv, ok := found[key]
	return ok && controlplane.Read(kv, m)
}

// many reads keys at a revision, as many with one request as the store permits.
func (r *Reader) many(ctx context.Context, keys []string, revision int64) (map[string]controlplane.KV, error) {
	found := make(map[string]controlplane.KV, len(keys))
	for part := range slices.Chunk(keys, r.Store.Limits().Ops) {
		page, err := r.Store.List(ctx, controlplane.ListOptions{Keys: part, Revision: revision})
		if err != nil {
			return nil, err
		}
		for _, kv := range page.KVs {
			found[kv.Key] = kv
		}
	}
	return found, nil
}

// siblings reads keys that differ only in the number at their end, as one range, which costs the
// store less. It returns nil if the keys are few or others, or the range has far more.
func (r *Reader) siblings(ctx context.Context, keys []string, revision int64) (map[string]controlplane.KV, error) {
	const few = 8
	if len(keys) < few {
		return nil, nil
	}
	stem := func(key string) string { return strings.TrimRight(key, "0123456789") }
	prefix := stem(keys[0])
	if !strings.HasSuffix(prefix, ".") || slices.ContainsFunc(keys, func(key string) bool { return stem(key) != prefix }) {
		return nil, nil
	}
	page, err := r.Store.List(ctx, controlplane.ListOptions{Prefix: prefix, Limit: 2 * len(keys), Revision: revision})
	if err != nil || page.More {
		return nil, err
	}
	found := make(map[string]controlplane.KV, len(page.KVs))
	for _, kv := range page.KVs {
		found[kv.Key] = kv
	}
	return found, nil
}
