package rest

import (
	"context"
	"net/http"

	"github.com/escher-sched/escher/api/requests"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
)

// signalled is the body of a request for a signal.
type signalled struct {
	Signal string `json:"signal" doc:"its name, such as SIGUSR1, or its number"`
}

// onSignal is the input of signalTask.
type onSignal struct {
	OnAttempt
	RawBody []byte `contentType:"application/json"`
}

func (o *onSignal) raw() []byte { return o.RawBody }

// OnPath is an input that names a path in a container.
type OnPath struct {
	OnAttempt
	Path string `query:"path" required:"true" maxLength:"4096" doc:"the file or directory, as the process sees it"`
}

// read is the input of getFiles and statFile.
type read struct {
	OnPath
	Follow bool `query:"follow" doc:"follows the path if it is a link"`
}

// inside registers the operations on the containers of attempts.
func (s *service) inside() {
	const path, tag = "/v1/namespaces/{namespace}/tasks/{id}/", "containers"
	what := func(name string) func(*OnAttempt, *attempt) string {
		return func(_ *OnAttempt, at *attempt) string { return nodeapi.Path(name, at.ns, at.id, at.number) }
	}
	socket(s, operation{http.MethodGet, path + "exec", "execInTask", "Run a command in the container of a task, by a WebSocket", tag}, what("exec"))
	socket(s, operation{http.MethodGet, path + "attach", "attachToTask", "Pass input to the process of a task, by a WebSocket", tag}, what("attach"))
	socket(s, operation{http.MethodGet, path + "ports/{port}", "forwardPort", "Connect to a port of a task, by a WebSocket", tag},
		func(in *struct {
			OnAttempt
			Port string `path:"port" pattern:"^[1-9][0-9]{0,4}$" doc:"the port at the node of the task"`
		}, at *attempt,
		) string {
			return nodeapi.Path("ports", at.ns, at.id, at.number) + "/" + in.Port
		})
	post(s, operation{http.MethodPost, path + "signal", "signalTask", "Send a signal to the process of a task", tag},
		func(ctx context.Context, in *onSignal, b signalled) (requests.Committed, error) {
			at, err := s.attempt(ctx, in.on())
			if err != nil {
				return requests.Committed{}, err
			}
			defer at.Close()
			return requests.Committed{}, at.Signal(ctx, at.ns, at.id, at.number, b.Signal)
		})
	asked(s, operation{http.MethodGet, path + "files/stat", "statFile", "Describe a file or directory in the container of a task", tag},
		func(ctx context.Context, in *read, at *attempt) (nodeapi.Stat, error) {
			return at.Stat(ctx, at.ns, at.id, at.number, in.Path, in.Follow)
		})
	files := func(at *attempt) string { return nodeapi.Path("files", at.ns, at.id, at.number) }
	get := operation{http.MethodGet, path + "files", "getFiles", "Read a file or directory in the container of a task, as a tar archive", tag}
	passed(s, answers(s.described(get), "the archive; the trailer Escher-Skipped counts what was left out", "application/x-tar"),
		func(_ *read, at *attempt) string { return files(at) })
	put := operation{http.MethodPut, path + "files", "putFiles", "Unpack a tar archive into a directory in the container of a task", tag}
	passed(s, takes(answers(s.described(put), "it was unpacked", "application/json")),
		func(_ *struct {
			OnPath
			Owners bool `query:"owners" doc:"keeps the owners in the archive; else the files belong to root"`
		}, at *attempt,
		) string {
			return files(at)
		})
}
