package containerd_test

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd"
	"github.com/escher-sched/escher/nodeagent/runtime/containerd/containerdtest"
	"github.com/escher-sched/escher/nodeagent/runtime/runtimetest"
	"github.com/escher-sched/escher/types"
)

// patience is how long a step may take before the test fails.
const patience = 2 * time.Minute

// TestContainerd runs all tests that need a daemon on one, because its start takes a second.
func TestContainerd(t *testing.T) {
	h := containerdtest.New(t)
	t.Run("Conformance", func(t *testing.T) {
		cluster := uuid.NewString()
		runtimetest.Run(t, runtimetest.Fixture{
			Cluster: cluster,
			Open:    func(t *testing.T, node string) nodeagent.Runtime { return h.Open(t, cluster, node) },
			Impatient: func(t *testing.T, node string) nodeagent.Runtime {
				conf := h.Config(cluster, node)
				conf.AttachWait = time.Millisecond
				r, err := containerd.New(conf)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = r.Close() })
				return r
			},
			Ready: func(t *testing.T, c nodeagent.Container) { runtimetest.AwaitLog(t, c.LogPath, "ready\n") },
		})
	})
	for _, tests := range []map[string]func(*bench){insideTests(), crashTests(), pullTests(), loadTests(), usageTests(), execTests(), isolationTests(), initTests(), outputTests(), memoryTests(), workdirTests(), attachTests(), secretTests(), loginTests()} {
		for name, test := range tests {
			t.Run(name, func(t *testing.T) { test(newBench(t, h)) })
		}
	}
}

// bench is a node for one test.
type bench struct {
	*testing.T
	host    *containerdtest.Host
	cluster string
	*containerd.Runtime
}

func newBench(t *testing.T, h *containerdtest.Host) *bench {
	cluster := uuid.NewString()
	return &bench{T: t, host: h, cluster: cluster, Runtime: h.Open(t, cluster, "n1")}
}

// container returns a container that runs a verb of the test program, with a log. It is removed at
// the end.
func (b *bench) container(verb ...string) nodeagent.Container {
	id, dir := uuid.NewString(), b.TempDir() // which is removed after the container that logs there
	b.Cleanup(func() {
		if err := b.Remove(context.Background(), id); err != nil {
			b.Error(err)
		}
	})
	return nodeagent.Container{
		ID:      id,
		Attempt: nodeagent.Attempt{Cluster: b.cluster, Node: "n1", Namespace: "default", Task: "t", Number: 1, Revision: 9},
		Image:   runtimetest.Image,
		Command: append([]string{runtimetest.Program}, verb...),
		LogPath: filepath.Join(dir, "logs", id),
	}
}

// ctx ends with the test, or after its patience.
func (b *bench) ctx() context.Context {
	ctx, cancel := context.WithTimeout(b.Context(), patience)
	b.Cleanup(cancel)
	return ctx
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// Start starts a container, and returns only the error.
func (b *bench) Start(ctx context.Context, c nodeagent.Container) error {
	_, err := b.Runtime.Start(ctx, c)
	return err
}

func (b *bench) start(c nodeagent.Container) {
	b.Helper()
	b.must(b.Start(b.ctx(), c))
}

func (b *bench) wait(id string) nodeagent.Exit {
	b.Helper()
	exit, err := b.Wait(b.ctx(), id)
	b.must(err)
	return exit
}

// output runs a container to its end and returns its log.
func (b *bench) output(c nodeagent.Container, code int) string {
	b.Helper()
	b.start(c)
	exit := b.wait(c.ID)
	b.must(b.Remove(b.Context(), c.ID)) // Afterwards the log is complete.
	text := b.read(c.LogPath)
	if exit.Code != code {
		b.Errorf("exit %+v, want code %d; log: %s", exit, code, text)
	}
	return text
}

func (b *bench) read(path string) string {
	b.Helper()
	text, err := os.ReadFile(path)
	b.must(err)
	return string(text)
}

// find returns the container from List.
func (b *bench) find(ctx context.Context, id string) (nodeagent.Observed, error) {
	list, err := b.List(ctx)
	if err != nil {
		return nodeagent.Observed{}, err
	}
	for _, seen := range list {
		if seen.ID == id {
			return seen, nil
		}
	}
	return nodeagent.Observed{}, types.Errorf(types.NotFound, "find container %s: not listed", id)
}

func (b *bench) wants(err error, class types.Class) {
	b.Helper()
	if !types.Is(err, class) {
		b.Errorf("got %v, want class %v", err, class)
	}
}

func (b *bench) kill(pid int) {
	b.Helper()
	b.must(syscall.Kill(pid, syscall.SIGKILL))
}
