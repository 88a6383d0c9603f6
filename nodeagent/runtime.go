// Package nodeagent runs on every machine of a cluster. It registers the node, runs the attempts
// bound to it, and reports how they end.
package nodeagent

import (
	"context"
	"io"
	"syscall"
	"time"

	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/nodeagent/secrets"
	"github.com/escher-sched/escher/types"
)

// Runtime runs containers. There are two: nodeagent/runtime/containerd and the simulated
// nodeagent/runtime/simruntime. Both pass runtimetest.Run.
//
// Every method is idempotent and may be called again after an error. A runtime never retries: if it
// does not know a state, it returns an error of class Unavailable (package types), and the agent
// asks again. It never takes an unknown state for an exit.
type Runtime interface {
	// Start makes the container and starts its process. If a container of that id exists, it does
	// nothing: a process never runs twice. Invalid or NotFound: the container can never start (no
	// such image, no such command), and nothing is left behind. With an error, too, the known
	// fields of Started are set.
	Start(ctx context.Context, c Container) (Started, error)

	// List returns every container of this node that Start made and Remove did not remove, across
	// restarts of agent and runtime.
	List(ctx context.Context) ([]Observed, error)

	// Wait waits for the end of the container's process, and returns how it ended. It may be called
	// again until Remove. NotFound: there is no such container. Unavailable: not known.
	Wait(ctx context.Context, id string) (Exit, error)

	// Signal sends a signal to the container's process; StopSignal means the container's own. It
	// succeeds if the process has ended. NotFound: there is no such container.
	Signal(ctx context.Context, id string, signal syscall.Signal) error

	// Remove deletes the container and everything that belongs to it except its logs. It kills the
	// process if there is one. It succeeds if there is no container.
	Remove(ctx context.Context, id string) error

	// Changes returns a channel that yields when the state of some container may have changed: a
	// hint to List again, not a record. It is closed when ctx is done or the connection to the
	// runtime is lost.
	Changes(ctx context.Context) <-chan struct{}

	// Exec runs another process in the container until it ends, and returns its exit code. It kills
	// the process when ctx is done. Precondition: the container does not run. NotFound: there is no
	// such container, or no such command in it. Unavailable: ctx was done; Exec does not wait for a
	// process that hangs in the kernel.
	Exec(ctx context.Context, id string, p Process) (code int, err error)

	// Attach passes the input of a client to the container's process, and the size of a terminal to
	// that of the container. It returns nil once the input or the process has ended. The end of
	// a.Stdin ends the input of the process; that ctx is done does not. If no Attach passes an input
	// for AttachWait, from the start of the process or of the agent, the input of the process ends.
	// Precondition: the container does not run. NotFound: there is no such container. Conflict: it
	// has no input, its input has ended, another call passes it, or it is not known which bytes the
	// process got. Unavailable: ctx was done.
	Attach(ctx context.Context, id string, a Attachment) error

	// Root returns a directory of this machine that shows the files of a running container as its
	// process sees them, including mounts. Its links are the container's, so open files below it
	// with RESOLVE_IN_ROOT. When the container ends, the directory may become that of another one.
	// So call Root again after an open: the same answer means the right container. Precondition:
	// the container does not run. NotFound: there is no such container.
	Root(ctx context.Context, id string) (string, error)

	// Usage returns the resource usage of a running container as the kernel counts it, without what
	// it does not count. It asks no daemon, because it is called for every container every few
	// seconds. NotFound: there is no such container, or it does not run.
	Usage(ctx context.Context, id string) (cgroup.Stat, error)

	Images
}

// Images manages the images of a machine.
type Images interface {
	// Pull makes an image ready to run, in the version that its registry has now. Concurrent calls
	// for an image share one pull. NotFound: no registry has the image or grants access to it.
	// Invalid: ref is not a reference.
	Pull(ctx context.Context, ref string) (Image, error)
	// Load reads an archive of images, as docker save and image.Write make, and makes them ready to
	// run. Invalid: it is not such an archive.
	Load(ctx context.Context, archive io.Reader) ([]Image, error)
	// Images returns all images of the machine, sorted by name.
	Images(ctx context.Context) ([]Image, error)
	// Pulling returns the pulls under way, sorted by name.
	Pulling() []Pulling
	Workdirs
}

// KeepWorkdir is how long a machine keeps the image of a workdir after its last use: a task may wait
// for a week before it starts.
const KeepWorkdir = 7 * 24 * time.Hour

// Workdirs manages the images of sent directories: see package workdir. They arrive by Images.Load,
// whose archives may lack layers that the machine has. The machine deletes images that were not
// used for KeepWorkdir when another arrives.
type Workdirs interface {
	// Lacking returns those of the layers that are not on this machine.
	Lacking(ctx context.Context, layers []string) ([]string, error)
	// Layers returns the layers of an image of a workdir, and counts as a use. NotFound: it is not
	// on this machine.
	Layers(ctx context.Context, image string) ([]string, error)
	// Export writes an archive for Images.Load, with those of the layers of an image. NotFound: it
	// is not on this machine.
	Export(ctx context.Context, image string, layers []string, w io.Writer) error
}

// Image is an image on this machine.
type Image struct {
	// Name is the full reference: docker.io/library/busybox:1.36.
	Name string
	// Digest is that of its manifest or index: sha256:….
	Digest string
	// Bytes is the compressed size of its content.
	Bytes   int64
	Created time.Time
	// Entrypoint is its entry point; empty means none.
	Entrypoint []string
}

// Pulling is the progress of a pull.
type Pulling struct {
	Name string
	// Done and Total are bytes of content. Total grows as manifests arrive.
	Done, Total int64
	// Unpacking reports whether all content has arrived.
	Unpacking bool
	// Trouble is the last failure, while the pull is retried.
	Trouble string
	Since   time.Time
}

// Started is the result of Runtime.Start.
type Started struct {
	// Image is the image by digest: docker.io/library/busybox@sha256:….
	Image string
	// Check is the health check of the image; nil means none.
	Check *types.Check
}

// StopSignal is the signal that asks a container's process to end: Container.StopSignal, that of
// its image, or SIGTERM.
const StopSignal = syscall.Signal(0)

// Process is another process to run in a container.
type Process struct {
	// Command is the command with its arguments.
	Command []string
	// Env is added to that of the container. Dir and User replace those of the container unless
	// they are empty.
	Env       []string
	Dir, User string
	// TTY gives the process a terminal: then all output goes to Stdout.
	TTY bool
	// Stdin is its input; nil means none.
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Resize yields the size of the terminal, at first and after each change.
	Resize <-chan Size
	// Started is called when the process runs; nil means no call.
	Started func()
}

// AttachWait is how long a process with an input waits for a client: a client that lives attaches
// at once, and again after a restart of the agent.
const AttachWait = time.Minute

// Attachment is the part of a client in Runtime.Attach.
type Attachment struct {
	// Stdin is the input; nil means none. Attach does not wait for a Read under way.
	Stdin io.Reader
	// Taken is called with the number of bytes of the input that the process has been given since
	// its start, across calls and agents: at first, before Stdin is read, and after each write.
	Taken func(total int64)
	// Resize yields the size of the terminal, at first and after each change.
	Resize <-chan Size
}

// Size is the size of a terminal, in characters.
type Size struct{ Width, Height uint16 }

// Container is a container to run. It does not change after its start.
type Container struct {
	// ID is unique to one attempt of one task: see ContainerID.
	ID string
	// Attempt is stored with the container and comes back in Observed.
	Attempt Attempt
	// Restart is the number of restarts before; it comes back in Observed too.
	Restart int

	// Image is a reference such as docker.io/library/busybox:1.36, or one with a digest.
	Image string
	// Entrypoint replaces the image's entry point and arguments, unless it is empty. Command follows
	// the entry point, and replaces the image's arguments, unless it is empty.
	Entrypoint, Command []string
	// Env are variables added to the image's, as NAME=value.
	Env []string
	// Dir is the working directory; "" means the image's.
	Dir string
	// User is uid[:gid] or a name of the image; "" means the image's.
	User string
	// StopSignal is a name such as SIGINT; "" means the image's.
	StopSignal string
	// Init makes an init program of the machine its first process.
	Init bool

	// MilliCPU is its share of cpu under contention, in thousandths of a core. It is also its
	// limit, unless CPULimit is types.CPUNone. 0 means what others leave idle, and no limit.
	MilliCPU int64
	CPULimit types.CPULimit
	// MemoryBytes is the memory limit in bytes; 0 means none. KillFirst has the kernel end it first.
	MemoryBytes int64
	KillFirst   bool
	// Pids is the limit of processes and threads; 0 means the runtime's default.
	Pids int64
	// CapAdd and CapDrop change its capabilities: see types.CapabilitiesOf. A user other than root
	// also gets those of CapAdd.
	CapAdd, CapDrop []string
	// Privileged gives it the rights of the machine's root.
	Privileged bool
	// ReadOnlyRoot makes the files of the image read-only.
	ReadOnlyRoot bool
	// MayStart is called last, just before the process runs. An error prevents the start and is
	// returned. nil means no call.
	MayStart func() error
	// Devices are the Container Device Interface names of the devices to inject.
	Devices []string
	// Mounts are host paths and file systems in memory to mount, in order.
	Mounts []Mount
	// Secrets are files in some of the file systems in memory when the process starts, for its user alone.
	// They are kept nowhere else.
	Secrets []secrets.Dir
	// Login returns the login of its namespace for the registry of the image: the runtime calls it if it needs
	// one. nil means none.
	Login func(ctx context.Context) (secrets.Login, error)
	// ShmBytes is the size of its shared memory; 0 means the runtime's default.
	ShmBytes int64
	// Ulimits are limits of its processes; those of the runtime apply to the rest.
	Ulimits []types.Ulimit
	// Workdir is a sent directory to mount; nil means none. The container gets a copy of its own,
	// which Remove deletes. NotFound at the start: its image is not on this machine.
	Workdir *types.Workdir

	// Stdin gives the process an input: see Attach. Without it, the process has an empty one.
	Stdin bool
	// TTY gives the process a terminal, of 80 by 24 characters until a client says otherwise. Its
	// output is one stream. The end of the input ends the terminal: the process gets SIGHUP.
	TTY bool

	// LogPath is the file to which standard output and error are appended.
	LogPath string
}

// Mount makes a path of the host visible in a container.
type Mount struct {
	Source   string
	Target   string
	ReadOnly bool
	// TmpfsBytes, unless 0, makes it a file system in memory of that size instead, without a source.
	TmpfsBytes int64
}

// Attempt identifies the purpose of a container. It is stored with the container, so that a
// restarted agent recognizes it.
type Attempt struct {
	// Cluster is the id of the cluster; a runtime lists only containers of its own cluster.
	Cluster string
	Node    string
	// Namespace, Task and Number are those of the binding's key.
	Namespace string
	Task      string
	Number    int
	// Revision is the CreateRevision of the binding.
	Revision int64
}

// Observed is a container as the runtime reports it.
type Observed struct {
	ID      string
	Attempt Attempt
	Restart int
	// Image is the image by digest.
	Image string
	// Check is the health check of the image; nil means none.
	Check *types.Check
	// Devices are those of Container.Devices.
	Devices []string
	// Running reports whether the process has started and is not known to have ended.
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
	// OOMKilled reports whether the kernel killed it for lack of memory.
	OOMKilled bool
	// At is when it ended.
	At time.Time
	// Reason is why it never ran, if so.
	Reason string
	// Lost reports whether it is not known how it ended. Code and Reason say so.
	Lost bool
	// CPU is the processor time of the process, and Memory its peak in bytes; 0 means not known.
	CPU    time.Duration
	Memory int64
}
