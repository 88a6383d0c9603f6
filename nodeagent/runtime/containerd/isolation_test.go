package containerd_test

import (
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

func isolationTests() map[string]func(*bench) {
	return map[string]func(*bench){
		"Rights":       testRights,
		"Tries":        testTries,
		"ReadOnlyRoot": testReadOnlyRoot,
		"TaskSocket":   testTaskSocket,
		"UsualDevices": testUsualDevices,
		"Others":       testOthers,
		"Privileged":   testPrivileged,
		"Shares":       testShares,
		"ForkBomb":     testForkBomb,
	}
}

// rightsOf runs a container and returns the rights of its process by their names in
// /proc/<pid>/status.
func (b *bench) rightsOf(c nodeagent.Container) map[string]string {
	b.Helper()
	got := make(map[string]string)
	c.Command = append(c.Command[:1:1], "status")
	for line := range strings.Lines(b.output(c, 0)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		got[name] = value
	}
	return got
}

// mask returns a set of capabilities in the kernel's format. Their numbers are those of
// linux/capability.h.
func (b *bench) mask(names ...string) string {
	b.Helper()
	numbers := map[string]int{
		"CHOWN": unix.CAP_CHOWN, "DAC_OVERRIDE": unix.CAP_DAC_OVERRIDE, "FOWNER": unix.CAP_FOWNER, "FSETID": unix.CAP_FSETID,
		"KILL": unix.CAP_KILL, "SETGID": unix.CAP_SETGID, "SETUID": unix.CAP_SETUID, "NET_BIND_SERVICE": unix.CAP_NET_BIND_SERVICE,
		"SYS_CHROOT": unix.CAP_SYS_CHROOT, "NET_ADMIN": unix.CAP_NET_ADMIN, "AUDIT_WRITE": unix.CAP_AUDIT_WRITE,
	}
	var mask uint64
	for _, name := range names {
		n, known := numbers[name]
		if !known {
			b.Fatalf("the number of capability %s is not in the test", name)
		}
		mask |= 1 << n
	}
	return fmt.Sprintf("%016x", mask)
}

func testRights(b *bench) {
	usual := []string{"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "NET_BIND_SERVICE", "SETGID", "SETUID", "SYS_CHROOT"}
	for name, test := range map[string]struct {
		set                  func(*nodeagent.Container)
		bound, effective, am []string
	}{
		"usual":        {func(*nodeagent.Container) {}, usual, usual, nil},
		"added":        {func(c *nodeagent.Container) { c.CapAdd = []string{"NET_ADMIN"} }, append(usual, "NET_ADMIN"), append(usual, "NET_ADMIN"), nil},
		"none":         {func(c *nodeagent.Container) { c.CapDrop = []string{types.AllCapabilities} }, nil, nil, nil},
		"one dropped":  {func(c *nodeagent.Container) { c.CapDrop = []string{"CHOWN"} }, usual[1:], usual[1:], nil},
		"one alone":    {func(c *nodeagent.Container) { c.CapDrop, c.CapAdd = []string{"ALL"}, []string{"KILL"} }, []string{"KILL"}, []string{"KILL"}, nil},
		"user":         {func(c *nodeagent.Container) { c.User = "1000:1000" }, usual, nil, nil},
		"user, added":  {func(c *nodeagent.Container) { c.User, c.CapAdd = "1000:1000", []string{"AUDIT_WRITE"} }, append(usual, "AUDIT_WRITE"), []string{"AUDIT_WRITE"}, []string{"AUDIT_WRITE"}},
		"user, nobody": {func(c *nodeagent.Container) { c.User, c.CapDrop = "1000", []string{"ALL"} }, nil, nil, nil},
	} {
		c := b.container()
		test.set(&c)
		got := b.rightsOf(c)
		for field, want := range map[string]string{
			"CapBnd": b.mask(test.bound...), "CapEff": b.mask(test.effective...), "CapPrm": b.mask(test.effective...),
			"CapAmb": b.mask(test.am...), "CapInh": b.mask(test.am...), "NoNewPrivs": "1", "Seccomp": "2",
		} {
			if got[field] != want {
				b.Errorf("%s: %s is %q, want %s", name, field, got[field], want)
			}
		}
	}
}

// tries runs a container that tries actions, and reports results that differ from want.
func (b *bench) tries(c nodeagent.Container, want map[string]string) {
	b.Helper()
	c.Command = append(c.Command[:1:1], "try")
	// In this order: a read comes after the mknod of its file.
	c.Command = append(c.Command, slices.Sorted(maps.Keys(want))...)
	for line := range strings.Lines(b.output(c, 0)) {
		what, got, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if !slices.Contains(strings.Split(want[what], " or "), got) {
			b.Errorf("%s: %s, want %s", what, got, want[what])
		}
		delete(want, what)
	}
	for what := range want {
		b.Errorf("nothing is said of %s", what)
	}
}

// testTries makes root of a container try ways out of it, and ordinary actions of programs.
func testTries(b *bench) {
	b.tries(b.container(), map[string]string{
		"mount": "EPERM", "keyctl": "EPERM", "userns": "EPERM", "bpf": "EPERM", "raw": "EPERM", "mknod=/disk": "EPERM",
		"write=/proc/sys/kernel/core_pattern": "EROFS", "write=/proc/sysrq-trigger": "EROFS or ENOENT",
		"write=/sys/kernel/uevent_helper": "EROFS or ENOENT", "write=/sys/fs/cgroup/x": "EROFS or ENOENT",
		"write=/file": "ok", "write=/run/file": "ok", "write=/dev/shm/file": "ok",
	})
	b.masked("/proc/keys", "/proc/timer_list", "/proc/interrupts", "/proc/kcore")
	// Without seccomp, the capabilities would allow keyctl too.
	c := b.container()
	c.CapAdd = []string{"SYS_ADMIN"}
	b.tries(c, map[string]string{"mount": "ok", "keyctl": "EPERM"})
}

// masked checks that the kernel's files about the machine are empty if they exist.
func (b *bench) masked(paths ...string) {
	b.Helper()
	paths = slices.DeleteFunc(paths, func(path string) bool {
		_, err := os.Stat(path)
		return err != nil
	})
	if text := b.output(b.container(append([]string{"cat"}, paths...)...), 0); text != "" || len(paths) == 0 {
		b.Errorf("of %q it sees %.60q", paths, text)
	}
}

// testTaskSocket makes root of a container use a socket whose directory it cannot change, mounted
// like a task's socket.
func testTaskSocket(b *bench) {
	dir, err := os.MkdirTemp("", "") // The path of a socket is short.
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "task.sock"))
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	c := b.container()
	c.Mounts = []nodeagent.Mount{{Source: dir, Target: "/run/escher", ReadOnly: true}}
	b.tries(c, map[string]string{
		"connect=/run/escher/task.sock": "ok", "write=/run/escher/file": "EROFS", "chmod=/run/escher/task.sock": "EROFS",
		"rename=/run/escher/task.sock": "EROFS", "remove=/run/escher/task.sock": "EROFS",
	})
}

func testReadOnlyRoot(b *bench) {
	scratch := b.TempDir()
	c := b.container()
	c.ReadOnlyRoot = true
	c.Mounts = []nodeagent.Mount{{Source: scratch, Target: "/scratch"}}
	b.tries(c, map[string]string{
		"write=/file": "EROFS", "write=/scratch/file": "ok", "write=/dev/shm/file": "ok", "write=/run/file": "ok",
	})
	if _, err := os.Stat(filepath.Join(scratch, "file")); err != nil {
		b.Error(err)
	}
}

// testUsualDevices looks for devices that the container was not given, and makes one.
func testUsualDevices(b *bench) {
	c := b.container("ls", "/dev")
	var names []string
	for line := range strings.Lines(b.output(c, 0)) {
		names = append(names, strings.TrimSpace(strings.TrimPrefix(line, "/dev/")))
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "core" }) // a link to a masked file, if it exists
	slices.Sort(names)
	usual := []string{"fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"}
	if !slices.Equal(names, usual) {
		b.Errorf("devices are %q, want %q", names, usual)
	}
	d := b.container()
	d.CapAdd = []string{"MKNOD", "SYS_RAWIO"}
	// Without its cgroup's list of devices, only the name would decide: ENXIO, or ok.
	b.tries(d, map[string]string{"mknod=/disk": "ok", "read=/disk": "EPERM"})
}

// testOthers looks for processes of the machine and of another container.
func testOthers(b *bench) {
	other := b.container("block")
	b.start(other)
	pids := b.cgroup(other.ID, "pids", "cgroup.procs", "cgroup.procs")
	pid, _, _ := strings.Cut(pids, "\n")
	var seen []string
	for line := range strings.Lines(b.output(b.container("ls", "/proc"), 0)) {
		name := strings.TrimSpace(strings.TrimPrefix(line, "/proc/"))
		if _, err := strconv.Atoi(name); err == nil {
			seen = append(seen, name)
		}
	}
	if !slices.Equal(seen, []string{"1"}) {
		b.Errorf("it sees processes %q, want itself alone", seen)
	}
	b.tries(b.container(), map[string]string{
		"signal=" + strconv.Itoa(os.Getpid()):           "ESRCH",
		"signal=" + pid:                                 "ESRCH",
		"read=/proc/" + pid + "/root":                   "ENOENT",
		"read=/proc/1/root/proc/" + pid + "/cwd":        "ENOENT",
		"connect=" + filepath.Join(b.host.Address):      "ENOENT",
		"connect=/proc/1/root" + b.host.Address:         "ENOENT",
		"read=" + filepath.Dir(b.host.Address):          "ENOENT",
		"read=/run/containerd/s":                        "ENOENT",
		"connect=@/containerd-shim/" + other.ID:         "ECONNREFUSED",
		"read=/proc/self/root/../../../etc/passwd":      "ENOENT",
		"read=/proc/1/cwd/../../../../run/containerd/s": "ENOENT",
	})
	b.noAbstractSockets()
}

// noAbstractSockets looks for abstract sockets of containerd and its shims, which every process of
// the host's network could reach, containers included: their names begin with "@".
func (b *bench) noAbstractSockets() {
	b.Helper()
	for line := range strings.Lines(b.read("/proc/net/unix")) {
		if name := line[strings.LastIndexByte(strings.TrimSpace(line), ' ')+1:]; strings.HasPrefix(name, "@") && strings.Contains(name, "containerd") {
			b.Errorf("the socket %s can be reached from containers", name)
		}
	}
}

func testPrivileged(b *bench) {
	c := b.container()
	c.Privileged = true
	got := b.rightsOf(c)
	all, err := os.ReadFile("/proc/self/status")
	b.must(err)
	if !strings.Contains(string(all), "CapEff:\t"+got["CapEff"]+"\n") || got["NoNewPrivs"] != "0" || got["Seccomp"] != "0" {
		b.Errorf("rights are %q, want those of this process", got)
	}
	d := b.container()
	d.Privileged = true
	b.tries(d, map[string]string{
		"mount": "ok", "keyctl": "ok", "userns": "ok", "read=/proc/sys/kernel/core_pattern": "ok",
		// Its processes, files and limits are still separate.
		"signal=" + strconv.Itoa(os.Getpid()): "ESRCH", "connect=" + b.host.Address: "ENOENT",
	})
}
