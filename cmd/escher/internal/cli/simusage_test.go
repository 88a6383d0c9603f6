package cli_test

import (
	"sync"
	"time"

	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
)

// uses is what simulated containers use: half a core since they were started, 12 MiB of
// 48, and no disk.
type uses struct{ started sync.Map }

// begin notes that a container is started.
func (u *uses) begin(id string) { u.started.LoadOrStore(id, time.Now()) }

// Of returns what a container uses.
func (u *uses) Of(id string) cgroup.Stat {
	started, _ := u.started.Load(id)
	return cgroup.Stat{
		CPU:       &cgroup.CPU{Used: time.Since(started.(time.Time)) / 2},
		Memory:    &cgroup.Memory{WorkingSet: 12 << 20, RSS: 10 << 20, Peak: 20 << 20, Limit: 48 << 20},
		IO:        new(cgroup.IO),
		Processes: new(int64(3)),
	}
}
