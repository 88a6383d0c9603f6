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

// When the client of containerd 1.6 dies while it has a task made or deleted, the
// daemon may forget the shim, which waits for ever, and leave its directory, so that
// no task of that id can be made any more. Nothing runs in such a shim: the process
// of a task is started by a later call.

const (
	// shimName is the program that containerd starts for each container.
	shimName = "containerd-shim-runc-v2"
	// runcRoot is where runc keeps its state, a directory a namespace.
	runcRoot = "/run/containerd/runc"
	// shimWait is how long a shim may take to end.
	shimWait = time.Second
)

// bundleThere is what containerd says when the directory of a task is there already.
var bundleThere = regexp.MustCompile(`failed to start shim: mkdir (/\S+): file exists`)

// shim is the process of one.
type shim struct {
	pid int
	id  string
}

// EndForgotten ends the shims of a containerd namespace of which containerd has no
// container, and removes the directories of such tasks: see above. Those that are about to
// end by themselves are waited for.
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

// ifUnknown does something about what is left of a container if containerd has none of
// that id, and nobody makes one meanwhile.
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

// alone does something while no call changes the container.
func (r *Runtime) alone(ctx context.Context, id string, do func() error) error {
	release, err := r.locks.acquire(ctx, id)
	if err != nil {
		return classify(err, "look for container %s", id)
	}
	defer release()
	return do()
}

// forgotten lists the shims without a container.
func (r *Runtime) forgotten(ctx context.Context) ([]shim, error) {
	// Shims first: a container is there before its shim is.
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

// dropBundles removes the directories of tasks of which containerd has no container, and
// those that a daemon which was killed was about to remove: a later one passes them over,
// and fails to remove the task of that id then, as they are in its way.
func (r *Runtime) dropBundles(ctx context.Context) error {
	var errs []error
	for _, parent := range r.bundles() {
		found, _ := filepath.Glob(filepath.Join(parent, "*")) // which takes hidden ones along
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

// bundles returns the directories that have those of the namespace's tasks: where daemons
// of our own have them, that of the machine, and where shims are.
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

// forget ends all that is left of a task that containerd does not know: processes, too,
// as it forgets a task whose shim was killed even if it could not kill what ran.
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
		// The shim of a directory that is half removed is in the renamed one.
		name := strings.TrimPrefix(filepath.Base(strings.TrimSuffix(bundle, " (deleted)")), ".")
		if err := r.dropBundle(filepath.Join(filepath.Dir(bundle), name), id); err != nil {
			return err
		}
	}
	return r.dropSocket(id)
}

// endShim ends a shim, and what runc made for it.
func (r *Runtime) endShim(ctx context.Context, s shim) error {
	fd, err := unix.PidfdOpen(s.pid, 0)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return types.Errorf(types.Unavailable, "end shim %d of container %s: %w", s.pid, s.id, err)
	}
	defer unix.Close(fd)
	// The number may have been used again before the handle was opened.
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

// killLeft kills what runs of a container that has no shim, and removes what runc and the
// kernel have of it: what has no parent to say how it ended must not run on.
func (r *Runtime) killLeft(ctx context.Context, id string) error {
	if r.control.layout == (cgroup.Layout{}) {
		return r.dropState(ctx, id) // Who ends what is forgotten has no containers.
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
		_ = os.Remove(dir) // what is in use stays, and is seen by whoever looks
	}
	return err
}

// dropState removes what runc has of a container, if it has anything: as a rule it has
// not; else the process waits to be started, or has been killed with its shim.
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

// shims lists the shims of the daemon's namespace.
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

// dropLeft removes the directory that kept a task from being made, if that is what
// the error says and containerd does not know the task.
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

// dropBundle removes the directory of a task, if it is there and is that.
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
