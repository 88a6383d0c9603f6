package containerd_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/escher-sched/escher/nodeagent/runtime/containerd"
	"github.com/escher-sched/escher/nodeagent/runtime/runtimetest"
)

// bundle makes a task directory like containerd.
func (b *bench) bundle(id string) string {
	b.Helper()
	dir := filepath.Join(b.host.Dir, "state/io.containerd.runtime.v2.task", b.host.Namespace, id)
	b.must(os.MkdirAll(filepath.Join(dir, "rootfs"), 0o700))
	b.must(os.WriteFile(filepath.Join(dir, "config.json"), []byte("{}"), 0o600))
	b.must(syscall.Mkfifo(filepath.Join(dir, "log"), 0o700))
	return dir
}

// forgotten starts a shim in such a directory, unknown to containerd.
func (b *bench) forgotten(id string) (bundle string) {
	b.Helper()
	cmd := exec.CommandContext(b.Context(), "containerd-shim-runc-v2",
		"-namespace", b.host.Namespace, "-address", b.host.Address, "-publish-binary", "/bin/true", "-id", id, "start")
	cmd.Dir = b.bundle(id)
	cmd.Env = append(os.Environ(), "TTRPC_ADDRESS="+b.host.Address+".ttrpc", "GRPC_ADDRESS="+b.host.Address)
	out, err := cmd.CombinedOutput()
	if err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	b.shim(id) // it runs
	return cmd.Dir
}

// noShim fails the test if a container has a shim.
func (b *bench) noShim(id string) {
	b.Helper()
	if left := b.host.Processes(b.T, "-id "+id); len(left) > 0 {
		b.Errorf("shims are left: %v", left)
	}
}

// testForgotten creates what containerd leaves if the agent dies while a task is made, and starts
// again.
func testForgotten(b *bench) {
	for name, crash := range map[string]func(b *bench, id string){
		"a shim":      func(b *bench, id string) { b.forgotten(id) },
		"a directory": func(b *bench, id string) { b.bundle(id) },
		"a shim, and another directory": func(b *bench, id string) {
			bundle := b.forgotten(id)
			renamed := filepath.Join(filepath.Dir(bundle), "."+id)
			b.must(os.Rename(bundle, renamed))
			b.must(os.RemoveAll(renamed))
			b.bundle(id)
		},
	} {
		b.Run(name, func(t *testing.T) {
			b := newBench(t, b.host)
			c := b.container("exit", "3")
			b.recordOnly(c, b.raw())
			crash(b, c.ID)
			runtimetest.Await(t, func(ctx context.Context) (struct{}, error) { return struct{}{}, b.Start(ctx, c) })
			if exit := b.wait(c.ID); exit.Code != 3 {
				b.Errorf("exit %+v, want 3", exit)
			}
			b.must(b.Remove(b.Context(), c.ID))
			runtimetest.Await(t, func(context.Context) (struct{}, error) {
				return struct{}{}, containerd.EndForgotten(t.Context(), b.host.Address, b.host.Namespace)
			})
			b.noShim(c.ID)
		})
	}
}

// testEndForgotten ends a shim without a container, and no other.
func testEndForgotten(b *bench) {
	c := b.container("block")
	b.start(c)
	const id = "nobody"
	b.forgotten(id)
	b.must(containerd.EndForgotten(b.Context(), b.host.Address, b.host.Namespace))
	b.noShim(id)
	b.running(c.ID)
}
