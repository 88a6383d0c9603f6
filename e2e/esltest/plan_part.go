package esltest

import "github.com/escher-sched/escher/types"

// Running returns the number of running tasks.
func (s *Sharing) Running() int {
	s.T.Helper()
	n := 0
	for t := range s.Snapshot().Tasks() {
		n += btoi(t.Phase() == types.Running)
	}
	return n
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
