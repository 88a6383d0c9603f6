// Package containerdtest runs a private containerd for tests, with an image of the test program. It
// requires root, containerd and runc.
package containerdtest

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/zap/zaptest"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/escher-sched/escher/nodeagent/runtime/containerd"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd/daemon"
	"github.com/escher-sched/escher/nodeagent/runtime/image"
	"github.com/escher-sched/escher/nodeagent/runtime/runtimetest"
)

// patience is how long a call of containerd may take on a busy machine.
const patience = 60 * time.Second

// Host is a machine with a private containerd.
type Host struct {
	// Dir is the daemon's directory. Its path is short, because it contains sockets.
	Dir string
	// Address is the daemon's socket.
	Address string
	// Namespace is a containerd namespace of this Host alone.
	Namespace string
	// Program is the test program on the host: see runtimetest/program.
	Program string

	daemon *daemon.Daemon
}

// New starts a containerd that ends with t, and restarts it when it is killed. At the end it checks
// that nothing is left behind.
func New(t *testing.T) *Host {
	t.Helper()
	// Paths of sockets are limited to 107 bytes: t.TempDir would be too long.
	dir, err := os.MkdirTemp("", "ctd")
	must(t, err)
	program, err := runtimetest.BuildProgram(t.Context(), dir)
	must(t, err)
	conf := daemon.Config{Dir: filepath.Join(dir, "d"), Logger: zaptest.NewLogger(t)}
	d, err := daemon.Ensure(t.Context(), conf)
	must(t, err)
	h := &Host{
		Dir: conf.Dir, Address: d.Address(), Namespace: "test-" + uuid.NewString(), Program: program,
		daemon: d,
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		h.purge(t)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	h.importProgram(t)
	return h
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (h *Host) purge(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := containerd.Purge(ctx, h.Address, h.Namespace, ""); err != nil {
		t.Error(err)
	}
	h.checkNothingLeft(t)
}

func (h *Host) importProgram(t *testing.T) {
	t.Helper()
	h.Import(t, image.Spec{Name: runtimetest.Image}, nil)
	check := runtimetest.Check()
	h.Import(t, image.Spec{Name: runtimetest.EntryImage, Entrypoint: []string{runtimetest.Program}, Command: []string{"exit", "6"}},
		&v1.HealthConfig{Test: append([]string{"CMD"}, check.Exec...), Interval: check.Every})
}

// Import makes an image of the test program, with a health check unless it is nil, and loads it.
func (h *Host) Import(t *testing.T, spec image.Spec, check *v1.HealthConfig) {
	t.Helper()
	spec.Files = map[string]string{runtimetest.Program: h.Program}
	img, err := image.Build(spec)
	must(t, err)
	conf, err := img.ConfigFile()
	must(t, err)
	conf = conf.DeepCopy()
	conf.Config.Healthcheck = check
	img, err = mutate.ConfigFile(img, conf)
	must(t, err)
	tag, err := name.NewTag(spec.Name)
	must(t, err)
	var archive bytes.Buffer
	must(t, tarball.Write(tag, img, &archive))
	loaded, err := h.Open(t, "import", "import").Load(t.Context(), &archive)
	must(t, err)
	if len(loaded) != 1 || loaded[0].Name != spec.Name || !slices.Equal(loaded[0].Entrypoint, spec.Entrypoint) {
		t.Fatalf("imported %v, want %q with entry point %q", loaded, spec.Name, spec.Entrypoint)
	}
}

// Config returns the configuration of Open for a node.
func (h *Host) Config(cluster, node string) containerd.Config {
	return containerd.Config{
		Address: h.Address, Namespace: h.Namespace, Cluster: cluster, Node: node,
		Logger: containerd.Logger{Path: h.Program, Subcommand: runtimetest.LogVerb},
	}
}

// Open returns the runtime of a node. It is closed at the end of t.
func (h *Host) Open(t *testing.T, cluster, node string) *containerd.Runtime {
	t.Helper()
	return h.OpenWith(t, h.Config(cluster, node))
}

// OpenWith returns a runtime with a configuration. It is closed at the end of t.
func (h *Host) OpenWith(t *testing.T, conf containerd.Config) *containerd.Runtime {
	t.Helper()
	r, err := containerd.New(conf)
	must(t, err)
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// PID returns the process id of containerd.
func (h *Host) PID(t *testing.T) int {
	t.Helper()
	pid, err := h.daemon.PID()
	must(t, err)
	return pid
}

// Kill kills containerd, which then restarts.
func (h *Host) Kill(t *testing.T) {
	t.Helper()
	must(t, syscall.Kill(h.PID(t), syscall.SIGKILL))
}
