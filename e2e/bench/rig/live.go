package rig

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/oci"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/etcdstore"
	"github.com/escher-sched/escher/nodeagent/runtime/image"
	"github.com/escher-sched/escher/types"
)

// TinyImage is the image with the two tiny programs, made for each cluster.
const TinyImage = "escher.local/bench:latest"

// Live is a cluster of the real program on real containers, and its containerd.
type Live struct {
	// Dir is the directory of the cluster.
	Dir string
	// Endpoint is the address of its etcd.
	Endpoint   string
	cmd        *exec.Cmd
	ended      chan error
	store      *etcdstore.Store
	Client     *controlplane.Client
	Containerd *containerd.Client
}

// WithLive runs f with its own cluster of the real program.
func WithLive(ctx context.Context, cfg Config, f func(context.Context, *Live) error) error {
	return WithDirectory(cfg, func(dir string) (err error) {
		l := &Live{Dir: dir, ended: make(chan error, 1)}
		if err := l.up(ctx, cfg); err != nil {
			return errors.Join(err, l.down())
		}
		defer func() { err = errors.Join(err, l.down()) }()
		if err := l.load(ctx); err != nil {
			return err
		}
		return f(ctx, l)
	})
}

// WithWork is WithLive for tasks that write what they have done into a directory, work, which they may
// mount. The cluster has an image of that name with this program, /bin/escher-bench.
func WithWork(ctx context.Context, cfg Config, name string, f func(ctx context.Context, l *Live, work string) error) error {
	return WithDirectory(cfg, func(dir string) error {
		work := filepath.Join(dir, "work")
		if err := os.MkdirAll(work, 0o755); err != nil {
			return err
		}
		cfg.Mounts = append(slices.Clip(cfg.Mounts), work)
		return WithLive(ctx, cfg, func(ctx context.Context, l *Live) error {
			if err := l.MakeImage(ctx, name, map[string]string{"/bin/escher-bench": cfg.Self}); err != nil {
				return err
			}
			return f(ctx, l, work)
		})
	})
}

// up starts the cluster and connects to it.
func (l *Live) up(ctx context.Context, cfg Config) error {
	// In its own process group, so that only down interrupts it.
	cmd := exec.Command(cfg.Escher, "dev", "--dir", l.Dir, "--nodes", strconv.Itoa(cfg.Nodes), "--containerd", "private")
	for _, m := range cfg.Mounts {
		cmd.Args = append(cmd.Args, "--allow-mount", m)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cfg.Say("starting %s", strings.Join(cmd.Args, " "))
	if err := cmd.Start(); err != nil {
		return types.Errorf(types.Precondition, "run %s: %w", cfg.Escher, err)
	}
	l.cmd = cmd
	ready := make(chan struct{})
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "ready") {
				close(ready)
			}
		}
		l.ended <- cmd.Wait()
	}()
	select {
	case <-ready:
		return l.connect(ctx)
	case err := <-l.ended:
		l.cmd = nil
		return types.Errorf(types.Precondition, "escher dev did not start: %w: run it by hand to see why", err)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// connect makes the clients of its etcd and of its containerd.
func (l *Live) connect(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join(l.Dir, "dev.json"))
	if err != nil {
		return err
	}
	var info struct{ Endpoint, Containerd, ContainerdNamespace string }
	if err := json.Unmarshal(text, &info); err != nil {
		return err
	}
	l.Endpoint = info.Endpoint
	if l.store, err = etcdstore.Dial(ctx, etcdstore.Config{Endpoints: []string{info.Endpoint}}); err != nil {
		return err
	}
	if l.Client, err = controlplane.New(l.store, Namespace); err != nil {
		return err
	}
	l.Containerd, err = containerd.New(info.Containerd, containerd.WithDefaultNamespace(info.ContainerdNamespace))
	return err
}

// load makes the image of the tiny programs.
func (l *Live) load(ctx context.Context) error {
	files, err := TinyFiles(l.Dir)
	if err != nil {
		return err
	}
	return l.MakeImage(ctx, TinyImage, files)
}

// MakeImage makes an image of files, given by their paths in it.
func (l *Live) MakeImage(ctx context.Context, name string, files map[string]string) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(image.Write(w, image.Spec{Name: name, Files: files})) }()
	imported, err := l.Containerd.Import(ctx, r)
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	for _, img := range imported {
		if err := containerd.NewImage(l.Containerd, img).Unpack(ctx, "overlayfs"); err != nil {
			return err
		}
	}
	return nil
}

// PID returns the process id of the program.
func (l *Live) PID() int { return l.cmd.Process.Pid }

// down stops the cluster.
func (l *Live) down() error {
	var errs []error
	if l.Containerd != nil {
		errs = append(errs, l.Containerd.Close())
	}
	if l.store != nil {
		errs = append(errs, l.store.Close())
	}
	if l.cmd != nil {
		errs = append(errs, l.cmd.Process.Signal(os.Interrupt), <-l.ended)
	}
	return errors.Join(errs...)
}

// TinyTask returns a task that runs one of the programs of the tiny image: true or pause.
func TinyTask(program string) controlplane.Submission {
	return controlplane.Submission{
		Task: types.Task{Name: program},
		Spec: &types.Spec{Image: TinyImage, Command: []string{"/bin/" + program}},
	}
}

// Template is a running task whose container serves as the model of an Escher container.
type Template struct {
	// Task is its id.
	Task string
	// Spec is the specification of its container.
	Spec   *oci.Spec
	labels map[string]string
}

// StartTemplate starts a task and returns it as a template.
func (l *Live) StartTemplate(ctx context.Context) (Template, error) {
	launched, err := l.Client.Launch(ctx, TinyTask("pause"))
	if err != nil {
		return Template{}, err
	}
	t := Template{Task: launched.Tasks[0]}
	if _, err := l.Client.Wait(ctx, controlplane.UntilRunning, t.Task); err != nil {
		return t, err
	}
	all, err := l.Containerd.Containers(ctx)
	if err != nil {
		return t, err
	}
	if len(all) != 1 {
		return t, types.Errorf(types.Internal, "bench: there are %d containers of one task", len(all))
	}
	info, err := all[0].Info(ctx)
	if err != nil {
		return t, err
	}
	t.labels = info.Labels
	t.Spec, err = all[0].Spec(ctx)
	return t, err
}

// End stops a task and waits until nothing of it is left.
func (l *Live) End(ctx context.Context, id string) error {
	if err := l.Client.Stop(ctx, id, controlplane.StopOptions{Reason: "measured"}); err != nil {
		return err
	}
	_, err := l.Client.Wait(ctx, controlplane.UntilEnded, id)
	return err
}

// WithDirectory runs f with a new directory below the configured one; its path is short, for
// sockets.
func WithDirectory(cfg Config, f func(dir string) error) (err error) {
	dir, err := os.MkdirTemp(cfg.Dir, "escher-bench-")
	if err != nil {
		return types.Errorf(types.Precondition, "make a directory in %s: %w", cfg.Dir, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return f(dir)
}
