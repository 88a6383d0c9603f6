package containerd

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/typeurl/v2"
	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/nodeagent/secrets"
	"github.com/escher-sched/escher/nodeagent/serve/inroot"
	"github.com/escher-sched/escher/types"
)

// The modes of a directory of secrets and of its files.
const (
	secretDirMode  = 0o755
	secretFileMode = 0o400
)

// giveSecrets writes secrets into the file systems in memory of a container. Its process is there and waits
// to be started, so nothing of the task runs yet.
func giveSecrets(all []secrets.Dir, record containers.Container, pid uint32) error {
	spec := new(oci.Spec)
	if err := typeurl.UnmarshalTo(record.Spec, spec); err != nil {
		return types.Errorf(types.Internal, "read the setup of container %s: %w", record.ID, err)
	}
	root, err := os.Open(filepath.Join("/proc", strconv.FormatUint(uint64(pid), 10), "root"))
	if err != nil {
		return types.Errorf(types.Unavailable, "give container %s its secrets: %w", record.ID, err)
	}
	defer root.Close()
	for _, d := range all {
		if err := writeSecrets(root, d, int(spec.Process.User.UID), int(spec.Process.User.GID)); err != nil {
			return types.Errorf(refusal(err), "give container %s its secrets at %s: %w", record.ID, d.Target, err)
		}
	}
	return nil
}

// refusal returns the class of an error of writeSecrets. Invalid: another mount is where a value becomes a
// file, and it will be there the next time.
func refusal(err error) types.Class {
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.EBUSY) {
		return types.Invalid
	}
	return types.Unavailable
}

// errDisk is the error about a directory that is not in memory.
var errDisk = errors.New("the directory is not in memory")

// writeSecrets writes files for a user into a directory in memory, in place of those of an earlier call.
func writeSecrets(root *os.File, d secrets.Dir, uid, gid int) error {
	dir, err := inroot.Open(root, d.Target, unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return err
	}
	defer dir.Close()
	fd := int(dir.Fd())
	var st unix.Statfs_t
	if err := unix.Fstatfs(fd, &st); err != nil {
		return err
	}
	if st.Type != unix.TMPFS_MAGIC {
		return errDisk
	}
	if err := unix.Fchmod(fd, secretDirMode); err != nil {
		return err
	}
	for name, value := range d.Files {
		if err := writeSecret(fd, name, value, uid, gid); err != nil {
			return err
		}
	}
	return nil
}

// writeSecret writes one file.
func writeSecret(dir int, name string, value []byte, uid, gid int) error {
	if err := unix.Unlinkat(dir, name, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	fd, err := unix.Openat(dir, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	_, err = f.Write(value)
	return errors.Join(err, f.Chown(uid, gid), f.Chmod(secretFileMode), f.Close())
}
