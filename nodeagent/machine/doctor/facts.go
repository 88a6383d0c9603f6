package doctor

import (
	"io/fs"
	"time"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
)

// Facts are the facts that Gather collected of a machine, and of its cluster if one is configured.
type Facts struct {
	// Now is the time of Gather.
	Now time.Time
	// Plan is the agent that runs here, or will run.
	Plan Plan
	// EUID is the user of Gather: facts that only root can see are missing for others.
	EUID int
	// Release is the kernel's, such as 6.1.0-18-amd64.
	Release string
	Cgroups cgroup.Facts
	// Swap reports whether memory is swapped to a disk.
	Swap bool
	// Seccomp are the available actions of system call filters; none means that the kernel has no
	// filters.
	Seccomp []string
	Clock   Clock
	// BootID identifies the boot; BootClock reports whether the boot clock can be read.
	BootID    string
	BootClock bool
	Limits    Limits
	// KillMode is that of the agent's systemd unit; "" without a unit.
	KillMode string

	Containerd Containerd
	// StateDir is the plan's. Images is where the machine's containerd stores images; nil if the
	// agent runs a private one.
	StateDir Dir
	Images   *Dir
	// LogBytes is the size of the logs of tasks. LogsCut reports whether there were too many to
	// count.
	LogBytes int64
	LogsCut  bool
	Agent    Agent
	Watchdog Watchdog
	// Spaces are the containerd namespaces with containers of Escher.
	Spaces []Space

	Network Network
	GPU     GPU
	// Etcd describes the access to etcd, Cluster its content; nil if none is configured or it could
	// not be read.
	Etcd    *Etcd
	Cluster *Cluster
}

// Plan describes the agent for which the machine is examined.
type Plan struct {
	// Node is its name; NodeGiven reports whether a user chose it instead of the host's name.
	Node      string
	NodeGiven bool
	// StateDir is its state directory, SocketDir that of the task sockets.
	StateDir, SocketDir string
	// Containerd is the socket of the daemon to use; "" means a private one. Named reports whether
	// a user chose it.
	Containerd string
	Named      bool
	// Listen is host:port of the node's API, Address the host:port at which others reach it. Local
	// reports whether the API is for this machine only. Both are empty if the agent opens no port.
	Listen, Address string
	Local           bool
	// TLSCert and TLSKey are the files of the API's certificate, if it has one.
	TLSCert, TLSKey string
	Ports           nodeagent.PortRange
	// CgroupDriver is the driver for the cgroups of containers; "" means the one that suits the
	// machine.
	CgroupDriver cgroup.Driver
	// Version is that of this program.
	Version string
}

// Clock is the wall clock of a machine.
type Clock struct {
	// Known reports whether the kernel said whether the clock is synchronized.
	Known, Synchronised bool
	// MaxError is its maximum error according to the kernel.
	MaxError time.Duration
}

// Limits are limits of the machine or of this process; 0 means unknown.
type Limits struct {
	// OpenFiles is the limit of open files of this process, AllFiles that of the machine.
	OpenFiles, AllFiles int64
	// Watchers and Watches are the limits of inotify instances and watches of a user.
	Watchers, Watches int64
	// PIDs is the limit of processes and threads of the machine.
	PIDs int64
}

// Containerd is the daemon that the agent uses, or the programs to run one.
type Containerd struct {
	// Serving is the version of the daemon at Plan.Containerd; "" if none answers. Error is the
	// reason.
	Serving, Error string
	// Root is where that daemon stores images.
	Root string
	// Binary and Shim are the paths of the programs, Version is the daemon's; "" means not
	// installed.
	Binary, Version, Shim string
	// Runc is the path of runc, RuncVersion its version; RuncError is why it does not run.
	Runc, RuncVersion, RuncError string
	// Init is the path of the init program for containers; "" if there is none.
	Init string
}

// Dir is a directory and its disk.
type Dir struct {
	Path string
	// At is the nearest existing path: the fields below describe it. NotDir reports whether it is
	// not a directory.
	At     string
	NotDir bool
	Mode   fs.FileMode
	UID    int
	// Type is the type of the file system; NoExec and ReadOnly are mount options.
	Type             string
	NoExec, ReadOnly bool
	// Free and Size are in bytes, FreeInodes and Inodes in files.
	Free, Size         int64
	FreeInodes, Inodes int64
	// Fsync is how long a small write takes to reach the disk; 0 means not tried.
	Fsync time.Duration
	// Overlay is why no overlay can be made there; "" if one can, or it was not tried.
	Overlay string
	// Error is why it could not be examined or written to.
	Error string
}

// Agent is the agent in the state directory.
type Agent struct {
	// Running reports whether one runs; PID is its process id, "" if none runs.
	Running bool
	PID     string
	// Lease is that of its last session; 0 if there was none.
	Lease int64
}

// Watchdog is the process that ends the tasks of an agent that cannot.
type Watchdog struct {
	// Known reports whether Running is known.
	Known, Running bool
}

// Space is a containerd namespace with containers of one node.
type Space struct {
	Name          string
	Cluster, Node string
	Containers    []SpaceContainer
}

// SpaceContainer is a container of Escher.
type SpaceContainer struct {
	ID string
	// Namespace, Task and Attempt are those of its binding's key.
	Namespace, Task string
	Attempt         int
	Running         bool
}

// Network describes how the machine is reached.
type Network struct {
	Hostname string
	// Nameservers are the DNS servers.
	Nameservers []string
	// ListenError is why the agent cannot listen at Plan.Listen; "" if it can.
	ListenError string
	// Answered reports whether the node's API answered at Plan.Address; AnswerError is why it did
	// not. Neither is set if no agent runs.
	Answered    bool
	AnswerError string
	// Local reports whether Plan.Address is an address of this machine, Loopback whether only this
	// machine reaches it.
	Local, Loopback bool
	// Remote reports whether etcd is on another machine.
	Remote bool
	// LocalFirst and LocalLast bound the ports that the kernel gives to outgoing connections;
	// Reserved are those that it leaves out.
	LocalFirst, LocalLast int
	Reserved              []nodeagent.PortRange
	// Listening are the ports with a listener.
	Listening []int
	// Filters are the loaded tables of packet filters.
	Filters []string
	// API is the certificate of the node's API; CertificateError is why it cannot be used.
	API              *Certificate
	CertificateError string
}

// GPU describes the NVIDIA GPUs and the CDI specifications.
type GPU struct {
	// Cards is the number of NVIDIA cards on the bus.
	Cards int
	// Driver is the version of the loaded NVIDIA driver; "" if none is loaded.
	Driver string
	// Nodes reports whether /dev/nvidiactl exists.
	Nodes bool
	// SMI is the path of nvidia-smi, SMIError its error; Hangs reports whether it does not answer.
	SMI, SMIError string
	Hangs         bool
	// Systemd reports whether systemd runs containers or this machine. CharLinks reports whether
	// the links exist that it needs to let containers keep their GPUs.
	Systemd, CharLinks bool
	// Specs are the CDI specifications.
	Specs []CDISpec
	// CDIErrors are the errors of unreadable specifications.
	CDIErrors []string
}

// CDISpec is a specification of devices.
type CDISpec struct {
	Path, Kind string
	Devices    int
	// Missing are its device nodes that do not exist.
	Missing []string
}

// Etcd describes the access to etcd.
type Etcd struct {
	Endpoints []Endpoint
	// Own is the client certificate; OwnError is why there is none.
	Own      *Certificate
	OwnError string
	// KeyMode is the mode of its key file; 0 if there is none.
	KeyPath string
	KeyMode fs.FileMode
	// Error is why the cluster could not be read through any endpoint.
	Error string
}

// Endpoint is one address of etcd.
type Endpoint struct {
	Address string
	// Error is why it does not answer, Took the time until its answer.
	Error string
	Took  time.Duration
	// Certificate is its certificate if it is encrypted.
	Certificate *Certificate
}

// Certificate describes a certificate.
type Certificate struct {
	Path                string
	NotBefore, NotAfter time.Time
	// Wrong is why it is not suitable.
	Wrong string
}

// Cluster describes the content of etcd.
type Cluster struct {
	// ID is "" before the first server, and with escher dev.
	ID string
	// Ops is the limit of operations per transaction.
	Ops int
	// InUse and Quota are of the database, in bytes; 0 means unknown. Alarm reports whether it
	// refuses writes.
	InUse, Quota int64
	Alarm        bool
	// Servers are the versions of the live servers by name; "" means unknown.
	Servers map[string]string
	// Lease is that of a live agent with the plan's name; 0 if there is none.
	Lease int64
	// Version is the stored version of the node's agent; Versions counts the nodes by version.
	Version  string
	Versions map[string]int
	// Bound are the attempts bound to the node: <namespace>/<task>/<attempt>.
	Bound map[string]bool
}
