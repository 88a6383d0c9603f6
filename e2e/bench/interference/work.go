package interference

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/types"
)

// CoreCommand is the command of escher-bench that runs in a container on the core of its node: the n-th
// node has the n-th core of the machine.
//
//	CoreCommand work DIRECTORY STEPS   do so many steps, and write the seconds to DIRECTORY/<its task>
//	CoreCommand rest                   work a hundredth of the time, until it is stopped
//	CoreCommand run PROGRAM ARGUMENT…  become another program
const CoreCommand = "bench-core"

// OnCore obeys the command.
func OnCore(ctx context.Context, args []string) error {
	if err := pin(os.Getenv("ESCHER_NODE")); err != nil {
		return err
	}
	switch {
	case len(args) == 3 && args[0] == "work":
		steps, err := strconv.Atoi(args[2])
		if err != nil {
			return types.Errorf(types.Invalid, "%s: steps: %w", CoreCommand, err)
		}
		begin := time.Now()
		work(steps)
		text := strconv.FormatFloat(time.Since(begin).Seconds(), 'f', 6, 64)
		return os.WriteFile(filepath.Join(args[1], os.Getenv("ESCHER_TASK")), []byte(text), 0o600)
	case len(args) == 1 && args[0] == "rest":
		for ctx.Err() == nil {
			work(1)
			select {
			case <-time.After(100 * stepTakes):
			case <-ctx.Done():
			}
		}
		return nil
	case len(args) > 1 && args[0] == "run":
		return types.Errorf(types.Precondition, "run %s: %w", args[1], unix.Exec(args[1], args[1:], os.Environ()))
	}
	return types.Errorf(types.Invalid, "%s: %q: want work, rest or run", CoreCommand, args)
}

// pin keeps this process, and what it becomes, on the core of a node such as node-2.
func pin(node string) error {
	_, number, _ := strings.Cut(node, "-")
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 {
		return types.Errorf(types.Invalid, "ESCHER_NODE: %q: want a node of escher dev, such as node-1", node)
	}
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set((n - 1) % runtime.NumCPU())
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, t := range tasks { // those of the runtime, too
		if id, err := strconv.Atoi(t.Name()); err == nil {
			if err := unix.SchedSetaffinity(id, &set); err != nil {
				return types.Errorf(types.Internal, "keep to core %d: %w", n-1, err)
			}
		}
	}
	return nil
}

// stepTakes is about how long a step takes on an idle core.
const stepTakes = time.Millisecond

// memory is what a step reads and writes: more than the caches of a core that are its own.
const memory = 1 << 17

// work does steps.
func work(steps int) (sum uint64) {
	words := make([]uint64, memory)
	for range steps {
		for i := range words {
			sum = sum*6364136223846793005 + words[i] + 1442695040888963407
			words[i] = sum
		}
	}
	return sum
}

// stepsFor returns how many steps take about so long on an idle core.
func stepsFor(d time.Duration) int {
	const some = 20
	fastest := time.Hour
	for range 20 {
		begin := time.Now()
		work(some)
		fastest = min(fastest, time.Since(begin)/some)
	}
	return max(1, int(d/fastest))
}
