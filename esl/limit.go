package esl

import (
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
)

// opener is a Policy that has a resource of its own where there is room for who asks for it,
// and where room is being made, as far as its law allows.
type opener interface {
	Policy
	Opens(s *State) Limit
}

// Limit says where room may be made for who asks for a resource of a policy.
type Limit struct {
	// name is that of the resource; empty if the policy has it where there is no room, too.
	// each: there is one of each task, the name, a dot and a number.
	Name string
	Each bool
	// more is how many more may be in each rack, or zone; nil: any number anywhere.
	Over Domain
	More map[string]int
}

// Covers reports whether a resource is what the law is about.
func (l Limit) Covers(name string) bool {
	return name == l.Name || l.Each && strings.HasPrefix(name, l.Name+".")
}

// Limits returns those of the policies of a job.
func (s *State) Limits(job cluster.ID) []Limit {
	c := s.View.Policies[job]
	if c == nil || c.V == nil {
		return nil
	}
	var out []Limit
	page := readEntry(job, c, s.Kinds)
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
