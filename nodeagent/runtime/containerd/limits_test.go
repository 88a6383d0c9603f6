package containerd_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/nodeagent/runtime/runtimetest"
	"github.com/escher-sched/escher/types"
)

// cgroup reads a file of a container's cgroup. v1 is its name in cgroup v1 with the controller, v2
// that in v2.
func (b *bench) cgroup(id, controller, v1, v2 string) string {
	b.Helper()
	path := filepath.Join(cgroup.DefaultRoot, controller, b.Cgroups().Path(id), v1)
	if cgroup.Unified(cgroup.DefaultRoot) {
		path = filepath.Join(cgroup.DefaultRoot, b.Cgroups().Path(id), v2)
	}
	return strings.TrimSpace(b.read(path))
}

func testLimits(b *bench) {
	c := b.container("block")
	c.MilliCPU, c.MemoryBytes = 250, 64<<20
	b.start(c)
	if got := b.cgroup(c.ID, "memory", "memory.limit_in_bytes", "memory.max"); got != "67108864" {
		b.Errorf("memory limit is %s, want 64 MiB", got)
	}
	if got := b.cgroup(c.ID, "cpu", "cpu.cfs_quota_us", "cpu.max"); got != "25000" && got != "25000 100000" {
		b.Errorf("cpu quota is %s, want a quarter of 100000", got)
	}
	if got := b.cgroup(c.ID, "pids", "pids.max", "pids.max"); got != "4096" {
		b.Errorf("limit of processes is %s, want 4096", got)
	}
	d := b.container("block")
	d.Pids = 77
	b.start(d)
	if got := b.cgroup(d.ID, "pids", "pids.max", "pids.max"); got != "77" {
		b.Errorf("limit of processes is %s, want 77", got)
	}
	if got := b.cgroup(d.ID, "cpu", "cpu.cfs_quota_us", "cpu.max"); got != "-1" && got != "max 100000" {
		b.Errorf("cpu quota is %s without a limit, want none", got)
	}
}

// testOOMScore tests that the daemons' protection from the kernel does not extend to tasks, and that the
// kernel kills some of them first.
func testOOMScore(b *bench) {
	for first, want := range map[bool]string{false: "0\n", true: "1000\n"} {
		c := b.container("cat", "/proc/self/oom_score_adj")
		c.KillFirst = first
		b.start(c)
		b.wait(c.ID)
		runtimetest.AwaitLog(b.T, c.LogPath, want)
	}
}

// testShares tests the shares of a contended core, which follow the requests, whether these are
// limits or not.
func testShares(b *bench) {
	for _, test := range []struct {
		milli         int64
		limit         types.CPULimit
		v1, v2, quota string
	}{
		// The weight of SCHED_IDLE: it runs only while no other does.
		{0, types.CPUHard, "3", "0", "-1 max 100000"},
		{1, types.CPUNone, "2", "1", "-1 max 100000"},
		{500, types.CPUHard, "512", "", "50000 50000 100000"},
		{1500, types.CPUNone, "1536", "", "-1 max 100000"},
	} {
		c := b.container("block")
		c.MilliCPU, c.CPULimit = test.milli, test.limit
		b.start(c)
		// The conversion from shares to weights differs between versions of runc.
		weight, quota := b.cgroup(c.ID, "cpu", "cpu.shares", "cpu.weight"), b.cgroup(c.ID, "cpu", "cpu.cfs_quota_us", "cpu.max")
		if weight != test.v1 && weight != test.v2 && (test.v2 != "" || !cgroup.Unified(cgroup.DefaultRoot)) {
			b.Errorf("%d of a core has %s shares, want %s", test.milli, weight, test.v1)
		}
		if !strings.Contains(test.quota, quota) {
			b.Errorf("%d of a core, limit %q, has the quota %s, want %s", test.milli, test.limit, quota, test.quota)
		}
		b.must(b.Remove(b.ctx(), c.ID))
	}
}

// testForkBomb stops at the limit of its container, and not at that of the machine.
func testForkBomb(b *bench) {
	c := b.container("fork", "500")
	c.Pids = 40
	var made int
	var why string
	text := b.output(c, 0)
	if _, err := fmt.Sscanf(text, "made %d: %s", &made, &why); err != nil || made == 0 || made >= 40 || why != "EAGAIN" {
		b.Errorf("a fork bomb says %q, want less than 40 and EAGAIN: %v", text, err)
	}
}

func testOOM(b *bench) {
	c := b.container("eat")
	c.MemoryBytes = 32 << 20
	b.start(c)
	if exit := b.wait(c.ID); !exit.OOMKilled || exit.Code != 137 {
		b.Errorf("exit %+v, want it killed for lack of memory", exit)
	}
	seen, err := b.find(b.Context(), c.ID)
	if err != nil || seen.Exit == nil || !seen.Exit.OOMKilled {
		b.Errorf("listed as %+v, %v; want it killed for lack of memory", seen, err)
	}
}

// testOOMOfChild has a child process killed; then the process ends by itself.
func testOOMOfChild(b *bench) {
	c := b.container("breed")
	c.MemoryBytes = 32 << 20
	b.start(c)
	if exit := b.wait(c.ID); !exit.OOMKilled || exit.Code != 3 {
		b.Errorf("exit %+v, want 3, and that a process of it was killed for lack of memory", exit)
	}
}

func testKillUnderLimit(b *bench) {
	c := b.container("deaf")
	c.MemoryBytes = 32 << 20
	b.start(c)
	b.must(b.Signal(b.Context(), c.ID, syscall.SIGKILL))
	if exit := b.wait(c.ID); exit.OOMKilled || exit.Code != 137 {
		b.Errorf("exit %+v, want 137 and not for lack of memory", exit)
	}
}
