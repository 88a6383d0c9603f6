package audit

import (
	"github.com/escher-sched/escher/controlplane"
)

// Checker follows the keys of a cluster and checks every guarantee but OneWriter,
// for which the writer must be known: see Authored. It is not safe for concurrent
// use.
type Checker struct {
	s *state
	// standing are the findings about the state that held when it was looked at
	// last.
	standing map[subject][]Finding
	found    []Finding
	lives    Lives
}

// subject is what a validator of the state looks at.
type subject struct {
	guarantee Guarantee
	// of points to the object, or is the key that cannot be read.
	of any
}

// NewChecker returns a checker of an empty cluster.
func NewChecker() *Checker {
	return &Checker{s: newState(), standing: make(map[subject][]Finding)}
}

// Revision returns the revision that was applied last.
func (c *Checker) Revision() int64 { return c.s.revision }

// Apply applies the changes of one revision, checks what they touched, and returns
// what is found now and was not before. Revisions must be given in order, without
// gaps between those that change something.
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

// Load applies the difference to the state at a later revision, without knowing
// what happened in between, checks all of it, and returns what is found now and was
// not before. Given to a new checker, the events are the cluster at that revision.
func (c *Checker) Load(events []controlplane.Event, revision int64) []Finding {
	c.s.begin(revision)
	for _, e := range events {
		c.s.apply(e)
	}
	for _, t := range c.s.tasks {
		t.settle()
	}
	c.found = nil
	c.checkTouched() // what is gone is found no longer
	c.s.end()
	c.checkAll()
	return sorted(c.found)
}

// Standing returns the findings about the state that hold at present.
func (c *Checker) Standing() []Finding {
	var all []Finding
	for _, found := range c.standing {
		all = append(all, found...)
	}
	return sorted(all)
}

// Full checks all of the state, and returns all that is wrong with it at present,
// and what must have been wrong when it came about.
func (c *Checker) Full() []Finding {
	full := Checker{s: c.s, standing: make(map[subject][]Finding)}
	full.checkAll()
	return sorted(full.found)
}

// finder reports what is wrong with an object.
type finder func(object, format string, args ...any)

// change makes a finder of a change, which is found once.
func (c *Checker) change(g Guarantee) finder {
	return func(object, format string, args ...any) {
		c.found = append(c.found, c.finding(g, object, format, args))
	}
}

// state checks an object anew: what was found of it before and is still so is not
// reported again.
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

// same returns the finding among found that says the same as f.
func same(found []Finding, f Finding) *Finding {
	for i := range found {
		if found[i].Object == f.Object && found[i].Text.String() == f.Text.String() {
			return &found[i]
		}
	}
	return nil
}
