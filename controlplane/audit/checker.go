package audit

import (
	"slices"

	"github.com/escher-sched/escher/controlplane"
)

// Checker follows the keys of a cluster and checks every guarantee except OneWriter, which needs
// the writer: see Authored. It is not safe for concurrent use.
type Checker struct {
	s *state
	// standing holds the findings about the state at the last check of each subject.
	standing map[subject][]Finding
	found    []Finding
	lives    Lives
}

// subject is one object under one guarantee about the state.
type subject struct {
	guarantee Guarantee
	// of is a pointer to the object, or an unreadable key.
	of any
}

// NewChecker returns a checker of an empty cluster.
func NewChecker() *Checker {
	return &Checker{s: newState(), standing: make(map[subject][]Finding)}
}

// newLeaseChecker returns a checker that also checks leases. Histories that a test writes have none.
func newLeaseChecker() *Checker {
	c := NewChecker()
	c.s.leases = true
	return c
}

// Revision returns the last applied revision.
func (c *Checker) Revision() int64 { return c.s.revision }

// Apply applies the changes of one revision, checks the touched objects, and returns new findings.
// Revisions must come in order, without gaps between those with changes.
func (c *Checker) Apply(batch controlplane.Batch) []Finding {
	if len(batch.Events) == 0 {
		return nil
	}
	c.s.begin(batch.Revision)
	for _, e := range batch.Events {
		c.s.apply(e)
	}
	c.found = nil
	c.checkChanges()
	c.checkTouched()
	c.checkLives()
	c.s.end()
	return sorted(c.found)
}

// Load applies the difference to the state at a later revision, without the history in between. It
// checks everything and returns new findings. For a new checker, the events are the whole cluster
// at that revision.
func (c *Checker) Load(events []controlplane.Event, revision int64) []Finding {
	c.s.begin(revision)
	for _, e := range events {
		c.s.apply(e)
	}
	for _, t := range c.s.tasks {
		t.settle()
	}
	c.found = nil
	c.checkTouched() // removes findings about deleted objects
	c.s.end()
	c.checkAll()
	return sorted(c.found)
}

// Standing returns the present findings about the state.
func (c *Checker) Standing() []Finding {
	var all []Finding
	for _, found := range c.standing {
		all = append(all, found...)
	}
	return sorted(all)
}

// Full checks the whole state. It returns every present problem, and every past one that it proves.
func (c *Checker) Full() []Finding {
	full := Checker{s: c.s, standing: make(map[subject][]Finding)}
	full.checkAll()
	return sorted(full.found)
}

// finder reports a problem of an object.
type finder func(object, format string, args ...any)

// change returns a finder for a change, which is reported once.
func (c *Checker) change(g Guarantee) finder {
	return func(object, format string, args ...any) {
		c.found = append(c.found, c.finding(g, object, format, args))
	}
}

// state checks an object again, and does not repeat findings that still hold.
func (c *Checker) state(g Guarantee, of any, check func(finder)) {
	var now []Finding
	check(func(object, format string, args ...any) {
		now = append(now, c.finding(g, object, format, args))
	})
	at := subject{g, of}
	before := c.standing[at]
	if len(now) == 0 {
		if len(before) > 0 {
			delete(c.standing, at)
		}
		return
	}
	for i := range now {
		if was := same(before, now[i]); was != nil {
			now[i].Revision = was.Revision
			continue
		}
		c.found = append(c.found, now[i])
	}
	c.standing[at] = now
}

// same returns the finding with the object and text of f, nil if there is none.
func same(found []Finding, f Finding) *Finding {
	for i := range found {
		if found[i].Object == f.Object && found[i].Text.String() == f.Text.String() {
			return &found[i]
		}
	}
	return nil
}

// Still returns those of earlier findings that are also among the present ones, at whatever
// revision. It changes the earlier ones.
func Still(before, now []Finding) []Finding {
	return slices.DeleteFunc(before, func(f Finding) bool { return same(now, f) == nil })
}
