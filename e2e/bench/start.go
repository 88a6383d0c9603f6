package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/cio"
	"github.com/containerd/containerd/v2/pkg/oci"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
)

// runStart measures the time from the submission of a task until its submitter has seen it run. The
// floor is creating and starting the same container, with the same specification, labels and
// logger, through a client of the same containerd.
func runStart(ctx context.Context, cfg Config) ([]Row, error) {
	var rounds []round
	err := withLive(ctx, cfg, func(ctx context.Context, l *live) error {
		like, err := l.template(ctx)
		if err != nil {
			return err
		}
		for i := range cfg.Rounds + 1 {
			var r round
			if r.floor, err = l.rawStart(ctx, cfg, like, i); err != nil {
				return err
			}
			if r.value, err = l.start(ctx); err != nil {
				return err
			}
			if i > 0 { // the first one warms up
				cfg.progress.say("pair %d of %d: containerd %.1f ms, submit to running %.1f ms (%.2f)", i, cfg.Rounds, r.floor, r.value, r.value/r.floor)
				rounds = append(rounds, r)
			}
		}
		return l.end(ctx, like.task)
	})
	if err != nil {
		return nil, err
	}
	row := summary(cfg, "containerd", "ms", rounds)
	return []Row{*row.require(cfg.Must, target{figure: ratio, atMost: true, must: 1.2})}, nil
}

// start submits a task and returns how long it took to run, in milliseconds.
func (l *live) start(ctx context.Context) (float64, error) {
	begin := time.Now()
	launched, err := l.client.Launch(ctx, task("pause"))
	if err != nil {
		return 0, err
	}
	if _, err := l.client.Wait(ctx, controlplane.UntilRunning, launched.Tasks...); err != nil {
		return 0, err
	}
	took := time.Since(begin)
	return milliseconds(took), l.end(ctx, launched.Tasks[0])
}

// rawStart creates and starts a container and returns how long that took, in milliseconds.
func (l *live) rawStart(ctx context.Context, cfg Config, like template, n int) (float64, error) {
	begin := time.Now()
	c, started, err := l.rawCreate(ctx, cfg, like, fmt.Sprintf("raw-start-%d", n), "pause")
	if err != nil {
		return 0, err
	}
	if err := started.Start(ctx); err != nil {
		return 0, err
	}
	took := time.Since(begin)
	exits, err := started.Wait(ctx)
	if err != nil {
		return 0, err
	}
	if err := started.Kill(ctx, syscall.SIGKILL); err != nil {
		return 0, err
	}
	<-exits
	_, err = started.Delete(ctx)
	return milliseconds(took), errors.Join(err, c.Delete(ctx, containerd.WithSnapshotCleanup))
}

// rawCreate makes a container like Escher's, and its task. It has no Escher label, so no agent
// takes it for its own.
func (l *live) rawCreate(ctx context.Context, cfg Config, like template, id, program string) (containerd.Container, containerd.Task, error) {
	img, err := l.raw.GetImage(ctx, tinyImage)
	if err != nil {
		return nil, nil, err
	}
	spec, err := like.specOf(id, program)
	if err != nil {
		return nil, nil, err
	}
	c, err := l.raw.NewContainer(ctx, id, containerd.WithSnapshotter("overlayfs"), containerd.WithNewSnapshot(id, img), spec)
	if err != nil {
		return nil, nil, err
	}
	log := tasklog.Config{Path: filepath.Join(l.dir, "raw", id+".log")}
	if err := os.MkdirAll(filepath.Dir(log.Path), 0o700); err != nil {
		return nil, nil, err
	}
	made, err := c.NewTask(ctx, cio.BinaryIO(cfg.Escher, map[string]string{"task-log": log.Arg()}))
	return c, made, err
}

// specOf is the template's specification for another container.
func (t template) specOf(id, program string) (containerd.NewContainerOpts, error) {
	text, err := json.Marshal(t.spec)
	if err != nil {
		return nil, err
	}
	copied := new(oci.Spec)
	if err := json.Unmarshal(text, copied); err != nil {
		return nil, err
	}
	copied.Process.Args = []string{"/bin/" + program}
	copied.Linux.CgroupsPath = filepath.Join(filepath.Dir(copied.Linux.CgroupsPath), id)
	return containerd.WithSpec(copied, unchanged), nil
}

// unchanged changes nothing.
func unchanged(context.Context, oci.Client, *containers.Container, *oci.Spec) error { return nil }
