package esl

import (
	"strings"

	"github.com/escher-sched/escher/types/words"
)

// Looked counts what a policy read by the methods of State in a decision, for its log.
type Looked struct {
	Tasks        int `json:"tasks,omitempty"`
	Jobs         int `json:"jobs,omitempty"`
	Nodes        int `json:"nodes,omitempty"`
	Pools        int `json:"pools,omitempty"`
	Reservations int `json:"reservations,omitempty"`
}

// String returns such as "3 tasks, 2 nodes"; "" for nothing.
func (l *Looked) String() string {
	if l == nil {
		return ""
	}
	var parts []string
	for _, x := range []struct {
		n    int
		noun string
	}{{l.Jobs, "job"}, {l.Tasks, "task"}, {l.Nodes, "node"}, {l.Pools, "pool"}, {l.Reservations, "reservation"}} {
		if x.n > 0 {
			parts = append(parts, words.Count(x.n, x.noun))
		}
	}
	return strings.Join(parts, ", ")
}
