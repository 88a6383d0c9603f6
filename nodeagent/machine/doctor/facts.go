package doctor

import (
	"io/fs"
	"time"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
)

// Facts are what Gather saw of a machine, and of its cluster where one is named.
type Facts struct {
	// Now is when it looked.
	Now time.Time
	// Plan is the agent that runs here, or is to.
	Plan Plan
	// EUID is the user that looked: what only root can see is left out for others.
	EUID int
	// Release is the kernel's, such as 6.1.0-18-amd64.
	Release string
	Cgroups cgroup.Facts
	// Swap tells that memory is swapped to a disk.
	Swap bool
	// Seccomp are the actions that filters of system calls may take; none: the kernel
	// has no filters.
	Seccomp []string
	Clock   Clock
	// BootID tells one boot from another; BootClock, that the clock of it can be read.
	BootID    string
	BootClock bool
	Limits    Limits
	// KillMode is that of the agent's unit of systemd; empty without a unit.
	KillMode string

	Containerd Containerd
	// StateDir is the plan's; Images is where a containerd of the machine has images,
	// nil if the agent runs its own.
	StateDir Dir
	Images   *Dir
	// LogBytes is what the logs of tasks take; LogsCut, that there were too many to look
	// at all.
	LogBytes int64
	LogsCut  bool
	Agent    Agent
	Watchdog Watchdog
	// Spaces are the namespaces of containerd that have containers of Escher.
	Spaces []Space

	Network Network
	GPU     GPU
	// Etcd is how etcd is reached, Cluster what is in it; nil when none is named, or it
	// could not be read.
	Etcd    *Etcd
	Cluster *Cluster
}

// Plan says which agent the machine is looked at for.
type Plan struct {
	// Node is its name; NodeGiven, that somebody chose it, and it is not the host's.
	Node      string
	NodeGiven bool
	// StateDir is its directory, SocketDir that of the sockets of tasks.
	StateDir, SocketDir string
	// Containerd is the socket of the daemon to use, empty for one of its own; Named,
	// that somebody chose it.
	Containerd string
	Named      bool
	// Listen is host:port of the node's API, Address host:port by which others reach it.
	// Local tells that it is meant for this machine alone.
	Listen, Address string
	Local           bool
	// TLSCert and TLSKey are the files of the API's certificate, if it has one.
	TLSCert, TLSKey string
	Ports           nodeagent.PortRange
	// CgroupDriver is who is to make the cgroups of containers; empty is what suits the
	// machine.
	CgroupDriver cgroup.Driver
	// Version is that of this program.
	Version string
}

// Clock is the wall clock of a machine.
type Clock struct {
	// Known tells that the kernel said whether it is synchronised.
	Known, Synchronised bool
	// MaxError is by how much it may be wrong, as the kernel has it.
	MaxError time.Duration
}

// Limits are those of the machine, or of this process; 0 is unknown.
type Limits struct {
	// OpenFiles is how many this process may have, AllFiles all of them.
	OpenFiles, AllFiles int64
	// Watchers and Watches are the inotify instances and watches of a user.
	Watchers, Watches int64
	// PIDs is how many processes and threads the machine may have.
	PIDs int64
}

// Containerd is the daemon that the agent uses, or what it takes to run one.
type Containerd struct {
	// Serving is the version of the daemon at Plan.Containerd, empty if none answers;
	// Error is why.
	Serving, Error string
	// Root is where that one has its images.
	Root string
	// Binary and Shim are the paths of the programs, Version the daemon's; empty: not
	// installed.
	Binary, Version, Shim string
	// Runc is its path, RuncVersion its version; RuncError is why it does not run.
	Runc, RuncVersion, RuncError string
	// Init is the path of the init process for containers, empty if there is none.
	Init string
}

// Dir is a directory, and what it is on.
type Dir struct {
	Path string
	// At is the nearest directory that is there: what follows is its. NotDir: that is no
	// directory.
	At     string
	NotDir bool
	Mode   fs.FileMode
	UID    int
	// Type is that of the file system; NoExec and ReadOnly are how it is mounted.
	Type             string
	NoExec, ReadOnly bool
	// Free and Size are in bytes, FreeInodes and Inodes in files.
	Free, Size         int64
	FreeInodes, Inodes int64
	// Fsync is how long a small write takes to be on the disk; 0: it was not tried.
	Fsync time.Duration
	// Overlay is why no overlay can be made of it, "" if one can, or it was not tried.
	Overlay string
	// Error is why it could not be looked at, or written to.
	Error string
}

// Agent is an agent that runs in the state directory.
type Agent struct {
	// PID is its process, 0 if none runs; Running tells that one does.
	Running bool
	PID     string
	// Lease is that of its last session, 0 if there was none.
	Lease int64
}

// Watchdog is what ends the tasks of an agent that cannot.
type Watchdog struct {
	// Known tells that it is known whether it runs.
	Known, Running bool
}

// Space is a namespace of containerd with containers of one node.
type Space struct {
	Name          string
	Cluster, Node string
	Containers    []SpaceContainer
}

// SpaceContainer is a container of Escher.
type SpaceContainer struct {
	ID string
	// Key is that of the binding it was made for.
	Namespace, Task string
	Attempt         int
	Running         bool
}

// Network is how a machine is reached.
type Network struct {
	Hostname string
	// Nameservers are those that names are asked of.
	Nameservers []string
	// ListenError is why nothing can listen at Plan.Listen, "" if something can.
	ListenError string
	// Answered tells that the node's API answered at Plan.Address; AnswerError is why
	// not. Neither is set when no agent runs.
	Answered    bool
	AnswerError string
	// Local tells that Plan.Address is an address of this machine, Loopback that nobody
	// else reaches it.
	Local, Loopback bool
	// Remote tells that etcd is on another machine.
	Remote bool
	// LocalFirst and LocalLast are the ports that the kernel gives to connections;
	// Reserved those that it leaves out.
	LocalFirst, LocalLast int
	Reserved              []nodeagent.PortRange
	// Listening are the ports at which something listens.
	Listening []int
	// Filters are the tables of a packet filter that are in the kernel.
	Filters []string
	// API is the certificate of the node's API; CertificateError is why it cannot be
	// used.
	API              *Certificate
	CertificateError string
}

// GPU is what there is of GPUs.
type GPU struct {
	// Cards is how many of NVIDIA's are on the bus.
	Cards int
	// Driver is the version of NVIDIA's that is loaded, empty if none is.
	Driver string
	// Nodes tells that /dev/nvidiactl is there.
	Nodes bool
	// SMI is the path of nvidia-smi, SMIError what is wrong with it; Hangs, that it does
	// not answer.
	SMI, SMIError string
	Hangs         bool
	// Systemd tells that containers, or this machine, are run by systemd; CharLinks, that
	// the links are there that it needs to let containers keep their GPUs.
	Systemd, CharLinks bool
	// Specs are the CDI specifications.
	Specs []CDISpec
	// CDIErrors are those that cannot be read.
	CDIErrors []string
}

// CDISpec is a specification of devices.
type CDISpec struct {
	Path, Kind string
	Devices    int
	// Missing are the device nodes it names that are not there.
	Missing []string
}

// Etcd is how etcd is reached.
type Etcd struct {
	Endpoints []Endpoint
	// Own is the certificate that is shown to it; OwnError is why there is none.
	Own      *Certificate
	OwnError string
	// KeyMode is the mode of the file of its key, 0 if there is none.
	KeyPath string
	KeyMode fs.FileMode
	// Error is why the cluster could not be read through any of them.
	Error string
}

// Endpoint is one address of etcd.
type Endpoint struct {
	Address string
	// Error is why it does not answer, Took how long the answer took.
	Error string
	Took  time.Duration
	// Certificate is what it shows, if it is encrypted.
	Certificate *Certificate
}

// Certificate is what matters of one.
type Certificate struct {
	Path                string
	NotBefore, NotAfter time.Time
	// Wrong is why it does not do for what it is for.
	Wrong string
}

// Cluster is what is in etcd.
type Cluster struct {
	// ID is empty before the first server, and with escher dev.
	ID string
	// Ops is how many operations a transaction may have.
	Ops int
	// InUse and Quota are of the database, in bytes, 0 if unknown; Alarm, that it refuses
	// writes.
	InUse, Quota int64
	Alarm        bool
	// Servers are the versions of those that are alive, by name; empty: they do not say.
	Servers map[string]string
	// Lease is that of an agent of the plan's name that is alive, 0 if none is.
	Lease int64
	// Version is what the store has of the node's agent; Versions how many nodes have
	// which.
	Version  string
	Versions map[string]int
	// Bound are the attempts bound to the node: <namespace>/<task>/<attempt>.
	Bound map[string]bool
}
