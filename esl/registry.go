package esl

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Registry holds the policies of a view, each read once, and which jobs refer to which shared
// policies.
type Registry struct {
	kinds Kinds
	pages map[cluster.ID]*Entry
	// referring holds the jobs that refer to a shared policy.
	referring map[cluster.ID]map[cluster.ID]struct{}
}

// Entry holds the policies of one key, in their order.
type Entry struct {
	mod    int64
	Labels []string
	// Policies has nil where the kind is not known, or where the policy is marked as wrong.
	Policies []Policy
	Wrong    []error
	// shared is the shared policy that each refers to, zero for none; refers are all of these.
	shared []cluster.ID
	refers []cluster.ID
}

func NewRegistry(kinds Kinds) *Registry {
	return &Registry{kinds: kinds, pages: make(map[cluster.ID]*Entry), referring: make(map[cluster.ID]map[cluster.ID]struct{})}
}

// registryOf reads all policies of a view.
func registryOf(v *cluster.View, kinds Kinds) *Registry {
	b := NewRegistry(kinds)
	for id, c := range v.Policies {
		b.Set(id, c)
	}
	return b
}

// Set stores the current policies of a key, and returns them; nil if there are none.
func (b *Registry) Set(id cluster.ID, c *cluster.Cell[types.Policies]) *Entry {
	if was := b.pages[id]; was != nil {
		for _, shared := range was.refers {
			if delete(b.referring[shared], id); len(b.referring[shared]) == 0 {
				delete(b.referring, shared)
			}
		}
		delete(b.pages, id)
	}
	if c == nil || c.V == nil {
		return nil
	}
	now := readEntry(id, c, b.kinds)
	b.pages[id] = now
	if c.V.Job == "" {
		return now
	}
	for _, shared := range now.refers {
		if b.referring[shared] == nil {
			b.referring[shared] = make(map[cluster.ID]struct{})
		}
		b.referring[shared][id] = struct{}{}
	}
	return now
}

// entry returns the policies of a key, each read once; nil if there are none.
func (s *State) entry(id cluster.ID) *Entry {
	if s.Registry != nil {
		return s.Registry.pages[id]
	}
	if c := s.View.Policies[id]; c != nil && c.V != nil {
		return readEntry(id, c, s.Kinds)
	}
	return nil
}

func readEntry(id cluster.ID, c *cluster.Cell[types.Policies], kinds Kinds) *Entry {
	n := len(c.V.Policies)
	p := &Entry{mod: c.Mod, Labels: Labels(c.V.Policies), Policies: make([]Policy, n), Wrong: make([]error, n), shared: make([]cluster.ID, n)}
	for i, stored := range c.V.Policies {
		if p.Policies[i], p.shared[i], p.Wrong[i] = readOne(id.Namespace, stored, kinds); p.shared[i] != (cluster.ID{}) {
			p.refers = append(p.refers, p.shared[i])
		}
	}
	return p
}

// readOne reads a policy of a job of a namespace, and the shared policy that it refers to.
func readOne(ns string, stored types.Policy, kinds Kinds) (policy Policy, shared cluster.ID, err error) {
	panicked := Contain(func() {
		if policy, err = kinds.Read(stored); err != nil {
			return
		}
		if u, ok := policy.(Use); ok {
			shared = Named(ns, u.Name)
		}
	})
	if panicked != nil {
		return nil, cluster.ID{}, panicked
	}
	return policy, shared, err
}

// SharedOf returns the shared policies that a job refers to.
func (b *Registry) SharedOf(job cluster.ID) []cluster.ID {
	if p := b.pages[job]; p != nil {
		return p.refers
	}
	return nil
}

// from returns the policies that refer to a shared policy, by job: those of namespaces whose jobs may take
// part.
func (b *Registry) from(shared cluster.ID, may func(ns string) bool) map[cluster.ID]Policy {
	out := make(map[cluster.ID]Policy, len(b.referring[shared]))
	for job := range b.referring[shared] {
		page := b.pages[job]
		for i, is := range page.shared {
			if is == shared && (job.Namespace == shared.Namespace || may(job.Namespace)) {
				out[job] = page.Policies[i]
			}
		}
	}
	return out
}
