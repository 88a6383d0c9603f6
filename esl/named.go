package esl

import (
	"slices"

	"github.com/escher-sched/escher/controlplane/cluster"
)

// NameOf returns the name of a resource of another job's policy: what Own(suffix) returns there. job
// is the id of that job. kind is the kind of the policy; for a job that uses a shared policy, the kind
// of that. Of several policies of a kind it is the first; State.NameOf finds them by the names of
// jobs.
func NameOf(job, kind, suffix string) string { return OwnName(job, labels([]string{kind})[0], suffix) }

// NameOf is NameOf for a job in the view, by its id or name; of several of a name, the one submitted
// last. ok is false if there is no such job, or it has no policy of the kind.
func (s *State) NameOf(job, kind, suffix string) (name string, ok bool) {
	id := cluster.ID{Namespace: s.Namespace, ID: job}
	if s.View.Policies[id] == nil {
		var latest int64
		for of, j := range s.View.Jobs {
			if of.Namespace == s.Namespace && j.V != nil && j.V.Name == job && j.V.Submitted > latest {
				id, latest = of, j.V.Submitted
			}
		}
	}
	c := s.View.Policies[id]
	if c == nil || c.V == nil {
		return "", false
	}
	label := labels([]string{kind})[0]
	if !slices.Contains(Labels(c.V.Policies), label) {
		return "", false
	}
	return OwnName(id.ID, label, suffix), true
}
