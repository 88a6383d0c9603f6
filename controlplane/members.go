package controlplane

import "github.com/escher-sched/escher/types"

// number gives the tasks of a job their index and count, unless the caller gave them. It lists the
// members of a job with peers, or one that may have them: the spec of a task may be known by its
// digest alone. Of a large job it lists the first task, at which the others meet.
func (e *launch) number(tasks []Submission) error {
	n := len(e.tasks)
	told, follow, gaps := false, false, false
	for i, t := range e.tasks {
		if t.task.Count == 0 {
			t.task.Index, t.task.Count = i, n
		}
		peers := types.NoPeers
		if tasks[i].Spec != nil {
			peers = tasks[i].Spec.Peers
		}
		told = told || tasks[i].Spec == nil || peers != types.NoPeers
		follow = follow || peers == types.RunningPeers
		gaps = gaps || peers.Listed() && t.task.Index != i
	}
	switch {
	case gaps:
		return types.Errorf(types.Invalid, "spec.peers: tasks know each other by indices from 0, and the array has others: leave peers out, or count from 0")
	case n > types.MaxPeers && follow:
		return types.Errorf(types.Invalid, "spec.peers: the job has %d tasks, and at most %d can follow each other: leave peers out, or launch fewer tasks", n, types.MaxPeers)
	case n > types.MaxPeers && told:
		e.job.Members = e.launched().Tasks[:1]
	case told:
		e.job.Members = e.launched().Tasks
	}
	return nil
}
