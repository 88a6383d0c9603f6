package containerd

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/pkg/oci"
	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/nodeagent/serve/inroot"
	"github.com/escher-sched/escher/types"
)

// maxUsersFile limits the files of users and groups, in bytes: 20,000 users.
const maxUsersFile = 1 << 20

// usersOf copies the files of users and groups of a container or image to a new directory, which
// the caller removes. The content of root is not trusted. It skips pipes, links to kernel files and
// endless files: opening them as ordinary files might never return.
func usersOf(root string) (dir string, err error) {
	from, err := os.OpenFile(root, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return "", err
	}
	defer from.Close()
	if dir, err = os.MkdirTemp("", "escher-users-"); err != nil {
		return "", err
	}
	err = os.Mkdir(filepath.Join(dir, "etc"), 0o700)
	for _, name := range []string{"etc/passwd", "etc/group"} {
		if text, unreadable := inroot.ReadFile(from, name, maxUsersFile); unreadable == nil {
			err = errors.Join(err, os.WriteFile(filepath.Join(dir, name), text, 0o600))
		}
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

// amongUsers applies options that look up users, with the users of root. The options read copies of
// the container's files.
func amongUsers(root string, opts ...oci.SpecOpts) oci.SpecOpts {
	return func(ctx context.Context, c oci.Client, record *containers.Container, s *oci.Spec) error {
		dir, err := usersOf(root)
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(dir) }() // It is in the temporary directory.
		if s.Root == nil {
			return types.Errorf(types.Internal, "look up a user of container %s: it has no root", record.ID)
		}
		was := s.Root.Path
		s.Root.Path = dir
		defer func() { s.Root.Path = was }()
		return oci.ApplyOpts(ctx, c, &containers.Container{ID: record.ID}, s, opts...)
	}
}

// amongUsersOf is amongUsers for the file system of a snapshot.
func amongUsersOf(mounts []mount.Mount, opts ...oci.SpecOpts) oci.SpecOpts {
	return func(ctx context.Context, c oci.Client, record *containers.Container, s *oci.Spec) error {
		return mount.WithReadonlyTempMount(ctx, mounts, func(root string) error {
			return amongUsers(root, opts...)(ctx, c, record, s)
		})
	}
}
