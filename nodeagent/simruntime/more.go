package simruntime

import (
	"context"
	"io"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// Exec implements nodeagent.Runtime.
func (r *Runtime) Exec(_ context.Context, id string, _ nodeagent.Process) (int, error) {
	return 0, types.Errorf(types.Precondition, "run a command in container %s: it does not run", id)
}

// Root implements nodeagent.Runtime.
func (r *Runtime) Root(_ context.Context, id string) (string, error) {
	return "", types.Errorf(types.Precondition, "show the files of container %s: it does not run", id)
}

// Usage implements nodeagent.Runtime.
func (r *Runtime) Usage(context.Context) (map[string]nodeagent.Usage, error) { return nil, nil }

// Pull implements nodeagent.Images.
func (r *Runtime) Pull(_ context.Context, ref string) (nodeagent.Image, error) {
	return nodeagent.Image{Name: ref}, nil
}

// Load implements nodeagent.Images.
func (r *Runtime) Load(context.Context, io.Reader) ([]nodeagent.Image, error) { return nil, nil }

// Images implements nodeagent.Images.
func (r *Runtime) Images(context.Context) ([]nodeagent.Image, error) { return nil, nil }

// Pulling implements nodeagent.Images.
func (r *Runtime) Pulling() []nodeagent.Pulling { return nil }
