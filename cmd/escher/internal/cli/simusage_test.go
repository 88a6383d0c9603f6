package cli_test

import (
	"sync"
	"time"

	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
)

// uses is the usage of simulated containers: half a core since their start, 12 MiB of 48, and no
// disk.
type uses struct{ started sync.Map }

// begin records the start of a container.
func (u *uses) begin(id string) { u.started.LoadOrStore(id, time.Now()) }

// Of returns the usage of a container.
func (u *uses) Of(id string) cgroup.Stat {
	started, _ := u.started.Load(id)
	return cgroup.Stat{
		CPU:       &cgroup.CPU{Used: time.Since(started.(time.Time)) / 2},
		Memory:    &cgroup.Memory{WorkingSet: 12 << 20, RSS: 10 << 20, Peak: 20 << 20, Limit: 48 << 20},
		IO:        new(cgroup.IO),
		Processes: new(int64(3)),
	}
}
