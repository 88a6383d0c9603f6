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
	// refers are the shared ones that they refer to.
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
	p := &page{mod: c.Mod, labels: Labels(c.V.Policies), policies: make([]Policy, n), wrong: make([]error, n)}
	for i, stored := range c.V.Policies {
		if p.policies[i], p.wrong[i] = kinds.Read(stored); p.wrong[i] != nil {
			continue
		}
		if r, ok := p.policies[i].(Refers); ok {
			p.refers = append(p.refers, cluster.ID{Namespace: id.Namespace, ID: r.Shared()})
		}
	}
	return p
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
		for _, policy := range b.pages[job].policies {
			if r, ok := policy.(Refers); ok && r.Shared() == shared.ID {
				out[job.ID] = policy
			}
		}
	}
	return out
}
