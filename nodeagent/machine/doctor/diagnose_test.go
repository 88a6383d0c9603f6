package doctor

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
)

// healthy returns facts of a healthy machine, with every fact set.
func healthy() Facts {
	now := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	valid := func() *Certificate {
		return &Certificate{NotBefore: now.Add(-time.Hour), NotAfter: now.Add(365 * 24 * time.Hour)}
	}
	return Facts{
		Now: now,
		Plan: Plan{
			Node: "gpu-1", StateDir: "/var/lib/escher", SocketDir: "/var/lib/escher/run", Containerd: "/run/containerd/containerd.sock",
			Listen: ":7421", Address: "10.0.0.5:7421", TLSCert: "c", TLSKey: "k", Ports: nodeagent.PortRange{First: 20000, Last: 20999}, Version: "v2",
		},
		Release: "6.1.0-18-amd64",
		Cgroups: cgroup.Facts{Root: "/sys/fs/cgroup", Unified: true, Controllers: []string{"cpuset", "cpu", "io", "memory", "pids"}, Swap: true},
		Swap:    true, Seccomp: []string{"kill_process", "errno", "allow"},
		Clock:  Clock{Known: true, Synchronised: true, MaxError: time.Millisecond},
		BootID: "b", BootClock: true,
		Limits:     Limits{OpenFiles: 1 << 20, AllFiles: 1 << 20, Watchers: 1024, Watches: 1 << 20, PIDs: 1 << 22},
		KillMode:   "process",
		Containerd: Containerd{Serving: "1.6.20~ds1", Binary: "/usr/bin/containerd", Version: "1.6.20", Shim: "/usr/bin/shim", Runc: "/usr/sbin/runc", RuncVersion: "1.1.5+ds1", Init: "/usr/bin/tini-static"},
		StateDir:   Dir{Path: "/var/lib/escher", At: "/var/lib/escher", Mode: 0o700, Type: "ext4", Free: 100 << 30, Size: 200 << 30, Inodes: 100, FreeInodes: 50, Fsync: time.Millisecond},
		Images:     &Dir{Path: "/var/lib/containerd", At: "/var/lib/containerd", Type: "xfs", Free: 100 << 30, Size: 200 << 30},
		Agent:      Agent{Running: true, PID: "7", Lease: 5},
		Watchdog:   Watchdog{Known: true, Running: true},
		Spaces:     []Space{{Name: "escher-c-1", Cluster: "c", Node: "gpu-1", Containers: []SpaceContainer{{Namespace: "a", Task: "t", Attempt: 1, Running: true}}}},
		Network: Network{
			Nameservers: []string{"10.0.0.1"}, Answered: true, Local: true, Remote: true,
			LocalFirst: 32768, LocalLast: 60999, Listening: []int{22, 7421, 20000}, API: valid(),
		},
		GPU: GPU{Cards: 2, Driver: "535.161", Nodes: true, SMI: "/usr/bin/nvidia-smi", Systemd: true, CharLinks: true, Specs: []CDISpec{{Path: "/etc/cdi/nvidia.yaml", Kind: "nvidia.com/gpu", Devices: 2}}},
		Etcd: &Etcd{
			Endpoints: []Endpoint{{Address: "https://10.0.0.1:2379", Took: time.Millisecond, Certificate: valid()}},
			Own:       valid(), KeyPath: "client.key", KeyMode: 0o600,
		},
		Cluster: &Cluster{
			ID: "c", Ops: 4096, InUse: 1, Quota: 100, Servers: map[string]string{"s1": "v2", "s2": ""}, Lease: 5,
			Version: "v2", Versions: map[string]int{"v2": 3}, Bound: map[string]bool{"a/t/1": true},
		},
	}
}

func TestHealthy(t *testing.T) {
	found := Diagnose(healthy())
	checks := make(map[string]bool)
	for _, x := range found {
		checks[x.Check] = true
		if x.Status != OK || x.Message == "" || !x.Remedy.IsZero() {
			t.Errorf("%+v", x)
		}
	}
	if len(checks) < 28 || Worst(found) != OK {
		t.Errorf("%d checks, %s", len(checks), Worst(found))
	}
}

// breaks is one defect of a healthy machine.
type breaks struct {
	name   string
	change func(f *Facts)
	check  string
	status Status
	// says and remedy are parts of the message and the remedy.
	says, remedy string
}

// machineBreaks are defects of the kernel and its settings.
func machineBreaks() []breaks {
	return []breaks{
		{"user", func(f *Facts) { f.EUID = 1000 }, "user", Problem, "user 1000", "as root"},
		{"old kernel", func(f *Facts) { f.Release = "3.10.0-1160.el7" }, "kernel", Problem, "older than 4.15", "newer"},
		{"old kernel with v2", func(f *Facts) { f.Release = "5.1.3" }, "kernel", Problem, "v2", "unified_cgroup_hierarchy=0"},
		{"kernel without fixes", func(f *Facts) {
			f.Release = "5.4.0-1"
			f.Cgroups.Unified = false
			f.Cgroups.Controllers = append(f.Cgroups.Controllers, "devices", "freezer")
		}, "kernel", Warning, "no fixes", ""},
		{"unreadable kernel", func(f *Facts) { f.Release = "mine" }, "kernel", Warning, `"mine"`, "uname"},
		{"no cgroups", func(f *Facts) { f.Cgroups = cgroup.Facts{Root: "/sys/fs/cgroup"} }, "cgroups", Problem, "no control groups", "mount"},
		{"memory disabled", func(f *Facts) { f.Cgroups.Controllers = []string{"cpu", "pids"} }, "cgroups", Problem, "memory", "cgroup_enable=memory"},
		{"pids not delegated", func(f *Facts) { f.Cgroups.Controllers = []string{"cpu", "memory"} }, "cgroups", Problem, "pids", "Delegate=yes"},
		{"cgroups not handed down", func(f *Facts) { f.Cgroups.Closed = []string{"memory"} }, "cgroups", Problem, "cannot be while processes are in that group", "+memory"},
		{"no systemd for its cgroups", func(f *Facts) { f.Plan.CgroupDriver = cgroup.Systemd }, "cgroups", Problem, "cgroup-driver: use the cgroup driver systemd", "cgroupfs"},
		{"v1 without devices", func(f *Facts) {
			f.Cgroups = cgroup.Facts{Root: "/sys/fs/cgroup", Controllers: []string{"cpu", "memory", "pids", "freezer"}, Swap: true}
		}, "cgroups", Problem, "devices", "mount -t cgroup -o devices"},
		{"swap", func(f *Facts) { f.Cgroups.Swap = false }, "swap", Warning, "not accounted", "swapaccount=1"},
		{"seccomp", func(f *Facts) { f.Seccomp = nil }, "seccomp", Problem, "no filters", "CONFIG_SECCOMP_FILTER"},
		{"clock", func(f *Facts) { f.Clock.Synchronised = false }, "clock", Warning, "nothing keeps", "set-ntp"},
		{"clock far off", func(f *Facts) { f.Clock.MaxError = 2 * time.Second }, "clock", Warning, "wrong by 2s", ""},
		{"clock unknown", func(f *Facts) { f.Clock = Clock{} }, "clock", Warning, "does not say", ""},
		{"boot clock", func(f *Facts) { f.BootClock = false }, "boot clock", Problem, "cannot be read", ""},
		{"boot id", func(f *Facts) { f.BootID = "" }, "boot clock", Warning, "no id", ""},
		{"open files", func(f *Facts) { f.Limits.OpenFiles = 1024 }, "limits", Warning, "1024", "LimitNOFILE"},
		{"inotify", func(f *Facts) { f.Limits.Watchers = 64 }, "limits", Warning, "max_user_instances", "sysctl -w fs.inotify.max_user_instances"},
		{"pids", func(f *Facts) { f.Limits.PIDs = 4096 }, "limits", Warning, "pid_max", "sysctl -w kernel.pid_max"},
		{"kill mode", func(f *Facts) { f.KillMode = "control-group" }, "unit", Problem, "ends the containers", "KillMode=process"},
	}
}

// twice adds another container like the first.
func twice(f *Facts) {
	f.Spaces[0].Containers = append(f.Spaces[0].Containers, f.Spaces[0].Containers[0])
}

// containerBreaks are defects of container programs and of disks.
func containerBreaks() []breaks {
	return []breaks{
		{"named containerd is away", func(f *Facts) {
			f.Containerd.Serving, f.Containerd.Error, f.Plan.Named = "", "reach containerd: refused", true
		}, "containerd", Problem, "refused", "systemctl start containerd"},
		{"no containerd", func(f *Facts) { f.Containerd.Serving, f.Containerd.Binary, f.Containerd.Version = "", "", "" }, "containerd", Problem, "not installed", "apt-get install containerd"},
		{"old containerd", func(f *Facts) { f.Containerd.Serving = "1.5.9" }, "containerd", Problem, "older than 1.6", ""},
		{"no shim", func(f *Facts) { f.Containerd.Shim = "" }, "containerd", Problem, "shim", "apt-get"},
		{"no runc", func(f *Facts) { f.Containerd.Runc = "" }, "runc", Problem, "not installed", "apt-get install runc"},
		{"broken runc", func(f *Facts) { f.Containerd.RuncError = "exec format error" }, "runc", Problem, "exec format", ""},
		{"old runc", func(f *Facts) { f.Containerd.RuncVersion = "1.0.0-rc93" }, "runc", Warning, "v2", ""},
		{"no init", func(f *Facts) { f.Containerd.Init = "" }, "init", Warning, "init process", "apt-get install tini"},
		{"state dir is a file", func(f *Facts) { f.StateDir.NotDir = true }, "state dir", Problem, "no directory", "state-dir"},
		{"state dir of others", func(f *Facts) { f.StateDir.UID = 33 }, "state dir", Problem, "user 33", "chown"},
		{"state dir open to all", func(f *Facts) { f.StateDir.Mode = 0o777 }, "state dir", Problem, "can be written", "chmod 700"},
		{"state dir readable", func(f *Facts) { f.StateDir.Mode = 0o755 }, "state dir", Warning, "can be read", "chmod 700"},
		{"state dir on nfs", func(f *Facts) { f.StateDir.Type = "nfs4" }, "state dir", Problem, "nfs4", "state-dir"},
		{"state dir in memory", func(f *Facts) { f.StateDir.Type = "tmpfs" }, "state dir", Warning, "in memory", "state-dir"},
		{"read-only", func(f *Facts) { f.StateDir.ReadOnly = true }, "state dir", Problem, "reading alone", "remount,rw"},
		{"unusable", func(f *Facts) { f.StateDir.Error = "it did not answer within 5s" }, "state dir", Problem, "did not answer", ""},
		{"full", func(f *Facts) { f.StateDir.Free = 100 << 20 }, "state dir", Problem, "100 MiB free", "du"},
		{"nearly full", func(f *Facts) { f.StateDir.Free = 5 << 30 }, "state dir", Warning, "5.0 GiB of 200 GiB", "du"},
		{"no inodes", func(f *Facts) { f.StateDir.FreeInodes = 0 }, "state dir", Problem, "files", "inodes"},
		{"slow disk", func(f *Facts) { f.StateDir.Fsync = 80 * time.Millisecond }, "state dir", Warning, "80ms", "faster disk"},
		{"noexec for a containerd of its own", func(f *Facts) { f.Containerd.Serving, f.Images, f.StateDir.NoExec = "", nil, true }, "state dir", Problem, "noexec", "exec"},
		{"no overlay", func(f *Facts) { f.Images.Overlay = "invalid argument" }, "images", Problem, "invalid argument", "ftype=1"},
		{"images on a share", func(f *Facts) { f.Images.Type = "cifs" }, "images", Problem, "cifs", "config.toml"},
		{"long path", func(f *Facts) { f.Plan.SocketDir = "/" + strings.Repeat("long", 25) }, "sockets", Problem, "too long", "state-dir"},
		{"long path of a containerd of its own", func(f *Facts) { f.Containerd.Serving, f.Plan.StateDir = "", "/"+strings.Repeat("long", 25) }, "sockets", Problem, "Unix sockets allow", "state-dir"},
		{"logs", func(f *Facts) { f.LogBytes = 20 << 30 }, "logs", Warning, "20 GiB", "/var/lib/escher/logs"},
		{"watchdog", func(f *Facts) { f.Watchdog.Running = false }, "watchdog", Problem, "does not run", "restart"},
		{"containers of another node", func(f *Facts) { f.Spaces[0].Node = "old" }, "containers", Warning, "leaves alone 1 container of node old of cluster c, 1 of them running", "ctr -n escher-c-1"},
		{"containers of another cluster", func(f *Facts) { f.Spaces[0].Cluster = "x" }, "containers", Warning, "cluster x", "ctr"},
		{"container alone", func(f *Facts) { f.Agent.Running = false }, "containers", Warning, "no agent manages 1 running container of", "start the agent"},
		{"containers alone", func(f *Facts) { f.Agent.Running = false; twice(f) }, "containers", Warning, "no agent manages 2 running containers of", "start the agent"},
		{"container not bound", func(f *Facts) { f.Cluster.Bound = nil }, "containers", Warning, "has not yet removed 1 unbound container of", "restart the agent"},
		{"containers not bound", func(f *Facts) { f.Cluster.Bound = nil; twice(f) }, "containers", Warning, "has not yet removed 2 unbound containers of", "restart the agent"},
	}
}

// networkBreaks are defects of names, ports and GPUs.
func networkBreaks() []breaks {
	return []breaks{
		{"localhost", func(f *Facts) { f.Plan.Node = "localhost.localdomain" }, "node name", Problem, "many machines", "node"},
		{"bad name", func(f *Facts) { f.Plan.Node = "a b" }, "node name", Problem, `"a b"`, "node"},
		{"dns", func(f *Facts) { f.Network.Nameservers = nil }, "dns", Warning, "no server", "nameserver"},
		{"port in use", func(f *Facts) { f.Network.ListenError = "address already in use" }, "node api", Problem, "already in use", "ss -ltnp"},
		{"agent does not answer", func(f *Facts) { f.Network.AnswerError = "refused" }, "node api", Problem, "refused", "advertise"},
		{"loopback", func(f *Facts) { f.Network.Loopback = true }, "node api", Problem, "their own machine", "advertise"},
		{"loopback without a certificate", func(f *Facts) { f.Plan.Local, f.Network.Loopback = true, true }, "node api", Warning, "loopback alone", "tls-cert"},
		{"strange address", func(f *Facts) { f.Network.Local = false }, "node api", Warning, "no address of this machine", "advertise"},
		{"node certificate", func(f *Facts) { f.Network.API.NotAfter = f.Now }, "node certificate", Warning, "expires", "renewed"},
		{"node certificate for another", func(f *Facts) { f.Network.API.Wrong = "x509: valid for a, not b" }, "node certificate", Problem, "valid for a", "advertise"},
		{"node certificate is none", func(f *Facts) { f.Network.API, f.Network.CertificateError = nil, "no such file" }, "node certificate", Problem, "no such file", ""},
		{"firewall", func(f *Facts) { f.Network.Filters = []string{"nf_tables"} }, "firewall", Warning, "7421", "curl -k http://10.0.0.5:7421/healthz"},
		{"ports overlap", func(f *Facts) { f.Plan.Ports = nodeagent.PortRange{First: 32000, Last: 33000} }, "ports", Warning, "32768-33000", "ip_local_reserved_ports=32768-33000"},
		{"api among the ports", func(f *Facts) { f.Plan.Listen = ":20500" }, "ports", Problem, "20500", "ports"},
		{"ports taken", func(f *Facts) { f.Agent.Running = false }, "ports", Warning, "such as 20000", "ss -ltnp"},
		{"no driver", func(f *Facts) { f.GPU.Driver = "" }, "gpus", Problem, "no driver", "nvidia-driver"},
		{"no cdi", func(f *Facts) { f.GPU.Specs = nil }, "gpus", Problem, "no CDI", "nvidia-ctk cdi generate"},
		{"no device nodes", func(f *Facts) { f.GPU.Nodes = false }, "gpus", Problem, "/dev/nvidiactl", "nvidia-modprobe"},
		{"smi hangs", func(f *Facts) { f.GPU.Hangs, f.GPU.SMIError = true, "it does not answer" }, "gpus", Problem, "hangs", "drain"},
		{"smi mismatch", func(f *Facts) { f.GPU.SMIError = "Failed to initialize NVML: Driver/library version mismatch" }, "gpus", Problem, "differ", "restart"},
		{"smi fails", func(f *Facts) { f.GPU.SMIError = "Unable to determine the device handle" }, "gpus", Problem, "device handle", "dmesg"},
		{"no smi", func(f *Facts) { f.GPU.SMI = "" }, "gpus", Warning, "not installed", "apt-get"},
		{"char links", func(f *Facts) { f.GPU.CharLinks = false }, "gpus", Warning, "daemon-reload", "create-dev-char-symlinks"},
		{"stale cdi", func(f *Facts) { f.GPU.Specs[0].Missing = []string{"/dev/nvidia7"} }, "cdi", Problem, "/dev/nvidia7", "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"},
		{"broken cdi", func(f *Facts) { f.GPU.CDIErrors = []string{"a.yaml: no version"} }, "cdi", Problem, "no version", ""},
	}
}

// clusterBreaks are defects of etcd and its content.
func clusterBreaks() []breaks {
	return []breaks{
		{"etcd is away", func(f *Facts) { f.Etcd.Endpoints[0].Error = "refused"; f.Cluster = nil }, "etcd", Problem, "https://10.0.0.1:2379 does not answer: refused", "endpoints"},
		{"etcd's certificate has expired", func(f *Facts) { f.Etcd.Endpoints[0].Certificate.NotAfter = f.Now.Add(-1) }, "etcd", Problem, "has expired", "renewed"},
		{"etcd's certificate is of tomorrow", func(f *Facts) { f.Etcd.Endpoints[0].Certificate.NotBefore = f.Now.Add(time.Hour) }, "etcd", Problem, "clock", "timedatectl"},
		{"etcd's certificate is of another", func(f *Facts) { f.Etcd.Endpoints[0].Certificate.Wrong = "certificate is valid for x" }, "etcd", Problem, "valid for x", "servername"},
		{"etcd refuses", func(f *Facts) { f.Etcd.Error = "bad certificate"; f.Cluster = nil }, "etcd", Problem, "bad certificate", "show the state of the cluster"},
		{"our certificate ends soon", func(f *Facts) { f.Etcd.Own.NotAfter = f.Now.Add(24 * time.Hour) }, "etcd credentials", Warning, "expires", ""},
		{"our key is another one's", func(f *Facts) { f.Etcd.Own, f.Etcd.OwnError = nil, "private key does not match" }, "etcd credentials", Problem, "does not match", ""},
		{"our key is open", func(f *Facts) { f.Etcd.KeyMode = 0o644 }, "etcd credentials", Warning, "client.key", "chmod 600"},
		{"small transactions", func(f *Facts) { f.Cluster.Ops = 128 }, "etcd database", Warning, "128", "--max-txn-ops=4096"},
		{"full database", func(f *Facts) { f.Cluster.InUse = 80 }, "etcd database", Warning, "70 %", "--quota-backend-bytes"},
		{"database refuses", func(f *Facts) { f.Cluster.Alarm = true }, "etcd database", Problem, "refuses", "defrag"},
		{"no server", func(f *Facts) { f.Cluster.Servers = nil }, "servers", Problem, "no server is alive", "start a server"},
		{"new cluster", func(f *Facts) { f.Cluster.ID, f.Cluster.Servers = "", nil }, "servers", Problem, "no server has run", "start a server"},
		{"name taken", func(f *Facts) { f.Cluster.Lease = 6 }, "node", Problem, "another agent", "node"},
		{"agent of another cluster", func(f *Facts) { f.Cluster.Lease = 0 }, "node", Warning, "not alive in this cluster", "node"},
		{"agent of an older version", func(f *Facts) { f.Cluster.Version = "v1" }, "versions", Warning, "of version v1", "systemctl restart"},
		{"server of an older version", func(f *Facts) { f.Cluster.Servers["s1"] = "v1" }, "versions", Warning, "server s1 is v1", "Upgrading"},
		{"agents of several versions", func(f *Facts) { f.Cluster.Versions["v1"] = 2 }, "versions", Warning, "2 of v1", "rest"},
	}
}

// TestDiagnose breaks one thing of a healthy machine at a time.
func TestDiagnose(t *testing.T) {
	for _, c := range slices.Concat(machineBreaks(), containerBreaks(), networkBreaks(), clusterBreaks()) {
		t.Run(c.name, func(t *testing.T) {
			f := healthy()
			c.change(&f)
			found := Diagnose(f)
			if !slices.ContainsFunc(found, func(x Finding) bool {
				return x.Check == c.check && x.Status == c.status && strings.Contains(x.Message, c.says) && strings.Contains(x.Remedy.String(), c.remedy)
			}) {
				t.Errorf("not found, but %+v", slices.DeleteFunc(found, func(x Finding) bool { return x.Status == OK }))
			}
			for _, x := range found {
				if x.Status != OK && x.Remedy.IsZero() {
					t.Errorf("without a remedy: %+v", x)
				}
			}
			if Worst(found) == OK {
				t.Error("the worst of it is ok")
			}
		})
	}
}

// TestLess tests a machine without a cluster, an agent, GPUs and a service.
func TestLess(t *testing.T) {
	f := healthy()
	f.Etcd, f.Cluster, f.Agent, f.GPU, f.Spaces, f.Images, f.KillMode, f.Plan.TLSCert = nil, nil, Agent{}, GPU{}, nil, nil, "", ""
	f.Containerd.Serving, f.Network.Listening, f.Network.Answered = "", nil, false
	for _, x := range Diagnose(f) {
		if x.Status != OK {
			t.Errorf("%+v", x)
		}
	}
}

// TestDev tests escher dev: its cluster has no id, and yet its server is alive.
func TestDev(t *testing.T) {
	f := healthy()
	f.Cluster.ID, f.Cluster.Servers = "", map[string]string{"dev": "v2"}
	if found := checkServers(f); len(found) != 1 || found[0].Status != OK || found[0].Message != "dev" {
		t.Errorf("%+v", found)
	}
}

// TestNoPort: of an agent that opens no port, none is missing.
func TestNoPort(t *testing.T) {
	plan := Plan{Node: "gpu-1"}
	n := gatherNetwork(t.Context(), host{fstest.MapFS{}}, plan, Agent{Running: true}, nil)
	if n.Answered || n.AnswerError != "" || n.ListenError != "" {
		t.Errorf("%+v", n)
	}
	f := healthy()
	f.Plan.Listen, f.Plan.Address, f.Plan.TLSCert = "", "", ""
	f.Network.Local, f.Network.Loopback, f.Network.Answered, f.Network.Filters = false, false, false, []string{"filter"}
	for _, x := range Diagnose(f) {
		if x.Status != OK {
			t.Errorf("%+v", x)
		}
	}
}
