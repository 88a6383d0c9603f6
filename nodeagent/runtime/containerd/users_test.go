package containerd

import (
	"context"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/types"
)

// TestUserOfHostileContainer looks up users of a container that replaced its files by something
// else. A pipe without a writer must not block the agent.
func TestUserOfHostileContainer(t *testing.T) {
	pipe := func(path string) error { return unix.Mkfifo(path, 0o600) }
	kernel := func(path string) error { return os.Symlink("/proc/kmsg", path) }
	endless := func(path string) error { return os.Truncate(path, maxUsersFile+1) }
	for name, hostile := range map[string]func(path string) error{"pipe": pipe, "kernel": kernel, "endless": endless, "none": nil} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			etc := func(name string) string { return filepath.Join(root, "etc", name) }
			write := func(name, text string) {
				if err := os.WriteFile(etc(name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Mkdir(etc(""), 0o755); err != nil {
				t.Fatal(err)
			}
			write("passwd", "root:x:0:0:::\nbuild:x:7:8:::\n")
			write("group", "build:x:8:\ndocker:x:9:build\n")
			if hostile != nil {
				if name != "endless" {
					if err := os.Remove(etc("passwd")); err != nil {
						t.Fatal(err)
					}
				}
				if err := hostile(etc("passwd")); err != nil {
					t.Fatal(err)
				}
			}
			as := func(user string) (specs.User, error) {
				s := &oci.Spec{Linux: &specs.Linux{}, Root: &specs.Root{Path: "rootfs"}}
				err := amongUsers(root, withUser(user))(context.Background(), nil, &containers.Container{ID: "c"}, s)
				if s.Root.Path != "rootfs" {
					t.Errorf("the root is %s", s.Root.Path)
				}
				if s.Process == nil {
					return specs.User{}, err
				}
				return s.Process.User, err
			}
			got, err := as("build")
			if hostile != nil && !types.Is(err, types.Invalid) {
				t.Errorf("%+v, %v", got, err)
			}
			if want := (specs.User{UID: 7, GID: 8, AdditionalGids: []uint32{8, 9}}); hostile == nil && (err != nil || !reflect.DeepEqual(got, want)) {
				t.Errorf("%+v, %v", got, err)
			}
			if got, err := as("5:6"); err != nil || got.UID != 5 || got.GID != 6 {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}
