package containerd_test

import (
	"context"
	"syscall"
	"time"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/nodeagent/runtime/runtimetest"
	"github.com/escher-sched/escher/types"
)

func usageTests() map[string]func(*bench) {
	return map[string]func(*bench){
		"UsageOfCPU":    testUsageOfCPU,
		"UsageOfMemory": testUsageOfMemory,
		"UsageOfDisks":  testUsageOfDisks,
		"UsageIsNew":    testUsageIsNew,
	}
}

// untilUsed returns the usage of a container once enough reports true.
func (b *bench) untilUsed(c nodeagent.Container, enough func(cgroup.Stat) bool) cgroup.Stat {
	b.Helper()
	return runtimetest.Await(b.T, func(ctx context.Context) (cgroup.Stat, error) {
		s, err := b.Usage(ctx, c.ID)
		if err == nil && !enough(s) {
			err = types.Errorf(types.Unavailable, "it uses only %+v", s)
		}
		return s, err
	})
}

// testUsageOfCPU runs a busy loop, limited to a tenth of a core.
func testUsageOfCPU(b *bench) {
	c := b.container("burn")
	c.MilliCPU = 100
	b.start(c)
	s := b.untilUsed(c, func(s cgroup.Stat) bool {
		return s.CPU != nil && s.CPU.Used > 200*time.Millisecond && s.CPU.Throttled > 0
	})
	if s.Processes == nil || *s.Processes < 1 {
		b.Errorf("it uses %+v, want its processes", s)
	}
	b.must(b.Signal(b.ctx(), c.ID, syscall.SIGKILL))
	exit, err := b.Wait(b.ctx(), c.ID)
	b.must(err)
	if exit.CPU < s.CPU.Used || exit.CPU > time.Minute {
		b.Errorf("its exit says %s, want at least %s", exit.CPU, s.CPU.Used)
	}
}

func testUsageOfMemory(b *bench) {
	c := b.container("hold", "24")
	c.MemoryBytes = 64 << 20
	b.start(c)
	s := b.untilUsed(c, func(s cgroup.Stat) bool { return s.Memory != nil && s.Memory.RSS >= 24<<20 })
	if m := s.Memory; m.Limit != 64<<20 || m.WorkingSet < 24<<20 || m.Peak < m.WorkingSet || m.Peak > m.Limit || m.OOMKills != 0 {
		b.Errorf("it uses %+v, want 24 MiB of 64", *m)
	}
	b.must(b.Signal(b.ctx(), c.ID, syscall.SIGKILL))
	exit, err := b.Wait(b.ctx(), c.ID)
	b.must(err)
	// What it took after it was last read counts, too.
	if exit.Memory < 24<<20 || exit.Memory > 40<<20 {
		b.Errorf("its exit says %d bytes, want 24 MiB", exit.Memory)
	}
}

// testUsageOfDisks writes without the page cache, so that v1 accounts the writes.
func testUsageOfDisks(b *bench) {
	dir := b.TempDir()
	c := b.container("write", "/data", "8")
	c.Mounts = []nodeagent.Mount{{Source: dir, Target: "/data"}}
	b.start(c)
	s := b.untilUsed(c, func(s cgroup.Stat) bool { return s.IO != nil && s.IO.WriteBytes >= 8<<20 })
	// The file system itself writes a little, but not as much again: a disk counts once.
	if s.IO.WriteBytes > 12<<20 {
		b.Errorf("it wrote %+v, want 8 MiB", *s.IO)
	}
}

// testUsageIsNew tests that a restart in place starts counting at 0.
func testUsageIsNew(b *bench) {
	c := b.container("burn")
	b.start(c)
	before := b.untilUsed(c, func(s cgroup.Stat) bool { return s.CPU != nil && s.CPU.Used > 500*time.Millisecond })
	b.must(b.Remove(b.ctx(), c.ID))
	_, err := b.Usage(b.ctx(), c.ID)
	b.wants(err, types.NotFound)
	c.Restart, c.Command[1] = 1, "block"
	b.start(c)
	if s, err := b.Usage(b.ctx(), c.ID); err != nil || s.CPU.Used >= before.CPU.Used {
		b.Errorf("it has used %+v, %v; before it was %s", s.CPU, err, before.CPU.Used)
	}
}
