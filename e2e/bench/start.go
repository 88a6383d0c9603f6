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
	"github.com/escher-sched/escher/e2e/bench/rig"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
)

// runStart measures the time from the submission of a task until its submitter has seen it run. The
// floor is creating and starting the same container, with the same specification, labels and
// logger, through a client of the same containerd.
func runStart(ctx context.Context, cfg rig.Config) ([]rig.Row, error) {
	var rounds []rig.Round
	err := rig.WithLive(ctx, cfg, func(ctx context.Context, l *rig.Live) error {
		like, err := l.StartTemplate(ctx)
		if err != nil {
			return err
		}
		for i := range cfg.Rounds + 1 {
			var r rig.Round
			if r.Floor, err = rawStart(ctx, l, cfg, like, i); err != nil {
				return err
			}
			if r.Value, err = startTask(ctx, l); err != nil {
				return err
			}
			if i > 0 { // the first one warms up
				cfg.Say("pair %d of %d: containerd %.1f ms, submit to running %.1f ms (%.2f)", i, cfg.Rounds, r.Floor, r.Value, r.Value/r.Floor)
				rounds = append(rounds, r)
			}
		}
		return l.End(ctx, like.Task)
	})
	if err != nil {
		return nil, err
	}
	row := rig.Summarize(cfg, "containerd", "ms", rounds)
	return []rig.Row{*row.Require(cfg.Must, rig.Target{Figure: rig.Ratio, AtMost: true, Must: 1.2})}, nil
}

// startTask submits a task and returns how long it took to run, in milliseconds.
func startTask(ctx context.Context, l *rig.Live) (float64, error) {
	begin := time.Now()
	launched, err := l.Client.Launch(ctx, rig.TinyTask("pause"))
	if err != nil {
		return 0, err
	}
	if _, err := l.Client.Wait(ctx, controlplane.UntilRunning, launched.Tasks...); err != nil {
		return 0, err
	}
	took := time.Since(begin)
	return rig.Milliseconds(took), l.End(ctx, launched.Tasks[0])
}

// rawStart creates and starts a container and returns how long that took, in milliseconds.
func rawStart(ctx context.Context, l *rig.Live, cfg rig.Config, like rig.Template, n int) (float64, error) {
	begin := time.Now()
	c, started, err := rawCreate(ctx, l, cfg, like, fmt.Sprintf("raw-start-%d", n), "pause")
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
	return rig.Milliseconds(took), errors.Join(err, c.Delete(ctx, containerd.WithSnapshotCleanup))
}

// rawCreate makes a container like Escher's, and its task. It has no Escher label, so no agent
// takes it for its own.
func rawCreate(ctx context.Context, l *rig.Live, cfg rig.Config, like rig.Template, id, program string) (containerd.Container, containerd.Task, error) {
	img, err := l.Containerd.GetImage(ctx, rig.TinyImage)
	if err != nil {
		return nil, nil, err
	}
	spec, err := specOf(like, id, program)
	if err != nil {
		return nil, nil, err
	}
	c, err := l.Containerd.NewContainer(ctx, id, containerd.WithSnapshotter("overlayfs"), containerd.WithNewSnapshot(id, img), spec)
	if err != nil {
		return nil, nil, err
	}
	log := tasklog.Config{Path: filepath.Join(l.Dir, "raw", id+".log")}
	if err := os.MkdirAll(filepath.Dir(log.Path), 0o700); err != nil {
		return nil, nil, err
	}
	made, err := c.NewTask(ctx, cio.BinaryIO(cfg.Escher, map[string]string{"task-log": log.Arg()}))
	return c, made, err
}

// specOf is the template's specification for another container.
func specOf(t rig.Template, id, program string) (containerd.NewContainerOpts, error) {
	text, err := json.Marshal(t.Spec)
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
