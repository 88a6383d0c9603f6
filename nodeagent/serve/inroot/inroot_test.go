package inroot

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// container makes a root with files, links and a pipe.
func container(t *testing.T) (root *os.File, at func(string) string) {
	t.Helper()
	dir := t.TempDir()
	at = func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.Mkdir(at("etc"), 0o755),
		os.WriteFile(at("etc/passwd"), []byte("root:x:0:0"), 0o600),
		os.WriteFile(at("large"), []byte(strings.Repeat("x", 100)), 0o600),
		os.Symlink("/etc/passwd", at("link")),
		os.Symlink("../../../../../../etc/hostname", at("out")),
		unix.Mkfifo(at("pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root, at
}

func TestReadFile(t *testing.T) {
	root, _ := container(t)
	for _, name := range []string{"etc/passwd", "/etc/passwd", "link", "../../etc/passwd"} {
		if text, err := ReadFile(root, name, 50); err != nil || string(text) != "root:x:0:0" {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	// The pipe has no writer: a blocking open would wait forever.
	for _, name := range []string{"pipe", "large", "etc"} {
		if _, err := ReadFile(root, name, 50); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	if _, err := ReadFile(root, "out", 50); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a link leads out: %v", err)
	}
}

// TestKernel opens no virtual file of the kernel, by any path.
func TestKernel(t *testing.T) {
	slash, err := os.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer slash.Close()
	for _, name := range []string{"/proc/kmsg", "/proc/1/oom_score_adj", "/proc", "/proc/self/status", "/sys/kernel", "/dev/pts"} {
		for _, flags := range []int{unix.O_PATH, unix.O_RDONLY} {
			if _, err := Open(slash, name, flags); !errors.Is(err, ErrKernel) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	for _, name := range []string{"proc", "sys"} {
		if _, err := OpenAt(slash, name, unix.O_PATH); !errors.Is(err, ErrKernel) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestKernels distinguishes file systems by their numbers, even unmounted ones.
func TestKernels(t *testing.T) {
	for _, magic := range []int64{unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, 0x19800202} {
		if !kernels(magic) {
			t.Errorf("%x is taken for files", magic)
		}
	}
	for _, magic := range []int64{unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.TMPFS_MAGIC, unix.OVERLAYFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.NFS_SUPER_MAGIC} {
		if kernels(magic) {
			t.Errorf("%x is taken for the kernel's", magic)
		}
	}
}
