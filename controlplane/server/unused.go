package server

import (
	"strings"
	"time"
)

// specName is the name of a spec.
type specName struct{ ns, digest string }

// unusedSpecs holds specs without tasks, in the order in which they were noticed.
type unusedSpecs struct {
	known map[specName]*unusedSpec
	queue []*unusedSpec
}

// unusedSpec is a spec without tasks.
type unusedSpec struct {
	name specName
	// mod is its ModRevision in the last listing.
	mod   int64
	since time.Time
}

// see records a listed spec.
func (x *index) see(name specName, mod int64, now time.Time) {
	if x.used(name) {
		return
	}
	u := x.unused.known[name]
	if u == nil {
		u = &unusedSpec{name: specName{strings.Clone(name.ns), strings.Clone(name.digest)}, since: now}
		x.unused.known[u.name] = u
		x.unused.queue = append(x.unused.queue, u)
	}
	u.mod = mod
}

func (x *index) used(name specName) bool {
	s := x.spaces[name.ns]
	return s != nil && s.specs[name.digest] != nil
}

// first returns the spec noticed first, nil if there is none.
func (u *unusedSpecs) first() *unusedSpec {
	if len(u.queue) == 0 {
		return nil
	}
	return u.queue[0]
}

// drop forgets the first spec: it is used, or deleted, or will be listed again.
func (u *unusedSpecs) drop() {
	delete(u.known, u.queue[0].name)
	u.queue = rest(u.queue)
}
