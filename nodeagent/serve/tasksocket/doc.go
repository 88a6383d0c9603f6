// Package tasksocket is the API for a task inside its container: a Unix socket, one for each attempt.
// It serves the operations of the HTTP API that a task may use: the program injects them. Its own part
// are the bounds, as a task must not exhaust the agent that it shares with others, and what only the agent
// can answer: hold and peers. docs/task-api.md describes it.
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
