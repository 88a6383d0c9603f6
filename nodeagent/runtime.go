// Package nodeagent runs on every machine of a cluster: it registers the node,
// runs what is bound to it, and reports what became of it.
package nodeagent

import (
	"context"
	"syscall"
	"time"
)

// Runtime runs containers. There are two: nodeagent/containerd and the simulated
// nodeagent/simruntime; both pass runtimetest.Run.
//
// Every method is idempotent and may be called again after an error. A runtime
// never retries: it returns an error of class Unavailable (package types) when
// it does not know, and the agent asks again. What it does not know it never
// takes for an exit.
type Runtime interface {
	// Start makes the container and starts its process. When a container of
	// that id exists, nothing is done: a process is never run twice. Invalid
	// or NotFound: it can never start (no such image, no such command), and
	// nothing was left behind.
	Start(ctx context.Context, c Container) error

	// List returns every container of this node that Start made and Remove
	// did not remove, across restarts of agent and runtime.
	List(ctx context.Context) ([]Observed, error)

	// Wait returns when the container's process has ended, with how it ended,
	// as often as it is asked until Remove. NotFound: there is no such
	// container. Unavailable: it is not known.
	Wait(ctx context.Context, id string) (Exit, error)

	// Signal sends a signal to the container's process. Success when it has
	// ended; NotFound when there is no such container.
	Signal(ctx context.Context, id string, signal syscall.Signal) error

	// Remove deletes the container and all that belongs to it but its logs,
	// killing the process if there is one. Success when there is none.
	Remove(ctx context.Context, id string) error

	// Changes returns a channel that yields when the state of some container
	// may have changed: a hint to List again, not a record. It is closed when
	// ctx is done or the connection to the runtime is lost.
	Changes(ctx context.Context) <-chan struct{}
}

// Container is what to run. All of it is fixed at its start.
type Container struct {
	// ID is unique to one attempt of one task: see ContainerID.
	ID string
	// Attempt is stored with the container and comes back in Observed.
	Attempt Attempt

	// Image is a reference such as docker.io/library/busybox:1.36.
	Image string
	// Command replaces the image's entry point and arguments, if not empty.
	Command []string
	// Env are the variables added to the image's, as NAME=value.
	Env []string
	// Dir is the working directory; empty is the image's.
	Dir string
	// User is uid[:gid] or a name of the image; empty is the image's.
	User string

	// MilliCPU is the cpu limit in thousandths of a core; 0 is none.
	MilliCPU int64
	// MemoryBytes is the memory limit in bytes; 0 is none.
	MemoryBytes int64
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
}
