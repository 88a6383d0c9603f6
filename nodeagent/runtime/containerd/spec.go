package containerd

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/typeurl/v2"
	"github.com/moby/sys/signal"
	"github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// spec returns the setup of the container, with the mount of its workdir.
func (r *Runtime) spec(ctx context.Context, c nodeagent.Container, t *template, workdir *specs.Mount) (typeurl.Any, error) {
	if len(c.Entrypoint) == 0 && len(c.Command) > 0 {
		c.Entrypoint = t.entrypoint
	}
	spec, err := r.control.spec(ctx, c, t.spec, hostFiles(), withDevices(r.conf.CDIDirs, c.Devices))
	if err != nil {
		return nil, err
	}
	if err := withInit(c, spec, r.conf.Inits); err != nil {
		return nil, err
	}
	withWorkdir(spec, workdir)
	return typeurl.MarshalAny(spec)
}

// spec builds the setup from the common part of the image's containers and the mounts of every
// container. The order matters: seccomp depends on the capabilities, and devices come last, so that
// nothing overwrites them.
func (m control) spec(ctx context.Context, c nodeagent.Container, common []byte, mounts []specs.Mount, devices oci.SpecOpts) (*oci.Spec, error) {
	spec := new(oci.Spec)
	if err := json.Unmarshal(common, spec); err != nil {
		return nil, types.Errorf(types.Internal, "set up container %s: %w", c.ID, err)
	}
	opts := []oci.SpecOpts{
		terminal(c.TTY),
		oci.WithEnv(c.Env),
		rlimits(c.Ulimits),
		sharedMemory(c.ShmBytes),
		oomScore(c),
		oci.WithHostNamespace(specs.NetworkNamespace),
		oci.WithMounts(mounts),
		oci.WithMounts(binds(c.Mounts)),
		m.limits(c),
	}
	if args := slices.Concat(c.Entrypoint, c.Command); len(args) > 0 {
		opts = append(opts, oci.WithProcessArgs(args...))
	}
	if c.Dir != "" {
		opts = append(opts, oci.WithProcessCwd(c.Dir))
	}
	opts = append(opts, rights(c)...)
	opts = append(opts, devices)
	if err := oci.ApplyOpts(ctx, nil, &containers.Container{ID: c.ID}, spec, opts...); err != nil {
		return nil, classify(err, "set up container %s", c.ID)
	}
	if len(spec.Process.Args) == 0 {
		return nil, types.Errorf(types.Invalid, "run container %s: image %s has no command of its own; give one", c.ID, c.Image)
	}
	return spec, nil
}

// check returns Invalid for settings that runc would refuse later with obscure messages.
func check(c nodeagent.Container) error {
	for _, m := range c.Mounts {
		if !filepath.IsAbs(m.Target) {
			return types.Errorf(types.Invalid, "mount %s in container %s: target %q is not absolute", m.Source, c.ID, m.Target)
		}
		if _, err := os.Stat(m.Source); err != nil && m.TmpfsBytes == 0 {
			return types.Errorf(types.Invalid, "mount %s in container %s: %w; the path must be on the node", m.Source, c.ID, err)
		}
	}
	if _, err := signal.ParseSignal(c.StopSignal); c.StopSignal != "" && err != nil {
		return types.Errorf(types.Invalid, "stop container %s with %q: there is no such signal; use a name such as SIGINT", c.ID, c.StopSignal)
	}
	if (c.Stdin || c.TTY) && c.LogPath == "" {
		return types.Errorf(types.Invalid, "start container %s: it has an input or a terminal, and no log: give it one", c.ID)
	}
	if c.MilliCPU < 0 || c.MemoryBytes < 0 {
		return types.Errorf(types.Invalid, "limit container %s to %d thousandths of a core and %d bytes: negative", c.ID, c.MilliCPU, c.MemoryBytes)
	}
	return nil
}

// hostFiles returns the files that a program needs to find others on the host's network.
func hostFiles() []specs.Mount {
	var mounts []specs.Mount
	for _, path := range []string{"/etc/hosts", "/etc/resolv.conf"} {
		if _, err := os.Stat(path); err == nil {
			mounts = append(mounts, bind(path, path, true))
		}
	}
	return mounts
}

func binds(mounts []nodeagent.Mount) []specs.Mount {
	all := make([]specs.Mount, 0, len(mounts))
	for _, m := range mounts {
		if m.TmpfsBytes > 0 {
			all = append(all, tmpfs(m.Target, m.TmpfsBytes))
			continue
		}
		all = append(all, bind(m.Source, m.Target, m.ReadOnly))
	}
	return all
}

func bind(source, target string, readOnly bool) specs.Mount {
	options := []string{"rbind", "rprivate"}
	if readOnly {
		// Mounts below it are read-only too, which requires Linux 5.12 and runc 1.1.
		options = append(options, "ro", "rro")
	}
	return specs.Mount{Type: "bind", Source: source, Destination: target, Options: options}
}

// killedFirst is the oom_score_adj of what the kernel kills before everything else: its maximum.
const killedFirst = 1000

// oomScore keeps a task from inheriting the score of the daemons, which the kernel kills last when
// memory runs out.
func oomScore(c nodeagent.Container) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		s.Process.OOMScoreAdj = new(int)
		if c.KillFirst {
			*s.Process.OOMScoreAdj = killedFirst
		}
		return nil
	}
}

// withUser sets the user and its groups in the image.
func withUser(user string) oci.SpecOpts {
	return func(ctx context.Context, c oci.Client, record *containers.Container, s *oci.Spec) error {
		if err := oci.WithUser(user)(ctx, c, record, s); err != nil {
			return types.Errorf(types.Invalid, "run it as user %q: %w; use uid:gid, or a name of the image", user, err)
		}
		uid := strconv.FormatUint(uint64(s.Process.User.UID), 10)
		return oci.WithAdditionalGIDs(uid)(ctx, c, record, s)
	}
}

// withDevices injects devices of the Container Device Interface. It reads the directories each
// time, because drivers write there when devices change.
func withDevices(dirs, names []string) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, record *containers.Container, s *oci.Spec) error {
		if len(names) == 0 {
			return nil
		}
		if len(dirs) == 0 {
			dirs = cdi.DefaultSpecDirs
		}
		cache, err := cdi.NewCache(cdi.WithSpecDirs(dirs...), cdi.WithAutoRefresh(false))
		if err != nil {
			return types.Errorf(types.Unavailable, "read the devices of %q: %w", dirs, err)
		}
		// The node lacks them; the task is not wrong.
		if _, err := cache.InjectDevices(s, names...); err != nil {
			return types.Errorf(types.Unavailable, "give devices %q to container %s: %w; devices are described in %q", names, record.ID, err, dirs)
		}
		return nil
	}
}

// terminal gives the process a terminal.
func terminal(tty bool) oci.SpecOpts {
	if !tty {
		return oci.Compose()
	}
	return oci.Compose(oci.WithTTY, oci.WithTTYSize(80, 24))
}
