package containerd_test

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

func memoryTests() map[string]func(*bench) {
	return map[string]func(*bench){
		"SharedMemory":      testSharedMemory,
		"Tmpfs":             testTmpfs,
		"TmpfsIsItsMemory":  testTmpfsIsItsMemory,
		"Ulimits":           testUlimits,
		"UlimitBeyondLinux": testUlimitBeyondLinux,
		"UsualUlimits":      testUsualUlimits,
	}
}

// testSharedMemory tests the size, and that a restart and another process see the same one.
func testSharedMemory(b *bench) {
	for bytes, want := range map[int64]string{0: "65536", 1 << 30: "1048576", 8 << 20: "8192"} {
		c := b.container("df", types.SharedMemory)
		c.ShmBytes = bytes
		if got := strings.Fields(b.output(c, 0)); len(got) != 2 || got[0] != want {
			b.Errorf("shared memory of %d bytes: %q, want %s KiB", bytes, got, want)
		}
	}
}

func testTmpfs(b *bench) {
	dir := b.TempDir()
	c := b.container("df", "/data/memory")
	c.ReadOnlyRoot = true // the target is not in the image
	c.Mounts = []nodeagent.Mount{{Source: dir, Target: "/data"}, {Target: "/data/memory", TmpfsBytes: 3 << 20}}
	if got, want := b.output(c, 0), "3072 nosuid,nodev,noexec\n"; got != want {
		b.Errorf("got %q, want %q", got, want)
	}
	c = b.container("write", "/memory", "4")
	c.Mounts = []nodeagent.Mount{{Target: "/memory", TmpfsBytes: 3 << 20}}
	if got := b.output(c, 1); !strings.Contains(got, "no space left") {
		b.Errorf("4 MiB in 3: %q", got)
	}
}

// testTmpfsIsItsMemory tests that content counts as memory of the container.
func testTmpfsIsItsMemory(b *bench) {
	c := b.container("write", "/memory", "64")
	c.MemoryBytes = 32 << 20
	c.Mounts = []nodeagent.Mount{{Target: "/memory", TmpfsBytes: 128 << 20}}
	b.start(c)
	if exit := b.wait(c.ID); !exit.OOMKilled {
		b.Errorf("exit %+v, want it killed for lack of memory", exit)
	}
}

func testUlimits(b *bench) {
	c := b.container("rlimits")
	c.Ulimits = []types.Ulimit{{Name: "memlock", Soft: 4096, Hard: 8192}, {Name: "nofile", Soft: 99, Hard: 99}}
	if got, want := b.output(c, 0), "memlock 4096 8192\nnofile 99 99\n"; got != want {
		b.Errorf("got %q, want %q", got, want)
	}
	c = b.container("rlimits")
	c.Ulimits = []types.Ulimit{{Name: "memlock", Soft: -1, Hard: -1}}
	// Only with the capability to raise limits can this machine, and its containerd, have no limit.
	if unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}) != nil {
		testRefusedUlimit(b, c)
		return
	}
	if got := b.output(c, 0); !strings.HasPrefix(got, "memlock -1 -1\n") {
		b.Errorf("got %q, want no limit of locked memory", got)
	}
}

func testRefusedUlimit(b *bench, c nodeagent.Container) {
	err := b.Start(b.ctx(), c)
	b.wants(err, types.Invalid)
	if err == nil || !strings.Contains(err.Error(), "setting ulimit "+c.Ulimits[0].Name+": operation not permitted; the node allows no more: ask for a lower ulimit") {
		b.Errorf("got %v, want the remedy", err)
	}
}

func testUsualUlimits(b *bench) {
	var files unix.Rlimit
	b.must(unix.Getrlimit(unix.RLIMIT_NOFILE, &files))
	if got := b.output(b.container("rlimits"), 0); strings.Contains(got, "nofile 1024 1024") && files.Max != 1024 {
		b.Errorf("got %q, want those of the daemon", got)
	}
}

func testUlimitBeyondLinux(b *bench) {
	c := b.container("rlimits")
	c.Ulimits = []types.Ulimit{{Name: "nofile", Soft: 1 << 40, Hard: 1 << 40}}
	testRefusedUlimit(b, c)
}
