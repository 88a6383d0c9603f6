package containerd

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/types"
)

// If the client of containerd 1.6 dies while it makes or deletes a task, the daemon may forget the
// shim, which then waits forever. The daemon also leaves the task's directory, so that no task of
// that id can be made again. Such a shim runs no process: a later call starts the process of a
// task.

const (
	// shimName is the program that containerd starts for each container.
	shimName = "containerd-shim-runc-v2"
	// runcRoot is the directory of runc's state, with a directory per namespace.
	runcRoot = "/run/containerd/runc"
	// shimWait is how long a shim may take to end.
	shimWait = time.Second
)

// bundleThere matches containerd's error if the directory of a task exists already.
var bundleThere = regexp.MustCompile(`failed to start shim: mkdir (/\S+): file exists`)

// shim is the process of a shim.
type shim struct {
	pid int
	id  string
}

// EndForgotten ends the shims of a containerd namespace for which containerd has no container, and
// removes the directories of their tasks: see above. It waits for shims that are about to end by
// themselves.
func EndForgotten(ctx context.Context, address, namespace string) error {
	c, err := connect(address, namespace)
	if err != nil {
		return err
	}
	defer c.Close()
	r := &Runtime{conf: Config{Address: address, Namespace: namespace}, client: c}
	return r.endForgotten(ctx)
}

func (r *Runtime) endForgotten(ctx context.Context) error {
	deadline := time.Now().Add(shimWait)
	for {
		forgotten, err := r.forgotten(ctx)
		switch {
		case err != nil:
			return err
		case len(forgotten) == 0:
			return r.dropBundles(ctx)
		case time.Now().After(deadline):
			errs := []error{r.dropBundles(ctx)}
			for _, s := range forgotten {
				errs = append(errs, r.ifUnknown(ctx, s.id, func() error { return r.forget(ctx, s.id) }))
			}
			return errors.Join(errs...)
		}
		if err := supervise.Pause(ctx, shimWait/20); err != nil {
			return classify(err, "end the shims of namespace %s", r.conf.Namespace)
		}
	}
}

// ifUnknown calls do if containerd has no container of that id. No call makes one meanwhile.
func (r *Runtime) ifUnknown(ctx context.Context, id string, do func() error) error {
	return r.alone(ctx, id, func() error {
		switch _, err := r.client.ContainerService().Get(ctx, id); {
		case err == nil:
			return nil
		case !errdefs.IsNotFound(err):
			return classify(err, "look for container %s", id)
		}
		return do()
	})
}

// alone calls do while no other call changes the container.
func (r *Runtime) alone(ctx context.Context, id string, do func() error) error {
	release, err := r.locks.acquire(ctx, id)
	if err != nil {
		return classify(err, "look for container %s", id)
	}
	defer release()
	return do()
}

// forgotten returns the shims without a container.
func (r *Runtime) forgotten(ctx context.Context) ([]shim, error) {
	// List shims first: a container exists before its shim.
	found := r.shims()
	if len(found) == 0 {
		return nil, nil
	}
	records, err := r.client.ContainerService().List(ctx)
	if err != nil {
		return nil, classify(err, "list containers of namespace %s", r.conf.Namespace)
	}
	known := make(map[string]bool, len(records))
	for _, record := range records {
		known[record.ID] = true
	}
	return slices.DeleteFunc(found, func(s shim) bool { return known[s.id] }), nil
}

// dropBundles removes the directories of tasks for which containerd has no container, and those
// that a killed daemon was about to remove. A later daemon skips the latter, and they make its
// removal of a task of that id fail.
func (r *Runtime) dropBundles(ctx context.Context) error {
	var errs []error
	for _, parent := range r.bundles() {
		found, _ := filepath.Glob(filepath.Join(parent, "*")) // hidden ones included
		for _, dir := range found {
			name := filepath.Base(dir)
			drop := func() error { return r.dropBundle(dir, name) }
			if id, hidden := strings.CutPrefix(name, "."); hidden {
				errs = append(errs, r.alone(ctx, id, drop))
			} else {
				errs = append(errs, r.ifUnknown(ctx, name, drop))
			}
		}
	}
	return errors.Join(errs...)
}

// bundles returns the directories that contain those of the namespace's tasks: of private daemons,
// of the machine's daemon, and of the running shims.
func (r *Runtime) bundles() []string {
	const tasks = "io.containerd.runtime.v2.task"
	at := filepath.Dir(r.conf.Address)
	parents := []string{filepath.Join(at, tasks, r.conf.Namespace), filepath.Join(at, "state", tasks, r.conf.Namespace)}
	for _, s := range r.shims() {
		bundle, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(s.pid), "cwd"))
		if err == nil && !slices.Contains(parents, filepath.Dir(bundle)) {
			parents = append(parents, filepath.Dir(bundle))
		}
	}
	return parents
}

// forget removes everything of a task that containerd does not know. It also kills processes:
// containerd forgets a task whose shim was killed even if it could not kill the processes.
func (r *Runtime) forget(ctx context.Context, id string) error {
	if err := r.killLeft(ctx, id); err != nil {
		return err
	}
	for _, s := range r.shims() {
		if s.id != id {
			continue
		}
		bundle, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(s.pid), "cwd")) // it may have ended
		if err := r.endShim(ctx, s); err != nil {
			return err
		}
		// The directory of the shim may be renamed by a removal under way.
		name := strings.TrimPrefix(filepath.Base(strings.TrimSuffix(bundle, " (deleted)")), ".")
		if err := r.dropBundle(filepath.Join(filepath.Dir(bundle), name), id); err != nil {
			return err
		}
	}
	return r.dropSocket(id)
}

// endShim kills a shim, and removes runc's state of its container.
func (r *Runtime) endShim(ctx context.Context, s shim) error {
	fd, err := unix.PidfdOpen(s.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return types.Errorf(types.Unavailable, "end shim %d of container %s: %w", s.pid, s.id, err)
	}
	defer unix.Close(fd)
	// The number may have been reused before the open.
	if !slices.Contains(r.shims(), s) {
		return nil
	}
	if err := unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0); err != nil && !errors.Is(err, unix.ESRCH) {
		return types.Errorf(types.Unavailable, "end shim %d of container %s: %w", s.pid, s.id, err)
	}
	if n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, int(shimWait.Milliseconds())); err != nil || n == 0 {
		return types.Errorf(types.Unavailable, "end shim %d of container %s: it does not end", s.pid, s.id)
	}
	return r.dropState(ctx, s.id)
}

// killLeft kills the processes of a container without a shim, and removes its runc state and
// cgroups: a process without a parent to report its end must not run on.
func (r *Runtime) killLeft(ctx context.Context, id string) error {
	if r.control.layout == (cgroup.Layout{}) {
		return r.dropState(ctx, id) // EndForgotten has no containers.
	}
	path := r.control.layout.Path(id)
	if err := cgroup.Kill(ctx, cgroup.DefaultRoot, path); err != nil {
		return err
	}
	if err := r.dropState(ctx, id); err != nil {
		return err
	}
	dirs, err := cgroup.Dirs(cgroup.DefaultRoot, path)
	for _, dir := range dirs {
		_ = os.Remove(dir) // a cgroup in use stays, and later calls see it
	}
	return err
}

// dropState removes runc's state of a container, if any. There usually is none. Otherwise the
// process waits for its start, or was killed with its shim.
func (r *Runtime) dropState(ctx context.Context, id string) error {
	root := filepath.Join(runcRoot, r.conf.Namespace)
	if _, err := os.Stat(filepath.Join(root, id)); err != nil {
		return nil
	}
	if out, err := exec.CommandContext(ctx, "runc", "--root", root, "delete", "--force", id).CombinedOutput(); err != nil {
		return types.Errorf(types.Unavailable, "remove what runc has of container %s: %w: %s", id, err, out)
	}
	return nil
}

// shims returns the shims of the daemon's namespace.
func (r *Runtime) shims() []shim {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline") // a good pattern has no error
	var found []shim
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended
		}
		args := strings.Split(string(text), "\x00")
		if filepath.Base(args[0]) != shimName || flagOf(args, "-namespace") != r.conf.Namespace || flagOf(args, "-address") != r.conf.Address {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file))); err == nil {
			found = append(found, shim{pid, flagOf(args, "-id")})
		}
	}
	return found
}

// flagOf returns the argument that follows a flag.
func flagOf(args []string, name string) string {
	i := slices.Index(args, name)
	if i < 0 || i+1 >= len(args) {
		return ""
	}
	return args[i+1]
}

// dropLeft removes the directory that prevented a new task, if the error states that. It first
// forgets the task.
func (r *Runtime) dropLeft(ctx context.Context, err error, id string) error {
	found := bundleThere.FindStringSubmatch(err.Error())
	if found == nil {
		return nil
	}
	if err := r.forget(ctx, id); err != nil {
		return err
	}
	return r.dropBundle(found[1], id)
}

// dropBundle removes the directory of a task, if the path is one and exists.
func (r *Runtime) dropBundle(path, id string) error {
	if filepath.Base(path) != id || filepath.Base(filepath.Dir(path)) != r.conf.Namespace {
		return nil
	}
	rootfs := filepath.Join(path, "rootfs")
	if err := unix.Unmount(rootfs, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return types.Errorf(types.Unavailable, "unmount %s: %w", rootfs, err)
	}
	if err := os.RemoveAll(path); err != nil {
		return types.Errorf(types.Unavailable, "remove %s: %w", path, err)
	}
	return nil
}
