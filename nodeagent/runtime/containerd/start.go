package containerd

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"time"

	tasks "github.com/containerd/containerd/api/services/tasks/v1"
	api "github.com/containerd/containerd/api/types"
	"github.com/containerd/containerd/api/types/task"
	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/errdefs"
	"github.com/moby/sys/signal"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
	"github.com/escher-sched/escher/nodeagent/runtime/attach"
	"github.com/escher-sched/escher/types"
)

const (
	runtimeName = "io.containerd.runc.v2"
	// cleanWait limits the removal of a container that failed to start.
	cleanWait = 10 * time.Second
	logMode   = 0o700
)

// Start implements nodeagent.Runtime. Each of its steps leaves a trace, so that the next call after
// a crash continues, and starts no process twice:
//
//	container record          nothing ran
//	+ file system             nothing ran
//	+ task, created           nothing ran, the process waits to be started
//	  but not by its process  it runs: its starter was killed before it could record that
//	+ task, stopped           nothing ran, as the label below is missing
//	+ label escher/started    it may run
//	+ task, running, stopped  it does or did
//	label without task        it may have run, and is lost
//
// The record comes first and references everything after it: nothing else keeps it from
// containerd's garbage collector.
func (r *Runtime) Start(ctx context.Context, c nodeagent.Container) (nodeagent.Started, error) {
	release, err := r.locks.acquire(ctx, c.ID)
	if err != nil {
		return nodeagent.Started{}, classify(err, "start container %s", c.ID)
	}
	defer release()
	m, err := r.create(ctx, c)
	if err == nil {
		return nodeagent.Started{Image: m.image, Check: m.check}, r.begin(ctx, c, m)
	}
	// The container may exist, even if its image does not.
	record, getErr := r.client.ContainerService().Get(ctx, c.ID)
	switch {
	case getErr == nil:
		return nodeagent.Started{Image: record.Labels[labelImage], Check: checkOf(record.Labels)}, r.resume(ctx, c, record)
	case !errdefs.IsNotFound(getErr):
		return nodeagent.Started{Image: m.image}, classify(getErr, "look for container %s", c.ID)
	case errdefs.IsAlreadyExists(err):
		err = types.Errorf(types.Unavailable, "start container %s: it was being removed", c.ID)
	}
	return nodeagent.Started{Image: m.image}, classify(err, "create container %s", c.ID)
}

// made is what a container is made from.
type made struct {
	image  string // by digest
	source client.Image
	parent string // the image's file system
	check  *types.Check
}

// create makes the container record. The error is containerd's AlreadyExists if there is one.
func (r *Runtime) create(ctx context.Context, c nodeagent.Container) (made, error) {
	if err := check(c); err != nil {
		return made{}, err
	}
	img, err := r.image(ctx, c.Image, userOf(c))
	if err != nil {
		return made{}, err
	}
	m := made{image: pinned(img.Name(), img.Target().Digest), source: img}
	t, err := r.template(ctx, img, c.User)
	if err != nil {
		return m, err
	}
	m.parent, m.check = t.parent, t.check
	ctx, workdir, release, err := r.workdir(ctx, c)
	if err != nil {
		return m, err
	}
	defer release()
	spec, err := r.spec(ctx, c, t, workdir)
	if err != nil {
		return m, err
	}
	runtime, err := r.control.runtime()
	if err != nil {
		return m, err
	}
	stop := t.stopSignal
	if c.StopSignal != "" {
		stop, _ = signal.ParseSignal(c.StopSignal) // check validated it
	}
	_, err = r.client.ContainerService().Create(ctx, containers.Container{
		ID:      c.ID,
		Labels:  withWorkdirLabels(c, labelsOf(c, m.image, stop, m.check)),
		Image:   img.Name(),
		Runtime: runtime,
		Spec:    spec, Snapshotter: snapshotter, SnapshotKey: c.ID,
	})
	return m, err
}

// resume continues where an earlier call stopped.
func (r *Runtime) resume(ctx context.Context, c nodeagent.Container, record containers.Container) error {
	if record.Labels[labelCluster] != r.conf.Cluster || record.Labels[labelNode] != r.conf.Node {
		return types.Errorf(types.Invalid, "start container %s: it exists, and is none of node %s of this cluster", c.ID, r.conf.Node)
	}
	first := record.Labels[labelStarted] == ""
	got, err := r.client.TaskService().Get(ctx, &tasks.GetRequest{ContainerID: c.ID})
	switch err = native(err); {
	case err != nil && !errdefs.IsNotFound(err):
		return classify(err, "look for the task of container %s", c.ID)
	case err == nil && got.Process.Status == task.Status_CREATED && (first || beforeStart(got.Process.Pid)):
		return r.release(ctx, c, got.Process.Pid, first)
	case !first:
		return nil // It runs, has run, or is lost: Wait and List tell.
	}
	// Nothing ran. Remove the traces of an interrupted call, which prevent another: a half-made
	// task, or a forgotten shim.
	if err := r.removeTask(ctx, c.ID); err != nil {
		return classify(err, "remove what is left of an earlier start of container %s", c.ID)
	}
	if c.LogPath != "" && c.Restart == 0 {
		// Only runc has written there, why it was interrupted.
		tasklog.Truncate(c.LogPath)
	}
	m, err := r.madeOf(ctx, c, record)
	if err != nil {
		return err
	}
	return r.begin(ctx, c, m)
}

// madeOf returns what an earlier call made the container from.
func (r *Runtime) madeOf(ctx context.Context, c nodeagent.Container, record containers.Container) (made, error) {
	m := made{image: cmp.Or(record.Labels[labelImage], record.Image)}
	img, err := r.image(ctx, m.image, userOf(c))
	if err != nil {
		return m, err
	}
	t, err := r.template(ctx, img, "")
	if err != nil {
		return m, err
	}
	m.source, m.parent = img, t.parent
	return m, nil
}

// begin makes the file system and the task, and starts its process.
func (r *Runtime) begin(ctx context.Context, c nodeagent.Container, m made) error {
	rootfs, err := r.rootfs(ctx, c.ID, m)
	if err != nil {
		r.clean(ctx, c.ID)
		return err
	}
	streams, release, err := r.streamsOf(c)
	if err != nil {
		r.clean(ctx, c.ID)
		return err
	}
	defer release()
	created, err := r.client.TaskService().Create(ctx, &tasks.CreateTaskRequest{
		ContainerID: c.ID, Rootfs: rootfs, Terminal: streams.Terminal, Stdin: streams.Stdin, Stdout: streams.Stdout, Stderr: streams.Stderr,
	})
	if err = native(err); err != nil {
		if left := r.dropLeft(ctx, err, c.ID); left != nil {
			return left
		}
		err, known := refused(err, c.ID)
		if known {
			r.clean(ctx, c.ID)
		}
		return err
	}
	return r.release(ctx, c, created.Pid, true)
}

// rootfs makes the file system of a container before its first process.
func (r *Runtime) rootfs(ctx context.Context, id string, m made) ([]*api.Mount, error) {
	mounts, err := r.prepare(ctx, id, m)
	if err != nil {
		return nil, err
	}
	all := make([]*api.Mount, 0, len(mounts))
	for _, m := range mounts {
		all = append(all, &api.Mount{Type: m.Type, Source: m.Source, Target: m.Target, Options: m.Options})
	}
	return all, nil
}

// prepare makes a writable copy of an image's file system.
func (r *Runtime) prepare(ctx context.Context, key string, m made) ([]mount.Mount, error) {
	service := r.client.SnapshotService(snapshotter)
	mounts, err := service.Prepare(ctx, key, m.parent)
	switch {
	case errdefs.IsAlreadyExists(err): // of an interrupted call
		if err := service.Remove(ctx, key); err != nil {
			return nil, classify(err, "make the file system %s again", key)
		}
		mounts, err = service.Prepare(ctx, key, m.parent)
	case errdefs.IsNotFound(err): // that of the image
		if err := r.unpacked(ctx, m.source); err != nil {
			return nil, err
		}
		mounts, err = service.Prepare(ctx, key, m.parent)
	}
	if err != nil {
		return nil, types.Errorf(types.Unavailable, "make the file system %s: %w", key, err)
	}
	return mounts, nil
}

// release starts the process of a created task. first: no earlier call may have done so.
func (r *Runtime) release(ctx context.Context, c nodeagent.Container, pid uint32, first bool) error {
	id := c.ID
	if len(c.Secrets) > 0 {
		record, err := r.client.ContainerService().Get(ctx, id)
		if err != nil {
			return classify(err, "look for container %s", id)
		}
		if err := giveSecrets(c.Secrets, record, pid); err != nil {
			return err
		}
	}
	labels := map[string]string{labelStarted: formatTime(time.Now())}
	if c.LogPath != "" {
		pipes, identity := r.pipesFor(c, pid)
		r.outputs.hold(id, pipes, r.logOf(c.LogPath))
		labels[labelOutput] = identity
		if identity == namedPipes {
			if err := r.outputs.begin(id, r.logOf(c.LogPath)); err != nil {
				return types.Errorf(types.Unavailable, "log container %s: %w", id, err)
			}
		}
	}
	if c.MilliCPU == 0 {
		cgroup.Idle(cgroup.DefaultRoot, r.control.layout.Path(id))
	}
	// With this label, no later call starts it again.
	err := r.label(ctx, id, labels)
	if err != nil {
		return classify(err, "mark container %s as started", id)
	}
	if c.MayStart != nil {
		if err := c.MayStart(); err != nil {
			return err
		}
	}
	_, err = r.client.TaskService().Start(ctx, &tasks.StartRequest{ContainerID: id})
	if err != nil {
		err, known := refused(native(err), id)
		if known && (first || beforeStart(pid)) {
			r.clean(ctx, id)
		}
		return err // After an earlier call it may have run: the next call sees its end.
	}
	if c.Stdin {
		r.holdInput(id)
	}
	return nil
}

// label sets labels of a container, and keeps its others.
func (r *Runtime) label(ctx context.Context, id string, labels map[string]string) error {
	paths := make([]string, 0, len(labels))
	for key := range labels {
		paths = append(paths, "labels."+key)
	}
	_, err := r.client.ContainerService().Update(ctx, containers.Container{ID: id, Labels: labels}, paths...)
	return err
}

// logOf returns the configuration of a log.
func (r *Runtime) logOf(path string) tasklog.Config {
	return tasklog.Config{Path: path, MaxBytes: r.conf.LogMaxBytes}
}

// output returns the destination of standard output and error, in containerd's form.
func (r *Runtime) output(c nodeagent.Container) (string, error) {
	if c.LogPath == "" {
		return "", nil
	}
	if err := os.MkdirAll(filepath.Dir(c.LogPath), logMode); err != nil {
		return "", types.Errorf(types.Unavailable, "make the directory of the log of container %s: %w", c.ID, err)
	}
	arg := r.logOf(c.LogPath).Arg()
	uri, err := cio.LogURIGenerator("binary", r.conf.Logger.Path, map[string]string{r.conf.Logger.Subcommand: arg})
	if err != nil {
		return "", types.Errorf(types.Invalid, "log container %s with %s: %w", c.ID, r.conf.Logger.Path, err)
	}
	return uri.String(), nil
}

// clean removes a container that failed to start, even after ctx is done. If it fails, the next
// Start finds the rest.
func (r *Runtime) clean(ctx context.Context, id string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanWait)
	defer cancel()
	_ = r.remove(ctx, id) // The caller returns the error of the start.
}

// pipesDir returns the directory of the pipes of a container.
func (r *Runtime) pipesDir(id string) string {
	return filepath.Join(filepath.Dir(r.conf.Address), "fifo", r.conf.Namespace+"-"+id)
}

// streamsOf returns the input and the output of a container, in containerd's form. The caller calls
// release once the task is created.
func (r *Runtime) streamsOf(c nodeagent.Container) (streams cio.Config, release func(), err error) {
	if !c.Stdin && !c.TTY {
		output, err := r.output(c)
		return cio.Config{Stdout: output, Stderr: output}, func() {}, err
	}
	dir := r.pipesDir(c.ID)
	pipes, err := attach.MakePipes(dir, c.Stdin, c.TTY)
	if err != nil {
		return streams, nil, types.Errorf(types.Unavailable, "make the pipes of container %s: %w", c.ID, err)
	}
	// The shim waits for a reader.
	readers := attach.OpenOutput(dir)
	return cio.Config{Terminal: c.TTY, Stdin: pipes.Stdin, Stdout: pipes.Stdout, Stderr: pipes.Stderr}, func() { closeAll(readers) }, nil
}
