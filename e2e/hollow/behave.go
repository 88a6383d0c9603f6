package hollow

import (
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/simruntime"
	"github.com/escher-sched/escher/types"
)

// Behave decides what the process of a task does.
type Behave func(nodeagent.Container) (simruntime.Behaviour, error)

// ByCommand reads the command of a task as pairs of words, in any order:
//
//	run 5s      it runs for 5 s; without it, and without exit, until it is stopped
//	exit 3      it ends with code 3
//	stop 2s     it takes 2 s to end when it is told to
//	memory 2Gi  it uses that much; if it may not, the kernel kills it when it would end
//	cpu 500m    it uses that much of a processor
//
// A task with any other command runs until it is stopped.
func ByCommand(c nodeagent.Container) (simruntime.Behaviour, error) {
	forever := simruntime.Behaviour{Forever: true, StopCode: 143}
	b := forever
	for words := c.Command; len(words) > 0; words = words[2:] {
		if len(words) == 1 {
			return forever, nil
		}
		var err error
		switch words[0] {
		case "run":
			b.Forever = false
			b.Run, err = time.ParseDuration(words[1])
		case "exit":
			b.Forever = false
			b.Code, err = strconv.Atoi(words[1])
		case "stop":
			b.StopAfter, err = time.ParseDuration(words[1])
		case "memory":
			b.Memory, err = amount(types.Memory, words[1])
		case "cpu":
			b.MilliCPU, err = amount(types.CPU, words[1])
		default:
			return forever, nil
		}
		if err != nil {
			return b, types.Errorf(types.Invalid, "command %q: %w", c.Command, err)
		}
	}
	if most := c.MemoryBytes; most > 0 && b.Memory > most {
		b.Memory, b.Code, b.OOMKilled = most, 137, true
	}
	return b, nil
}

// amount reads an amount of a resource.
func amount(id types.ResourceID, text string) (int64, error) {
	q, err := types.ParseQuantity(string(id), text)
	return int64(q), err
}

// Resuming returns ByCommand for tasks with checkpoints: each attempt goes on where the one before it ended.
func Resuming() Behave {
	var mu sync.Mutex
	done := make(map[string]time.Duration)
	return func(c nodeagent.Container) (simruntime.Behaviour, error) {
		b, err := ByCommand(c)
		task := c.Attempt.Namespace + "/" + c.Attempt.Task
		mu.Lock()
		defer mu.Unlock()
		b.Run = max(0, b.Run-done[task])
		b.Ended = func(ran time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			done[task] += ran
		}
		return b, err
	}
}

// EndAtOnce ends each process at once, with success.
func EndAtOnce(nodeagent.Container) (simruntime.Behaviour, error) {
	return simruntime.Behaviour{}, nil
}

// BrokenOn is ByCommand, except that later attempts of a task do not start on a node, as if the
// image were missing there.
func BrokenOn(node string) Behave {
	return func(c nodeagent.Container) (simruntime.Behaviour, error) {
		if c.Attempt.Number > 1 && slices.Contains(c.Env, "ESCHER_NODE="+node) {
			return simruntime.Behaviour{}, types.Errorf(types.Unavailable, "the image is not to be had on %s", node)
		}
		return ByCommand(c)
	}
}

// Task is a submission of so many thousandths of a core, with a command for ByCommand.
func Task(milliCPU int, command ...string) controlplane.Submission {
	return controlplane.Submission{
		Task: types.Task{Requests: types.NewRequests(map[string]types.Quantity{string(types.CPU): types.Quantity(milliCPU)})},
		Spec: &types.Spec{Image: "escher.local/hollow", Command: command},
	}
}
