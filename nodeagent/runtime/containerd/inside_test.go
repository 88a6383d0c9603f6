package containerd_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd"
	"github.com/escher-sched/escher/nodeagent/runtime/runtimetest"
	"github.com/escher-sched/escher/types"
)

func insideTests() map[string]func(*bench) {
	return map[string]func(*bench){
		"LimitsAreInTheCgroup": testLimits,
		"OOMScore":             testOOMScore,
		"OutOfMemoryIsNamed":   testOOM,
		"OutOfMemoryOfAChild":  testOOMOfChild,
		"KillIsNotOutOfMemory": testKillUnderLimit,
		"LogsOutliveTheAgent":  testLogsOutliveTheAgent,
		"LogsOfBothStreams":    testLogsOfBothStreams,
		"LogsAreRotated":       testLogsAreRotated,
		"UserDirEnv":           testUserDirEnv,
		"BadUser":              testBadUser,
		"ImageEntrypoint":      testEntrypoint,
		"PrivilegesAreFew":     testPrivileges,
		"HostNetwork":          testHostNetwork,
		"Mounts":               testMounts,
		"MountOfAFile":         testMountFile,
		"BadMount":             testBadMount,
		"Devices":              testDevices,
		"DevicesAreApart":      testDevicesApart,
		"UnknownDevice":        testUnknownDevice,
	}
}

func testLogsOfBothStreams(b *bench) {
	c := b.container("print", "hello & = %20 world")
	got := b.output(c, 0)
	if !strings.Contains(got, "hello & = %20 world\n") || !strings.Contains(got, "warning: hello") {
		b.Errorf("log is %q", got)
	}
}

func testLogsOutliveTheAgent(b *bench) {
	agent, err := containerd.New(b.host.Config(b.cluster, "n1"))
	b.must(err)
	c := b.container("block", "hello")
	_, err = agent.Start(b.Context(), c)
	b.must(err)
	b.must(agent.Close())
	runtimetest.AwaitLog(b.T, c.LogPath, "hello\n")
	b.must(b.Remove(b.Context(), c.ID))
	runtimetest.AwaitLog(b.T, c.LogPath, "hello\n") // Logs stay.
}

// testLogsAreRotated makes a few containers write two lines each. A logger that reads both at once
// also writes them at once; others begin a second file.
func testLogsAreRotated(b *bench) {
	conf := b.host.Config(b.cluster, "n1")
	conf.LogMaxBytes = 8
	r := b.host.OpenWith(b.T, conf)
	for range 5 {
		c := b.container("print", "12345678")
		_, err := r.Start(b.Context(), c)
		b.must(err)
		b.wait(c.ID)
		b.must(b.Remove(b.Context(), c.ID))
		last := b.read(c.LogPath)
		before, err := os.ReadFile(tasklog.Previous(c.LogPath))
		if both := last + string(before); !strings.Contains(both, "warning") || !strings.HasPrefix(both, "12345678") && !strings.Contains(both, "\n12345678") {
			b.Errorf("logs are %q, want both lines", both)
		}
		if err == nil {
			return
		}
	}
	b.Errorf("no log has a second file")
}

func testUserDirEnv(b *bench) {
	c := b.container("id")
	c.User, c.Dir, c.Env = "1000:100", "/tmp", []string{"TEST=a b"}
	if got, want := b.output(c, 0), "uid=1000 gid=100 dir=/tmp TEST=a b\n"; got != want {
		b.Errorf("got %q, want %q", got, want)
	}
}

func testBadUser(b *bench) {
	c := b.container("id")
	c.User = "nobody-there"
	b.wants(b.Start(b.Context(), c), types.Invalid)
}

func testEntrypoint(b *bench) {
	c := b.container()
	c.Command = nil
	b.output(c, 64) // The program without a verb.
}

func testPrivileges(b *bench) {
	status := b.output(b.container("cat", "/proc/self/status"), 0)
	for _, want := range []string{"NoNewPrivs:\t1", "Seccomp:\t2", "CapEff:\t00000000000404fb"} {
		if !strings.Contains(status, want) {
			b.Errorf("status is %s, want %q", status, want)
		}
	}
}

func testHostNetwork(b *bench) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "reached")
	}))
	defer server.Close()
	if got := b.output(b.container("get", server.URL), 0); got != "reached" {
		b.Errorf("got %q from the host, want it reached", got)
	}
}

func testMounts(b *bench) {
	dir := b.TempDir()
	c := b.container("append", "/data/file")
	c.Mounts = []nodeagent.Mount{{Source: dir, Target: "/data"}}
	b.output(c, 0)
	if got := b.read(filepath.Join(dir, "file")); got != "ran\n" {
		b.Errorf("file is %q, want a line", got)
	}
	c = b.container("append", "/data/file")
	c.Mounts = []nodeagent.Mount{{Source: dir, Target: "/data", ReadOnly: true}}
	if got := b.output(c, 1); !strings.Contains(got, "read-only") {
		b.Errorf("log is %q, want it refused", got)
	}
}

// testMountFile mounts a file, and a directory with another mount in it.
func testMountFile(b *bench) {
	dir := b.TempDir()
	file, below := filepath.Join(dir, "file"), filepath.Join(dir, "tree", "below")
	b.must(os.WriteFile(file, []byte("from the host\n"), 0o600))
	b.must(os.MkdirAll(below, 0o700))
	b.must(unix.Mount("tmpfs", below, "tmpfs", 0, "size=1m"))
	b.Cleanup(func() { b.must(unix.Unmount(below, 0)) })
	mounts := []nodeagent.Mount{
		{Source: file, Target: "/etc/greeting", ReadOnly: true},
		{Source: filepath.Join(dir, "tree"), Target: "/tree", ReadOnly: true},
	}
	c := b.container("cat", "/etc/greeting")
	c.Mounts = mounts
	if got := b.output(c, 0); got != "from the host\n" {
		b.Errorf("file has %q", got)
	}
	for _, path := range []string{"/etc/greeting", "/tree/new", "/tree/below/new"} {
		c := b.container("append", path)
		c.Mounts = mounts
		if got := b.output(c, 1); !strings.Contains(got, "read-only") {
			b.Errorf("%s: log is %q, want it refused", path, got)
		}
	}
	c = b.container("append", "/tree/below/new")
	c.Mounts = []nodeagent.Mount{{Source: filepath.Join(dir, "tree"), Target: "/tree"}}
	b.output(c, 0)
	if got := b.read(filepath.Join(below, "new")); got != "ran\n" {
		b.Errorf("file has %q, want a line", got)
	}
}

func testBadMount(b *bench) {
	c := b.container("exit", "0")
	c.Mounts = []nodeagent.Mount{{Source: "/there/is/none", Target: "/data"}}
	b.wants(b.Start(b.Context(), c), types.Invalid)
	c.Mounts = []nodeagent.Mount{{Source: "/tmp", Target: "data"}}
	b.wants(b.Start(b.Context(), c), types.Invalid)
}

// cdiSpec describes two devices; the verb is the directory of their nodes.
const cdiSpec = `cdiVersion: "0.5.0"
kind: escher.test/fake
devices:
- name: "0"
  containerEdits:
    env: [FAKE=0]
    deviceNodes: [{path: /dev/fake0, hostPath: %[1]s/fake0}]
- name: "1"
  containerEdits:
    deviceNodes: [{path: /dev/fake1, hostPath: %[1]s/fake1}]
`

// devices makes two device nodes, copies of /dev/zero, and returns a directory with their
// specification for a runtime.
func (b *bench) devices() string {
	b.Helper()
	dir := b.TempDir()
	for _, name := range []string{"fake0", "fake1"} {
		b.must(unix.Mknod(filepath.Join(dir, name), unix.S_IFCHR|0o600, int(unix.Mkdev(1, 5))))
	}
	b.must(os.WriteFile(filepath.Join(dir, "fake.yaml"), fmt.Appendf(nil, cdiSpec, dir), 0o600))
	return dir
}

func testDevices(b *bench) {
	conf := b.host.Config(b.cluster, "n1")
	conf.CDIDirs = []string{b.devices()}
	b.Runtime = b.host.OpenWith(b.T, conf)
	c := b.container("ls", "/dev")
	c.Devices = []string{"escher.test/fake=1"}
	got := b.output(c, 0)
	if !strings.Contains(got, "/dev/fake1\n") || strings.Contains(got, "/dev/fake0\n") {
		b.Errorf("/dev holds %q, want the second device alone", got)
	}
	c = b.container("open", "/dev/fake1")
	c.Devices = []string{"escher.test/fake=1"}
	b.output(c, 0)
	if got := b.output(b.container("ls", "/dev"), 0); strings.Contains(got, "fake") {
		b.Errorf("/dev holds %q without devices, want none", got)
	}
}

// testDevicesApart has two containers with a device each. A container cannot open a device that it
// was not given, wherever it finds the file: without a driver, the error tells whether access is
// allowed.
func testDevicesApart(b *bench) {
	dir := b.TempDir()
	for minor, name := range []string{"fake0", "fake1"} {
		b.must(unix.Mknod(filepath.Join(dir, name), unix.S_IFCHR|0o666, int(unix.Mkdev(60, uint32(minor)))))
	}
	b.must(os.WriteFile(filepath.Join(dir, "fake.yaml"), fmt.Appendf(nil, cdiSpec, dir), 0o600))
	conf := b.host.Config(b.cluster, "n1")
	conf.CDIDirs = []string{dir}
	b.Runtime = b.host.OpenWith(b.T, conf)
	const allowed, denied = "no such device or address", "operation not permitted"
	for name, wants := range map[string][2]string{"0": {allowed, denied}, "1": {denied, allowed}} {
		for other, want := range wants {
			c := b.container("open", fmt.Sprintf("/host/fake%d", other))
			c.ID += fmt.Sprint("-", name, other)
			c.Devices = []string{"escher.test/fake=" + name}
			c.Mounts = []nodeagent.Mount{{Source: dir, Target: "/host"}}
			if got := b.output(c, 1); !strings.Contains(got, want) {
				b.Errorf("with device %s, opening device %d says %q, want %q", name, other, got, want)
			}
		}
	}
	first, second := b.container("block"), b.container("block")
	first.ID, second.ID = first.ID+"-first", second.ID+"-second"
	first.Devices, second.Devices = []string{"escher.test/fake=0"}, []string{"escher.test/fake=1"}
	b.start(first)
	b.start(second)
	for _, c := range []nodeagent.Container{first, second} {
		seen, err := b.find(b.Context(), c.ID)
		b.must(err)
		if !slices.Equal(seen.Devices, c.Devices) {
			b.Errorf("%s is listed with devices %q, want %q", c.ID, seen.Devices, c.Devices)
		}
		root, err := b.Root(b.Context(), c.ID)
		b.must(err)
		for _, name := range []string{"fake0", "fake1"} {
			_, err := os.Lstat(filepath.Join(root, "dev", name))
			if is := err == nil; is != strings.HasSuffix(c.Devices[0], name[len("fake"):]) {
				b.Errorf("%s, which has %s, sees /dev/%s: %v", c.ID, c.Devices[0], name, is)
			}
		}
		b.must(b.Remove(b.Context(), c.ID))
	}
}

func testUnknownDevice(b *bench) {
	conf := b.host.Config(b.cluster, "n1")
	conf.CDIDirs = []string{b.devices()}
	b.Runtime = b.host.OpenWith(b.T, conf)
	c := b.container("exit", "0")
	c.Devices = []string{"escher.test/fake=9"}
	b.wants(b.Start(b.Context(), c), types.Unavailable)
	c.Devices = nil
	b.output(c, 0)
}
