package doctor

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/server/etcdtest"
	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/fence/watchdog"
	"github.com/escher-sched/escher/types"
)

func files(texts map[string]string) host {
	m := make(fstest.MapFS)
	for path, text := range texts {
		m[path] = &fstest.MapFile{Data: []byte(text)}
	}
	return host{m}
}

// TestCgroups finds what prevents the start of an agent, like the agent itself.
func TestCgroups(t *testing.T) {
	v2 := map[string]string{"cgroup.controllers": "cpu memory pids\n", "cgroup.subtree_control": "\n", "cgroup.procs": "1\n", "system.slice/memory.swap.max": "max\n"}
	nested, mute := maps.Clone(v2), maps.Clone(v2)
	nested["cgroup.type"] = "domain\n"
	delete(mute, "system.slice/memory.swap.max")
	for name, c := range map[string]struct {
		files map[string]string
		swap  bool
		says  string // empty means nothing
	}{
		"none":                   {map[string]string{"x": ""}, false, "no control groups"},
		"v2":                     {v2, true, ""},
		"v2 without swap":        {mute, false, ""},
		"v2, processes below it": {nested, true, "cannot be while processes are in that group"},
		"v1": {map[string]string{
			"cpu,cpuacct/cgroup.procs": "", "memory/cgroup.procs": "", "pids/cgroup.procs": "", "devices/cgroup.procs": "", "freezer/cgroup.procs": "",
			"memory/memory.memsw.limit_in_bytes": "9\n",
		}, true, ""},
	} {
		root := t.TempDir()
		for path, text := range c.files {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		got := gatherCgroups(host{os.DirFS("/")}, root, filepath.Join(root, "run"))
		found := checkCgroups(Facts{Cgroups: got})
		if got.Swap != c.swap || len(found) != 1 || (c.says == "") != (found[0].Status == OK) || !strings.Contains(found[0].Message, c.says) {
			t.Errorf("%s: %+v, %+v", name, got, found)
		}
	}
}

// TestInit finds each init program for containers.
func TestInit(t *testing.T) {
	if got := findInit(files(nil)); got != "" {
		t.Errorf("found %q", got)
	}
	for _, path := range []string{"/usr/bin/tini-static", "/usr/bin/docker-init", "/usr/libexec/podman/catatonit"} {
		if got := findInit(files(map[string]string{path[1:]: ""})); got != path {
			t.Errorf("found %q, want %s", got, path)
		}
	}
}

// TestStateThatHangs tests a state directory whose files cannot be read.
func TestStateThatHangs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, watchdog.SessionFile)
	if err := unix.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // release remaining readers
		if f, err := os.OpenFile(pipe, os.O_RDWR, 0); err == nil {
			f.Close()
		}
	})
	looked := make(chan Agent)
	go func() {
		a, _ := gatherState(t.Context(), time.Millisecond, host{os.DirFS("/")}, dir)
		looked <- a
	}()
	select {
	case a := <-looked:
		if a.Running || a.Lease != 0 {
			t.Errorf("%+v", a)
		}
	case <-time.After(time.Minute):
		t.Error("it never returns")
	}
}

// TestReadFiles reads files of the kernel and of services.
func TestReadFiles(t *testing.T) {
	h := files(map[string]string{
		"proc/net/tcp":     "  sl  local_address rem_address   st\n   0: 0100007F:1CFD 00000000:0000 0A 0\n   1: 0100007F:1CFE 0100007F:0001 01 0\n",
		"proc/net/tcp6":    "  sl\n   0: 00000000000000000000000000000000:0016 00000000000000000000000000000000:0000 0A 0\n",
		"proc/self/mounts": "/dev/sda / ext4 rw 0 0\ntmpfs /mnt/a\\040b tmpfs rw,noexec 0 0\nserver:/x /srv nfs4 rw 0 0\n",
	})
	if got := listening(h); !slices.Equal(got, []int{22, 7421}) {
		t.Errorf("listening %v", got)
	}
	for path, want := range map[string]string{"/var": "ext4", "/srv/x": "nfs4", "/srvx": "ext4", "/mnt/a b/c": "tmpfs"} {
		if got := typeOf(h, path); got != want {
			t.Errorf("%s is on %s, want %s", path, got, want)
		}
	}
	if got := ranges("7421,20000-20999"); !slices.Equal(got, []nodeagent.PortRange{{First: 7421, Last: 7421}, {First: 20000, Last: 20999}}) {
		t.Errorf("ranges %v", got)
	}
	if got := killMode([]string{"[Service]", " KillMode=process "}); got != "process" {
		t.Errorf("kill mode %q", got)
	}
	if got := killMode([]string{"[Service]"}); got != "control-group" {
		t.Errorf("kill mode %q by default", got)
	}
	for text, want := range map[string][2]int{"6.18.44-fc": {6, 18}, "v2.1.3": {2, 1}, "1.6.20~ds1": {1, 6}, "1.1-rc1": {1, 1}, "5.10+": {5, 10}} {
		if major, minor, ok := version(text); !ok || major != want[0] || minor != want[1] {
			t.Errorf("version %s: %d.%d %t", text, major, minor, ok)
		}
	}
}

// TestGPUFiles counts cards on the bus, and finds the driver.
func TestGPUFiles(t *testing.T) {
	h := files(map[string]string{
		"sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n", "sys/bus/pci/devices/0000:01:00.0/class": "0x030200\n",
		"sys/bus/pci/devices/0000:01:00.1/vendor": "0x10de\n", "sys/bus/pci/devices/0000:01:00.1/class": "0x040300\n", // its sound device
		"sys/bus/pci/devices/0000:02:00.0/vendor": "0x8086\n", "sys/bus/pci/devices/0000:02:00.0/class": "0x030000\n",
		"proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.07  Sat Feb 17 22:55:48 UTC 2024\n",
		"dev/nvidiactl":              "", "run/systemd/system/x": "", "dev/char/195:255": "",
	})
	// A program that fails like NVIDIA's after an upgrade of its driver.
	bin := t.TempDir()
	script := "#!/bin/sh\necho 'Failed to initialize NVML: Driver/library version mismatch'\nexit 18\n"
	if err := os.WriteFile(filepath.Join(bin, "nvidia-smi"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	g := gatherGPU(t.Context(), h, Source{CDIDirs: []string{t.TempDir()}, SMI: filepath.Join(bin, "nvidia-smi")})
	if g.Cards != 1 || g.Driver != "535.161.07" || !g.Nodes || !g.Systemd || !g.CharLinks || g.SMIError != "Failed to initialize NVML: Driver/library version mismatch" || g.Hangs {
		t.Errorf("%+v", g)
	}
}

// TestHangs tests a program that does not answer, and one whose child process does not end.
func TestHangs(t *testing.T) {
	begin := time.Now()
	for _, script := range []string{"exec sleep 100", "sleep 100 & wait"} {
		if _, err := ask(t.Context(), 200*time.Millisecond, "/bin/sh", "-c", script); !errors.Is(err, errHangs) {
			t.Errorf("%s: %v", script, err)
		}
	}
	forever := make(chan int)
	defer close(forever)
	if _, ok := within(t.Context(), 10*time.Millisecond, func(context.Context) int { return <-forever }); ok {
		t.Error("what hangs has answered")
	}
	if took := time.Since(begin); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
}

// TestCDI finds missing device nodes and unreadable specifications.
func TestCDI(t *testing.T) {
	dir := t.TempDir()
	spec := `{"cdiVersion":"0.6.0","kind":"nvidia.com/gpu","devices":[{"name":"0","containerEdits":{"deviceNodes":[{"path":"/dev/null"},{"path":"/dev/nvidia0","hostPath":"/dev/none0"}]}},{"name":"1","containerEdits":{"deviceNodes":[{"path":"/dev/none0"}]}}]}`
	for name, text := range map[string]string{"nvidia.json": spec, "broken.json": "{"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	specs, wrong := readCDI([]string{dir})
	if len(specs) != 1 || specs[0].Kind != "nvidia.com/gpu" || specs[0].Devices != 2 || !slices.Equal(specs[0].Missing, []string{"/dev/none0"}) {
		t.Errorf("%+v", specs)
	}
	if len(wrong) != 1 {
		t.Errorf("cannot be read: %v", wrong)
	}
}

// TestLocked sees the lock of an agent without trying it.
func TestLocked(t *testing.T) {
	dir := t.TempDir()
	h := host{os.DirFS("/")}
	if a := gatherAgent(h, dir); a.Running {
		t.Errorf("nothing is there: %+v", a)
	}
	f, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("4711\n"); err != nil {
		t.Fatal(err)
	}
	if a := gatherAgent(h, dir); a.Running {
		t.Errorf("no program has the lock: %+v", a)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if a := gatherAgent(h, dir); !a.Running || a.PID != "4711" {
		t.Errorf("it is locked: %+v", a)
	}
}

// TestDir examines directories of this machine, and leaves nothing behind.
func TestDir(t *testing.T) {
	dir := t.TempDir()
	h := host{os.DirFS("/")}
	d := gatherDir(t.Context(), h, filepath.Join(dir, "a", "b"), true)
	if d.At != dir || d.Error != "" || d.Size == 0 || d.Type == "" {
		t.Errorf("%+v", d)
	}
	if os.Geteuid() == 0 && d.Fsync == 0 {
		t.Errorf("its disk was not tried: %+v", d)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, make([]byte, 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	if d := gatherDir(t.Context(), h, file, true); !d.NotDir {
		t.Errorf("a file: %+v", d)
	}
	if sum, cut := sizeOf(dir); sum != 1000 || cut {
		t.Errorf("%d bytes, cut %t", sum, cut)
	}
}

// TestGather gathers facts of this machine, and of a real etcd without a server.
func TestGather(t *testing.T) {
	etcd := etcdtest.Start(t, etcdtest.WithMaxTxnOps(128))
	dir := t.TempDir()
	plan := Plan{Node: "n1", StateDir: dir, SocketDir: dir, Listen: "127.0.0.1:0", Address: "127.0.0.1:1", Ports: nodeagent.PortRange{First: 1, Last: 2}}
	src := Source{
		Etcd:  etcdstore.Address{Endpoints: []string{etcd.Endpoint, "http://127.0.0.1:1"}},
		Usage: func(context.Context, *etcdstore.Store) (int64, int64, bool, error) { return 1, 2, false, nil },
	}
	f := Gather(t.Context(), plan, src)
	if f.Release == "" || len(f.Cgroups.Controllers) == 0 || f.BootID == "" || !f.BootClock || f.Limits.PIDs == 0 || f.StateDir.Size == 0 || f.Network.Hostname == "" {
		t.Errorf("%+v", f)
	}
	if f.Etcd == nil || f.Etcd.Endpoints[0].Error != "" || f.Etcd.Endpoints[1].Error == "" {
		t.Errorf("etcd: %+v", f.Etcd)
	}
	if f.Cluster == nil || f.Cluster.ID != "" || f.Cluster.Ops != 128 || f.Cluster.Quota != 2 {
		t.Fatalf("cluster: %+v", f.Cluster)
	}
	if worst := Worst(Diagnose(f)); worst != Problem {
		t.Errorf("without a server it is %s", worst)
	}
}

// TestLookInto reads the state of a cluster.
func TestLookInto(t *testing.T) {
	s := memstore.New()
	lease, err := s.GrantLease(t.Context(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	change := controlplane.NewChange(controlplane.NewBatch())
	change.Put(controlplane.ClusterKey(), &types.Cluster{ID: "c"})
	change.Put(controlplane.SchedulerKey("s1"), &types.Leader{Holder: "s1", Version: "v2"})
	change.Put(controlplane.NodeKey("n1"), &types.Node{Version: "v1"})
	change.Put(controlplane.NodeKey("n2"), &types.Node{Version: "v2"})
	change.PutOn(controlplane.AliveKey("n1"), &types.Alive{}, lease)
	change.Put(controlplane.AliveKey("n11"), &types.Alive{})
	change.Put(controlplane.BindingKey("n1", "ns", "t", 3), &types.Binding{})
	change.Put(controlplane.BindingKey("n2", "ns", "u", 1), &types.Binding{})
	if _, err := s.Commit(t.Context(), change.Txn()); err != nil {
		t.Fatal(err)
	}
	c, err := lookInto(t.Context(), Plan{Node: "n1"}, s)
	if err != nil {
		t.Fatal(err)
	}
	if c.ID != "c" || c.Servers["s1"] != "v2" || c.Version != "v1" || c.Versions["v2"] != 1 || c.Lease != int64(lease) || len(c.Bound) != 1 || !c.Bound["ns/t/3"] {
		t.Errorf("%+v", c)
	}
}
