package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// smallDisk mounts a separate file system at the directory of a cluster.
func smallDisk(t *testing.T, size string) *cluster {
	t.Helper()
	c := newCluster(t)
	if err := syscall.Mount("tmpfs", c.dir, "tmpfs", 0, "size="+size+",mode=700"); err != nil {
		t.Fatal(err)
	}
	dir := c.dir
	// It prevents removing the directory, so it is unmounted before that.
	t.Cleanup(func() {
		c.end()
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestTooLittleDisk refuses to start with less than a gibibyte.
func TestTooLittleDisk(t *testing.T) {
	c := smallDisk(t, "900m")
	o := c.escher("dev", "--containerd", "private")
	if o.code != 6 || !strings.Contains(o.err, "disk") || !strings.Contains(o.err, "1.0 GiB") || !strings.Contains(o.err, "free some space") {
		t.Errorf("%+v", o)
	}
}

// TestDiskFillsUp stops when the disk is full, says so, and has lost nothing once there is space
// again.
func TestDiskFillsUp(t *testing.T) {
	c := smallDisk(t, "1500m")
	c.start()
	id := c.must("run", "-d", "--request", "never=1", image)
	filler := filepath.Join(c.dir, "filler")
	fill(t, filler, 1400<<20)
	select {
	case err := <-c.ended:
		if err == nil || !strings.Contains(c.stderr.String(), "free some space") {
			t.Errorf("it ended with %v and said %s", err, c.stderr)
		}
		c.cmd = nil
	case <-time.After(2 * time.Minute):
		t.Fatal("it goes on")
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	c.start()
	if x := c.tasks()[id]; x.Phase != "pending" {
		t.Errorf("the task is %+v", x)
	}
}

// fill writes size bytes, or until the disk is full.
func fill(t *testing.T, path string, size int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	chunk := make([]byte, 1<<20)
	for range size / len(chunk) {
		if _, err := f.Write(chunk); err != nil {
			return
		}
	}
}
