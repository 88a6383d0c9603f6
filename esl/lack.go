package esl

import (
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Lacking are resources and reservations of others that a shared policy found not to be
// there, or not to be enough, while tasks wait for them. It cares for them until it is
// asked the next time: what it does may be another thing then.
type Lacking map[cluster.ID]struct{}

// NoteLacking notes that a task of a job waits for a resource. What is called after the job is not
// noted, as the policies that the job names are asked for that anyway.
func (s *State) NoteLacking(job string, rid types.ResourceID) {
	if s.Lacking == nil {
		return
	}
	ns, name, reservation := rid.Split()
	if reservation != "" {
		name = reservation
	}
	if !strings.HasPrefix(name, job+".") {
		s.Lacking[cluster.ID{Namespace: ns, ID: name}] = struct{}{}
	}
}
