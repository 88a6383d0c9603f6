package containerd

import (
	"context"
	"os"
	"path/filepath"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/errdefs"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/tasklog"
	"github.com/escher-sched/escher/types"
)

const (
	runtimeName = "io.containerd.runc.v2"
	// cleanWait bounds how long it may take to remove what failed to start.
	cleanWait = 10 * time.Second
	logMode   = 0o700
)

// Start implements nodeagent.Runtime. Its steps leave a trace each, so that
// after a crash anywhere the next call goes on, and starts no process twice:
//
//	container record          nothing ran
//	+ task, created           nothing ran, the process waits to be started
//	+ label escher/started    it may run
//	+ task, running, stopped  it does or did
//	label without task        it may have run, and is lost
func (r *Runtime) Start(ctx context.Context, c nodeagent.Container) (nodeagent.Started, error) {
	return nodeagent.Started{}, r.start(ctx, c)
}

func (r *Runtime) start(ctx context.Context, c nodeagent.Container) error {
	release, err := r.locks.acquire(ctx, c.ID)
	if err != nil {
		return classify(err, "start container %s", c.ID)
	}
	defer release()
	made, err := r.create(ctx, c)
	if errdefs.IsAlreadyExists(err) {
		return r.resume(ctx, c)
	}
	if err != nil {
		return classify(err, "create container %s", c.ID)
	}
	return r.begin(ctx, c, made)
}

// create makes the container record and its file system. The error is
// containerd's AlreadyExists when there is such a record.
func (r *Runtime) create(ctx context.Context, c nodeagent.Container) (client.Container, error) {
	if err := check(c); err != nil {
		return nil, err
	}
	img, err := r.image(ctx, c.Image)
	if err != nil {
		return nil, err
	}
	made, err := r.newContainer(ctx, c, img)
	if err == nil {
		return made, nil
	}
	if _, getErr := r.client.ContainerService().Get(ctx, c.ID); !errdefs.IsNotFound(getErr) {
		return nil, err
	}
	// There is no record, but there may be a snapshot: of this call, or of one
	// that was cut short.
	r.dropSnapshot(ctx, c.ID)
	switch {
	case errdefs.IsAlreadyExists(err):
		made, err = r.newContainer(ctx, c, img)
	case errdefs.IsNotFound(err): // of the snapshot of the image
		if err := r.unpacked(ctx, img); err != nil {
			return nil, err
		}
		made, err = r.newContainer(ctx, c, img)
	}
	if errdefs.IsNotFound(err) {
		return nil, types.Errorf(types.Unavailable, "create container %s: %w", c.ID, err)
	}
	return made, err
}

func (r *Runtime) newContainer(ctx context.Context, c nodeagent.Container, img client.Image) (client.Container, error) {
	return r.client.NewContainer(ctx, c.ID,
		client.WithSnapshotter(snapshotter),
		client.WithNewSnapshot(c.ID, img),
		client.WithContainerLabels(labelsOf(c.Attempt)),
		client.WithNewSpec(r.spec(c, img)...),
	)
}

// resume goes on where an earlier call stopped.
func (r *Runtime) resume(ctx context.Context, c nodeagent.Container) error {
	record, err := r.client.ContainerService().Get(ctx, c.ID)
	if errdefs.IsNotFound(err) {
		return types.Errorf(types.Unavailable, "start container %s: it was being removed", c.ID)
	}
	if err != nil {
		return classify(err, "look for container %s", c.ID)
	}
	if record.Labels[labelCluster] != r.conf.Cluster || record.Labels[labelNode] != r.conf.Node {
		return types.Errorf(types.Invalid, "start container %s: it exists, and is none of node %s of this cluster", c.ID, r.conf.Node)
	}
	got, err := r.client.TaskService().Get(ctx, &tasks.GetRequest{ContainerID: c.ID})
	switch err = native(err); {
	case errdefs.IsNotFound(err) && record.Labels[labelStarted] != "":
		return nil // It is lost, as Wait and List will say.
	case errdefs.IsNotFound(err):
		made, err := r.client.LoadContainer(ctx, c.ID)
		if err != nil {
			return classify(err, "load container %s", c.ID)
		}
		// A call that was cut short may have left a shim that nobody knows.
		if err := r.forget(ctx, c.ID); err != nil {
			return err
		}
		return r.begin(ctx, c, made)
	case err != nil:
		return classify(err, "look for the task of container %s", c.ID)
	case got.Process.Status == task.Status_CREATED:
		return r.release(ctx, c.ID)
	}
	return nil
}

// begin makes the task and starts its process.
func (r *Runtime) begin(ctx context.Context, c nodeagent.Container, made client.Container) error {
	output, err := r.output(c)
	if err != nil {
		r.clean(ctx, c.ID)
		return err
	}
	if _, err := made.NewTask(ctx, output); err != nil {
		if left := r.dropLeft(ctx, err, c.ID); left != nil {
			return left
		}
		err, known := refused(err, c.ID)
		if known {
			r.clean(ctx, c.ID)
		}
		return err
	}
	return r.release(ctx, c.ID)
}

// release lets the process of a created task run.
func (r *Runtime) release(ctx context.Context, id string) error {
	// After this label, nobody starts it again.
	err := r.label(ctx, id, labelStarted, formatTime(time.Now()))
	if err != nil {
		return classify(err, "mark container %s as started", id)
	}
	_, err = r.client.TaskService().Start(ctx, &tasks.StartRequest{ContainerID: id})
	if err != nil {
		err, known := refused(native(err), id)
		if known {
			r.clean(ctx, id)
		}
		return err
	}
	return nil
}

func (r *Runtime) label(ctx context.Context, id, key, value string) error {
	_, err := r.client.ContainerService().Update(ctx,
		containers.Container{ID: id, Labels: map[string]string{key: value}}, "labels."+key)
	return err
}

// output returns where standard output and error go.
func (r *Runtime) output(c nodeagent.Container) (cio.Creator, error) {
	if c.LogPath == "" {
		return cio.NullIO, nil
	}
	if err := os.MkdirAll(filepath.Dir(c.LogPath), logMode); err != nil {
		return nil, types.Errorf(types.Unavailable, "make the directory of the log of container %s: %w", c.ID, err)
	}
	arg := tasklog.Config{Path: c.LogPath, MaxBytes: r.conf.LogMaxBytes}.Arg()
	return cio.BinaryIO(r.conf.Logger.Path, map[string]string{r.conf.Logger.Subcommand: arg}), nil
}

// clean removes what failed to start, also when ctx is done. What remains when
// it fails, the next Start finds.
func (r *Runtime) clean(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanWait)
	defer cancel()
	_ = r.remove(ctx, id) // The caller returns why it did not start.
}
