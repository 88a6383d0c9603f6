package esltest

import (
	"slices"
	"strings"
	"sync"

	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
)

// Environments records the environment of each process that starts.
type Environments struct {
	mu     sync.Mutex
	starts map[string][][]string
}

// Behave is hollow.ByCommand, and records.
func (e *Environments) Behave(c nodeagent.Container) (simruntime.Behaviour, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.starts == nil {
		e.starts = make(map[string][][]string)
	}
	e.starts[c.Attempt.Task] = append(e.starts[c.Attempt.Task], slices.Clone(c.Env))
	return hollow.ByCommand(c)
}

// Of returns a variable at the last start of a task, as the process sees it; "none" if it is not
// set or the task never started.
func (e *Environments) Of(task, name string) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	starts, found := e.starts[task], "none"
	if len(starts) == 0 {
		return found
	}
	for _, one := range starts[len(starts)-1] {
		if value, ok := strings.CutPrefix(one, name+"="); ok {
			found = value
		}
	}
	return found
}

// Starts returns how often a task was started.
func (e *Environments) Starts(task string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.starts[task])
}
