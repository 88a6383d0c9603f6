package esl

import (
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
)

// opener is a Policy with a resource of its own, which it places where a requesting task fits, and
// where capacity is being made, within its limit.
type opener interface {
	Policy
	Opens(s *State) Limit
}

// Limit says where capacity may be made for a task that requests a resource of a policy.
type Limit struct {
	// Name is the resource; empty means that the policy places it also where nothing fits. Each:
	// each task has a resource of its own: the name, a dot and a number.
	Name string
	Each bool
	// More is how many more each rack or zone may hold; nil means any number anywhere.
	Over Domain
	More map[string]int
}

// Covers reports whether the limit is about a resource.
func (l Limit) Covers(name string) bool {
	return name == l.Name || l.Each && strings.HasPrefix(name, l.Name+".")
}

// Limits returns the limits of the policies of a job.
func (s *State) Limits(job cluster.ID) []Limit {
	page := s.entry(job)
	if page == nil {
		return nil
	}
	var out []Limit
	for i, p := range page.Policies {
		o, ok := p.(opener)
		if !ok {
			continue
		}
		of := *s
		of.Namespace, of.ID, of.Job, of.Label, of.Memo, of.once = job.Namespace, job.ID, job.ID, page.Labels[i], nil, nil
		if l := o.Opens(&of); l.Name != "" {
			out = append(out, l)
		}
	}
	return out
}
