//go:build linux

package watchdog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
)

// harden makes this process small, and robust when the machine is busy, runs out of memory or its
// disk hangs: it runs before other processes, its memory stays resident, and the kernel kills others
// first. It logs the steps that are not permitted.
func harden(ctx context.Context, guards []*guard, logger *says) {
	if err := hurry(); err != nil {
		logger.Printf("run before other processes: %v", err)
	}
	debug.FreeOSMemory()
	shed()
	// Unused pages, such as most of this program, need not be resident.
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT); err != nil {
		logger.Printf("keep what is used in memory: %v", err)
	}
	for _, g := range guards {
		g.rehearse(ctx)
	}
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("-999"), 0o600); err != nil {
		logger.Printf("have the kernel kill others first: %v", err)
	}
}

// hurry gives all threads of this process a real-time policy, with the lowest of its priorities. A
// nice value would not do: it counts within a control group only.
func hurry() error {
	// Threads inherit the policy of the thread that starts them. So a pass that finds nothing to
	// change is the last one.
	for changed := true; changed; {
		changed = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range threads {
			id, err := strconv.Atoi(t.Name())
			if err != nil {
				return err
			}
			is, err := unix.SchedGetAttr(id, 0)
			if err == nil && is.Policy != unix.SCHED_RR {
				changed = true
				err = unix.SchedSetAttr(id, &unix.SchedAttr{Policy: unix.SCHED_RR, Priority: 1}, 0)
			}
			// ESRCH: the thread has ended.
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
	}
	return nil
}

// rehearse does the work of the deadline once, for a container that does not exist. Then all memory
// that the work needs is resident.
func (g *guard) rehearse(ctx context.Context) {
	_ = g.candidates()
	_ = cgroup.Kill(ctx, g.Root, g.Cgroups.Path("absent")) // There is no such container.
}

// shed drops the pages of this program's file that its start loaded: other commands need most of
// them. Pages that are needed come back.
func shed() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return // It stays larger, without other effects.
	}
	maps, err := os.Open("/proc/self/maps")
	if err != nil {
		return
	}
	defer maps.Close()
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		var from, to uintptr
		var mode string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &from, &to, &mode); err != nil {
			continue
		}
		// Writable pages contain data.
		if strings.HasSuffix(lines.Text(), string(filepath.Separator)+filepath.Base(self)) && !strings.Contains(mode, "w") {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED) // best effort
		}
	}
}
