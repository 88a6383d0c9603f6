package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
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

// tinyImage is the image with the two tiny programs, made for each cluster.
const tinyImage = "escher.local/bench:latest"

// live is a cluster of the real program on real containers, and its containerd.
type live struct {
	dir string
	// endpoint is the address of its etcd.
	endpoint string
	cmd      *exec.Cmd
	ended    chan error
	store    *etcdstore.Store
	client   *controlplane.Client
	raw      *containerd.Client
}

// withLive runs f with its own cluster.
func withLive(ctx context.Context, cfg Config, f func(context.Context, *live) error) error {
	return withDirectory(cfg, func(dir string) (err error) {
		l := &live{dir: dir, ended: make(chan error, 1)}
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

// up starts the cluster and connects to it.
func (l *live) up(ctx context.Context, cfg Config) error {
	// In its own process group, so that only down interrupts it.
	cmd := exec.Command(cfg.Escher, "dev", "--dir", l.dir, "--nodes", strconv.Itoa(cfg.Nodes), "--containerd", "private")
	for _, m := range cfg.mounts {
		cmd.Args = append(cmd.Args, "--allow-mount", m)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	cfg.progress.say("starting %s", strings.Join(cmd.Args, " "))
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
func (l *live) connect(ctx context.Context) error {
	text, err := os.ReadFile(filepath.Join(l.dir, "dev.json"))
	if err != nil {
		return err
	}
	var info struct{ Endpoint, Containerd, ContainerdNamespace string }
	if err := json.Unmarshal(text, &info); err != nil {
		return err
	}
	l.endpoint = info.Endpoint
	if l.store, err = etcdstore.Dial(ctx, etcdstore.Config{Endpoints: []string{info.Endpoint}}); err != nil {
		return err
	}
	if l.client, err = controlplane.New(l.store, ns); err != nil {
		return err
	}
	l.raw, err = containerd.New(info.Containerd, containerd.WithDefaultNamespace(info.ContainerdNamespace))
	return err
}

// load makes the image of the tiny programs.
func (l *live) load(ctx context.Context) error {
	files, err := tinyFiles(l.dir)
	if err != nil {
		return err
	}
	return l.makeImage(ctx, tinyImage, files)
}

// makeImage makes an image of files, given by their paths in it.
func (l *live) makeImage(ctx context.Context, name string, files map[string]string) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(image.Write(w, image.Spec{Name: name, Files: files})) }()
	imported, err := l.raw.Import(ctx, r)
	if err := errors.Join(err, r.Close()); err != nil {
		return err
	}
	for _, img := range imported {
		if err := containerd.NewImage(l.raw, img).Unpack(ctx, "overlayfs"); err != nil {
			return err
		}
	}
	return nil
}

// down stops the cluster.
func (l *live) down() error {
	var errs []error
	if l.raw != nil {
		errs = append(errs, l.raw.Close())
	}
	if l.store != nil {
		errs = append(errs, l.store.Close())
	}
	if l.cmd != nil {
		errs = append(errs, l.cmd.Process.Signal(os.Interrupt), <-l.ended)
	}
	return errors.Join(errs...)
}

// task is a task that runs one of the programs.
func task(program string) controlplane.Submission {
	return controlplane.Submission{
		Task: types.Task{Name: program},
		Spec: &types.Spec{Image: tinyImage, Command: []string{"/bin/" + program}},
	}
}

// template is a running task whose container serves as the model of an Escher container.
type template struct {
	task   string
	spec   *oci.Spec
	labels map[string]string
}

// template starts one.
func (l *live) template(ctx context.Context) (template, error) {
	launched, err := l.client.Launch(ctx, task("pause"))
	if err != nil {
		return template{}, err
	}
	t := template{task: launched.Tasks[0]}
	if _, err := l.client.Wait(ctx, controlplane.UntilRunning, t.task); err != nil {
		return t, err
	}
	all, err := l.raw.Containers(ctx)
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
	t.spec, err = all[0].Spec(ctx)
	return t, err
}

// end stops a task and waits until nothing of it is left.
func (l *live) end(ctx context.Context, id string) error {
	if err := l.client.Stop(ctx, id, controlplane.StopOptions{Reason: "measured"}); err != nil {
		return err
	}
	_, err := l.client.Wait(ctx, controlplane.UntilEnded, id)
	return err
}

// withDirectory runs f with a new directory below the configured one; its path is short, for
// sockets.
func withDirectory(cfg Config, f func(dir string) error) (err error) {
	dir, err := os.MkdirTemp(cfg.Dir, "escher-bench-")
	if err != nil {
		return types.Errorf(types.Precondition, "make a directory in %s: %w", cfg.Dir, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	return f(dir)
}
