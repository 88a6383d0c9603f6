package decisions

import (
	"cmp"
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
)

// The bounds of a log: the policies that it keeps, those that decided last, and the entries of each.
const (
	MaxPolicies = 1000
	MaxEntries  = 32
)

// Log holds the last decisions of the policies that a program runs. Its methods may be called
// concurrently; those of a nil log do nothing.
type Log struct {
	mu    sync.Mutex
	since time.Time
	// seq is the number of the last change.
	seq int64
	// policies has the element of each policy in recent, the one that decided last in front.
	policies map[at]*list.Element
	recent   list.List
}

// at is a policy: the key that it is stored under, and its name there.
type at struct {
	id    cluster.ID
	label string
}

// policy has the entries of a policy, the oldest first.
type policy struct {
	at      at
	entries []Entry
}

// New returns an empty log that begins now.
func New(now time.Time) *Log { return &Log{since: now, policies: make(map[at]*list.Element)} }

// Add adds a decision of a policy of a job, or of a shared policy. It joins the last entry of that
// policy if both are equal.
func (l *Log) Add(id cluster.ID, e Entry) {
	if l == nil {
		return
	}
	e.cut()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.seq++
	p := l.policy(at{id, e.Policy})
	e.Seq, e.Changed, e.First, e.Times = l.seq, l.seq, e.Last, 1
	n := len(p.entries)
	if n > 0 && p.entries[n-1].like(&e) {
		last := &p.entries[n-1]
		e.Seq, e.First, e.Times = last.Seq, last.First, last.Times+1
		*last = e
		return
	}
	if n == MaxEntries {
		p.entries = slices.Delete(p.entries, 0, 1)
	}
	p.entries = append(p.entries, e)
}

// policy returns a policy, which has decided last from now on.
func (l *Log) policy(of at) *policy {
	if known := l.policies[of]; known != nil {
		l.recent.MoveToFront(known)
		return known.Value.(*policy)
	}
	for len(l.policies) >= MaxPolicies {
		oldest := l.recent.Back()
		delete(l.policies, l.recent.Remove(oldest).(*policy).at)
	}
	p := &policy{at: of}
	l.policies[of] = l.recent.PushFront(p)
	return p
}

// Page is a part of a log.
type Page struct {
	// Since is when the log began: the program that keeps it started then.
	Since time.Time `json:"since"`
	// Seq is the number of the last change of the log.
	Seq int64 `json:"seq"`
	// Known reports whether the log has entries of the policies.
	Known bool `json:"known"`
	// Entries are those that have changed, in the order of their last changes.
	Entries []Entry `json:"entries"`
}

// Of returns the entries of the policies of a job, or of a shared policy, that changed after a
// number; 0 means all.
func (l *Log) Of(id cluster.ID, after int64) Page {
	if l == nil {
		return Page{}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	page := Page{Since: l.since, Seq: l.seq, Entries: []Entry{}}
	for of, p := range l.policies {
		if of.id != id {
			continue
		}
		page.Known = true
		for _, e := range p.Value.(*policy).entries {
			if e.Changed > after {
				page.Entries = append(page.Entries, e)
			}
		}
	}
	slices.SortFunc(page.Entries, func(a, b Entry) int { return cmp.Compare(a.Changed, b.Changed) })
	return page
}
