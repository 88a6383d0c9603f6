package nodeagent

import (
	"time"

	"github.com/escher-sched/escher/types"
)

// Workload is an attempt with a running container, its devices and its start time.
type Workload struct {
	Attempt Attempt
	// Devices are the ids of the devices that it holds, whole or in part.
	Devices []string
	// Started is when its process started; zero if not known yet.
	Started time.Time
}

// Workloads returns the running attempts of the node, by the ids of their containers.
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

// heldDevices returns the devices of a binding; a nil binding holds none.
func heldDevices(b *types.Binding) []string {
	if b == nil {
		return nil
	}
	return devicesOf(b)
}
