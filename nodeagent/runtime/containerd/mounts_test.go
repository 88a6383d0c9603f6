package containerd

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"
)

// TestDropTempMounts lets several runtimes of one machine start at once: each finds the same mounts.
func TestDropTempMounts(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	snapshot := filepath.Join(dir, "snapshot")
	if err := os.Mkdir(snapshot, 0o700); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		for i := range 20 {
			at := filepath.Join(os.TempDir(), fmt.Sprintf("containerd-mount%d", i))
			if err := os.Mkdir(at, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount(snapshot, at, "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
		}
		var all errgroup.Group
		for range 4 {
			all.Go(func() error { return dropTempMounts(filepath.Join(dir, "containerd.sock")) })
		}
		if err := all.Wait(); err != nil {
			t.Error(err)
		}
		left, err := filepath.Glob(filepath.Join(os.TempDir(), "*"))
		if err != nil || len(left) > 0 {
			t.Fatalf("left: %v, %v", left, err)
		}
	}
}
