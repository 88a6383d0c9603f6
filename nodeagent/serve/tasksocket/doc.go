// Package tasksocket is the API for a task inside its container, by HTTP and JSON over a Unix
// socket: set a resource on its node, read the state of the cluster, launch tasks and wait for
// them, in its own namespace. Server is the agent's side, one for each attempt. Client is for a
// program in the container. docs/task-api.md describes the requests.
package tasksocket

import "github.com/escher-sched/escher/types"

// Dir is the mount point of the socket's directory in a container, Name the file of the socket,
// PeersName that of the addresses of peers, and EnvSocket the variable with the path of the socket.
// EnvImage has the image of the task.
const (
	Dir       = types.SocketDir
	Name      = "task.sock"
	PeersName = "peers"
	EnvSocket = "ESCHER_SOCKET"
	EnvImage  = "ESCHER_IMAGE"
)

// Self identifies a task.
type Self struct {
	Namespace string `json:"namespace"`
	Task      string `json:"task"`
	Attempt   int    `json:"attempt"`
	Node      string `json:"node"`
}
