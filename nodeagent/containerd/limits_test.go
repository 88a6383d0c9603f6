package containerd_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/escher-sched/escher/nodeagent/runtimetest"
)

// cgroup reads a file of a container's cgroup, by its name in cgroup v1 with the
// controller, and in v2.
func (b *bench) cgroup(id, controller, v1, v2 string) string {
	b.Helper()
	path := filepath.Join("/sys/fs/cgroup", controller, b.host.Namespace, id, v1)
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		path = filepath.Join("/sys/fs/cgroup", b.host.Namespace, id, v2)
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
	conf := b.host.Config(b.cluster, "n1")
	conf.Pids = 77
	d := b.container("block")
	_, err := b.host.OpenWith(b.T, conf).Start(b.Context(), d)
	b.must(err)
	if got := b.cgroup(d.ID, "pids", "pids.max", "pids.max"); got != "77" {
		b.Errorf("limit of processes is %s, want the configured 77", got)
	}
	if got := b.cgroup(d.ID, "cpu", "cpu.cfs_quota_us", "cpu.max"); got != "-1" && got != "max 100000" {
		b.Errorf("cpu quota is %s without a limit, want none", got)
	}
}

// testOOMScore: what protects the daemons from the kernel protects no task.
func testOOMScore(b *bench) {
	c := b.container("cat", "/proc/self/oom_score_adj")
	b.start(c)
	b.wait(c.ID)
	runtimetest.AwaitLog(b.T, c.LogPath, "0\n")
}

func testOOM(b *bench) {
	c := b.container("eat")
	c.MemoryBytes = 32 << 20
	b.start(c)
	if exit := b.wait(c.ID); !exit.OOMKilled || exit.Code != 137 {
		b.Errorf("exit %+v, want it killed for want of memory", exit)
	}
	seen, err := b.find(b.Context(), c.ID)
	if err != nil || seen.Exit == nil || !seen.Exit.OOMKilled {
		b.Errorf("listed as %+v, %v; want it killed for want of memory", seen, err)
	}
}

// testOOMOfChild has a child killed, after which the process ends by itself.
func testOOMOfChild(b *bench) {
	c := b.container("breed")
	c.MemoryBytes = 32 << 20
	b.start(c)
	if exit := b.wait(c.ID); !exit.OOMKilled || exit.Code != 3 {
		b.Errorf("exit %+v, want 3, and that a process of it was killed for want of memory", exit)
	}
}

func testKillUnderLimit(b *bench) {
	c := b.container("deaf")
	c.MemoryBytes = 32 << 20
	b.start(c)
	b.must(b.Signal(b.Context(), c.ID, syscall.SIGKILL))
	if exit := b.wait(c.ID); exit.OOMKilled || exit.Code != 137 {
		b.Errorf("exit %+v, want 137 and not for want of memory", exit)
	}
}
