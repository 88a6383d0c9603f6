package esl

import (
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Lacking holds resources and reservations of others that are absent or too small while tasks wait
// for them, as a shared policy found. It holds until the next call of Next, which may find others.
type Lacking map[cluster.ID]struct{}

// NoteLacking notes that a task of a job waits for a resource. It skips resources named after the
// job, because changes of the job call its policies anyway.
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
