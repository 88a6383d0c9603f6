package nodeagent

import (
	"time"

	"github.com/escher-sched/escher/types"
)

// Workload is an attempt whose container runs, with what belongs to it.
type Workload struct {
	Attempt Attempt
	// Devices are the ids of what it holds of devices, whole or in part.
	Devices []string
	// Started is when its process was started; zero if that is not known yet.
	Started time.Time
}

// Workloads returns what runs on the node, by the ids of the containers.
func (a *Agent) Workloads() map[string]Workload {
	a.mu.Lock()
	defer a.mu.Unlock()
	out := make(map[string]Workload)
	for id, t := range a.tasks {
		if t.seen.Container == Running {
			out[id] = Workload{Attempt: t.attempt, Devices: heldDevices(t.binding), Started: t.seen.Started}
		}
	}
	return out
}

// heldDevices returns the devices of a binding; one that is gone holds none.
func heldDevices(b *types.Binding) []string {
	if b == nil {
		return nil
	}
	return devicesOf(b)
}
