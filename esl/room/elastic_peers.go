package room

import "github.com/escher-sched/escher/types"

// Peers makes the tasks know which others run.
func (Elastic) Peers() types.Peers { return types.RunningPeers }
