package nodeagent

import "time"

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
			w := Workload{Attempt: t.attempt, Started: t.seen.Started}
			if t.binding != nil {
				w.Devices = devicesOf(t.binding)
			}
			out[id] = w
		}
	}
	return out
}
