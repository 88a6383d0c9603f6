package watchdog

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
)

// harden makes this process small, and the last to suffer when the machine has no memory
// or no disk: what it uses stays in memory, and the kernel kills others first. What of it
// is not permitted is said.
func harden(ctx context.Context, guards []*guard, logger *says) {
	debug.FreeOSMemory()
	shed()
	// What is not used, such as most of this program, need not be there.
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

// rehearse does once what is done at the deadline, to nobody: then all that it takes is in
// memory.
func (g *guard) rehearse(ctx context.Context) {
	_ = g.candidates()
	_ = cgroup.Kill(ctx, g.Root, g.Cgroups.Path("nobody")) // There is no such container.
}

// shed drops what the start of this program brought into memory of its file: most of it is
// what other commands need. What is needed again comes back.
func shed() {
	self, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return // It only stays larger.
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
		// What can be written has values of ours.
		if strings.HasSuffix(lines.Text(), string(filepath.Separator)+filepath.Base(self)) && !strings.Contains(mode, "w") {
			_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED) // or not
		}
	}
}
