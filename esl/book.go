package esl

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// book is the policies of a view, each read once, and which jobs refer to which shared
// ones.
type book struct {
	kinds Kinds
	pages map[cluster.ID]*page
	// referring are the jobs that refer to a shared policy.
	referring map[cluster.ID]map[cluster.ID]struct{}
}

// page is the policies of one key, in their order.
type page struct {
	mod    int64
	labels []string
	// policies are nil where the kind is not known, or wrong says what is wrong.
	policies []Policy
	wrong    []error
	// shared is which shared one each refers to, "" for none; refers are all of these.
	shared []string
	refers []cluster.ID
}

func newBook(kinds Kinds) *book {
	return &book{kinds: kinds, pages: make(map[cluster.ID]*page), referring: make(map[cluster.ID]map[cluster.ID]struct{})}
}

// bookOf reads all policies of a view.
func bookOf(v *cluster.View, kinds Kinds) *book {
	b := newBook(kinds)
	for id, c := range v.Policies {
		b.set(id, c)
	}
	return b
}

// set takes in the policies of a key as they are now, and returns them; nil if there are
// none.
func (b *book) set(id cluster.ID, c *cluster.Cell[types.Policies]) *page {
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
	now := readPage(id, c, b.kinds)
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

func readPage(id cluster.ID, c *cluster.Cell[types.Policies], kinds Kinds) *page {
	n := len(c.V.Policies)
	p := &page{mod: c.Mod, labels: Labels(c.V.Policies), policies: make([]Policy, n), wrong: make([]error, n), shared: make([]string, n)}
	for i, stored := range c.V.Policies {
		if p.policies[i], p.shared[i], p.wrong[i] = readOne(stored, kinds); p.shared[i] != "" {
			p.refers = append(p.refers, cluster.ID{Namespace: id.Namespace, ID: p.shared[i]})
		}
	}
	return p
}

// readOne reads a policy, and which shared one it refers to.
func readOne(stored types.Policy, kinds Kinds) (policy Policy, shared string, err error) {
	panicked := contained(func() {
		if policy, err = kinds.Read(stored); err != nil {
			return
		}
		if r, ok := policy.(Refers); ok {
			shared = r.Shared()
		}
	})
	if panicked != nil {
		return nil, "", panicked
	}
	return policy, shared, err
}

// refersTo returns the shared policies that those of a job refer to.
func (b *book) refersTo(job cluster.ID) []cluster.ID {
	if p := b.pages[job]; p != nil {
		return p.refers
	}
	return nil
}

// from returns the policies of jobs that refer to a shared one, by job.
func (b *book) from(shared cluster.ID) map[string]Policy {
	out := make(map[string]Policy, len(b.referring[shared]))
	for job := range b.referring[shared] {
		page := b.pages[job]
		for i, name := range page.shared {
			if name == shared.ID {
				out[job.ID] = page.policies[i]
			}
		}
	}
	return out
}
