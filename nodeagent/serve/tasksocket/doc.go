// Package tasksocket is what a task can do from inside its container, by HTTP and
// JSON over a Unix socket: set a resource where it runs, read the state of the
// cluster, launch tasks and wait for them, in its own namespace. Server is the
// agent's side, one for each attempt; Client is that of a program in the container.
// docs/task-api.md describes the requests.
package tasksocket

import "github.com/escher-sched/escher/types"

// Dir is where the socket's directory is mounted in a container, Name the socket's
// file, and EnvSocket the variable that has the path; EnvImage has the image that the
// task runs.
const (
	Dir       = types.SocketDir
	Name      = "task.sock"
	EnvSocket = "ESCHER_SOCKET"
	EnvImage  = "ESCHER_IMAGE"
)

// Self is who a task is.
type Self struct {
	Namespace string `json:"namespace"`
	Task      string `json:"task"`
	Attempt   int    `json:"attempt"`
	Node      string `json:"node"`
}
