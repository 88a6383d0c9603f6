package simruntime

import (
	"context"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/types"
)

// Exec implements nodeagent.Runtime.
func (r *Runtime) Exec(ctx context.Context, id string, p nodeagent.Process) (int, error) {
	if err := r.mustRun(id); err != nil {
		return 0, err
	}
	if r.conf.Exec == nil {
		return 0, types.Errorf(types.NotFound, "run %q in container %s: there is no such command", p.Command, id)
	}
	if p.Started != nil {
		p.Started()
	}
	return r.conf.Exec(ctx, id, p)
}

// Root implements nodeagent.Runtime.
func (r *Runtime) Root(_ context.Context, id string) (string, error) {
	if err := r.mustRun(id); err != nil {
		return "", err
	}
	if r.conf.Root == nil {
		return "", types.Errorf(types.Precondition, "show the files of container %s: it has none", id)
	}
	return r.conf.Root(id), nil
}

// mustRun returns nil if a container runs, and an error otherwise.
func (r *Runtime) mustRun(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch k := r.containers[id]; {
	case r.isDown():
		return unavailable("Look", id)
	case k == nil:
		return missing("Look", id)
	case !k.seen.Running:
		return types.Errorf(types.Precondition, "look into container %s: it does not run", id)
	}
	return nil
}

// Usage implements nodeagent.Runtime.
func (r *Runtime) Usage(_ context.Context, id string) (cgroup.Stat, error) {
	err := r.mustRun(id)
	if types.Is(err, types.Precondition) {
		err = types.Errorf(types.NotFound, "read what container %s uses: it does not run", id)
	}
	if err != nil {
		return cgroup.Stat{}, err
	}
	return r.conf.Usage(id), nil
}

// Pull implements nodeagent.Images.
func (r *Runtime) Pull(_ context.Context, ref string) (nodeagent.Image, error) {
	return nodeagent.Image{Name: ref}, nil
}

// Images implements nodeagent.Images.
func (r *Runtime) Images(context.Context) ([]nodeagent.Image, error) { return nil, nil }

// Pulling implements nodeagent.Images.
func (r *Runtime) Pulling() []nodeagent.Pulling { return nil }
