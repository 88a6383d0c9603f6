// Package nodeagent runs on every machine of a cluster: it registers the node,
// runs what is bound to it, and reports what became of it.
package nodeagent

import (
	"context"
	"io"
	"syscall"
	"time"

	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/types"
)

// Runtime runs containers. There are two: nodeagent/runtime/containerd and the simulated
// nodeagent/runtime/simruntime; both pass runtimetest.Run.
//
// Every method is idempotent and may be called again after an error. A runtime
// never retries: it returns an error of class Unavailable (package types) when
// it does not know, and the agent asks again. What it does not know it never
// takes for an exit.
type Runtime interface {
	// Start makes the container and starts its process. When a container of
	// that id exists, nothing is done: a process is never run twice. Invalid
	// or NotFound: it can never start (no such image, no such command), and
	// nothing was left behind. What it returns is set as far as it is known with
	// an error, too.
	Start(ctx context.Context, c Container) (Started, error)

	// List returns every container of this node that Start made and Remove
	// did not remove, across restarts of agent and runtime.
	List(ctx context.Context) ([]Observed, error)

	// Wait returns when the container's process has ended, with how it ended,
	// as often as it is asked until Remove. NotFound: there is no such
	// container. Unavailable: it is not known.
	Wait(ctx context.Context, id string) (Exit, error)

	// Signal sends a signal to the container's process; StopSignal is its own.
	// Success when it has ended; NotFound when there is no such container.
	Signal(ctx context.Context, id string, signal syscall.Signal) error

	// Remove deletes the container and all that belongs to it but its logs,
	// killing the process if there is one. Success when there is none.
	Remove(ctx context.Context, id string) error

	// Changes returns a channel that yields when the state of some container
	// may have changed: a hint to List again, not a record. It is closed when
	// ctx is done or the connection to the runtime is lost.
	Changes(ctx context.Context) <-chan struct{}

	// Exec runs another process in the container until it ends, and returns its
	// exit code; when ctx is done, it is killed. Precondition: the container does
	// not run. NotFound: there is no such container, or no such command in it.
	// Unavailable: ctx was done; a process that hangs in the kernel is not waited for.
	Exec(ctx context.Context, id string, p Process) (code int, err error)

	// Root returns a directory of this machine that shows the files of a running
	// container as its process sees them, mounts included. Its links are the
	// container's: whoever opens files below it must stay below it
	// (RESOLVE_IN_ROOT). When the container ends, it may become that of another:
	// whoever has opened it asks again, and has the right one if the answer is the
	// same. Precondition: the container does not run. NotFound:
	// there is no such container.
	Root(ctx context.Context, id string) (string, error)

	// Usage returns what a running container uses, as the kernel counts it: what it does
	// not count is left out. It asks no daemon, as it is called for every container every
	// few seconds. NotFound: there is no such container, or it does not run.
	Usage(ctx context.Context, id string) (cgroup.Stat, error)

	Images
}

// Images are the images of a machine.
type Images interface {
	// Pull makes an image ready to be run, asking its registry what the
	// reference stands for now. Several calls for one image are one pull.
	// NotFound: nobody has it, or nobody gives it to us. Invalid: it is no
	// reference.
	Pull(ctx context.Context, ref string) (Image, error)
	// Load reads an archive of images, as docker save and image.Write make, and
	// makes them ready to be run. Invalid: it is no such archive.
	Load(ctx context.Context, archive io.Reader) ([]Image, error)
	// Images returns all that are here, sorted by name.
	Images(ctx context.Context) ([]Image, error)
	// Pulling returns the pulls under way, sorted by name.
	Pulling() []Pulling
}

// Image is an image on this machine.
type Image struct {
	// Name is the reference in full: docker.io/library/busybox:1.36.
	Name string
	// Digest is that of its manifest or index: sha256:….
	Digest string
	// Bytes is what its content takes, compressed.
	Bytes   int64
	Created time.Time
}

// Pulling is how far a pull is.
type Pulling struct {
	Name string
	// Done and Total are bytes of content; Total grows while manifests come in.
	Done, Total int64
	// Unpacking tells that all content is there.
	Unpacking bool
	// Trouble is what went wrong last, while it is tried again.
	Trouble string
	Since   time.Time
}

// Started is what was started.
type Started struct {
	// Image is the image by digest: docker.io/library/busybox@sha256:….
	Image string
}

// StopSignal is the signal that asks a container's process to end: that of
// Container.StopSignal, of its image, or SIGTERM.
const StopSignal = syscall.Signal(0)

// Process is another process to run in a container.
type Process struct {
	// Command is what to run, with its arguments.
	Command []string
	// Env is added to that of the container, Dir and User replace its own if
	// they are not empty.
	Env       []string
	Dir, User string
	// TTY gives it a terminal: then all output goes to Stdout.
	TTY bool
	// Stdin is what it reads, nil is nothing.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Resize yields the size of the terminal, at first and when it changes.
	Resize <-chan Size
	// Started is called when it runs, unless it is nil.
	Started func()
}

// Size is that of a terminal, in characters.
type Size struct{ Width, Height uint16 }

// Container is what to run. All of it is fixed at its start.
type Container struct {
	// ID is unique to one attempt of one task: see ContainerID.
	ID string
	// Attempt is stored with the container and comes back in Observed.
	Attempt Attempt
	// Restart is how often the attempt was run before; it comes back too.
	Restart int

	// Image is a reference such as docker.io/library/busybox:1.36, or one with a
	// digest.
	Image string
	// Command replaces the image's entry point and arguments, if not empty.
	Command []string
	// Env are the variables added to the image's, as NAME=value.
	Env []string
	// Dir is the working directory; empty is the image's.
	Dir string
	// User is uid[:gid] or a name of the image; empty is the image's.
	User string
	// StopSignal is a name such as SIGINT; empty is the image's.
	StopSignal string
	// Init makes an init of the machine its first process.
	Init bool

	// MilliCPU is its share of cpu when there is too little for all, in thousandths of a
	// core, and its limit, unless CPULimit is types.CPUNone; 0 is the least share, and no
	// limit.
	MilliCPU int64
	CPULimit types.CPULimit
	// MemoryBytes is the memory limit in bytes; 0 is none.
	MemoryBytes int64
	// Pids is how many processes and threads it may have; 0 is the runtime's default.
	Pids int64
	// CapAdd and CapDrop change its capabilities: see types.CapabilitiesOf. Those of
	// CapAdd another user than root has, too.
	CapAdd, CapDrop []string
	// Privileged gives it what root of the machine has.
	Privileged bool
	// ReadOnlyRoot keeps it from writing to the files of the image.
	ReadOnlyRoot bool
	// MayStart is asked last, when nothing is left to do but let the process run; an
	// error keeps it from that, and is returned. nil: nobody is asked.
	MayStart func() error
	// Devices are names of the Container Device Interface to inject.
	Devices []string
	// Mounts are host paths made visible inside.
	Mounts []Mount

	// LogPath is the file that standard output and error are appended to.
	LogPath string
}

// Mount makes a path of the host visible in a container.
type Mount struct {
	Source   string
	Target   string
	ReadOnly bool
}

// Attempt names what a container is for. It is kept with the container, so that
// an agent that restarts knows what it finds.
type Attempt struct {
	// Cluster is the id of the cluster; a runtime lists its own only.
	Cluster string
	Node    string
	// Namespace, Task and Number are those of the binding's key.
	Namespace string
	Task      string
	Number    int
	// Revision is the CreateRevision of the binding.
	Revision int64
}

// Observed is a container as the runtime has it.
type Observed struct {
	ID      string
	Attempt Attempt
	Restart int
	// Image is the image by digest.
	Image string
	// Devices are those of Container.Devices.
	Devices []string
	// Running tells that the process has been started and is not known to
	// have ended.
	Running bool
	// Exit is set once the process has ended.
	Exit *Exit
	// Started is when the process was started.
	Started time.Time
}

// Exit is how a process ended.
type Exit struct {
	// Code is the exit code; 128 + n for signal n.
	Code int
	// OOMKilled tells that the kernel killed it for want of memory.
	OOMKilled bool
	// At is when it ended.
	At time.Time
	// Reason says why it never ran, when it did not.
	Reason string
	// Lost reports whether the runtime does not know how it ended, but that it has: Code
	// and Reason say so.
	Lost bool
}
