//go:build linux

// Package inroot opens files of a container from outside of it, with rights that the container does
// not have. The container may change its files at any moment, to anything.
package inroot

import (
	"errors"
	"io"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// PathOnly is the flag that opens a file as a path alone, and EmptyPath the one that names such a file.
const (
	PathOnly  = unix.O_PATH
	EmptyPath = unix.AT_EMPTY_PATH
)

// ErrKernel is the error of a path on a virtual file system of the kernel. Access there depends on
// the rights of the process, and the caller has more of them than the container. Besides, a read
// may never end.
var ErrKernel = errors.New("it is on a file system of the kernel, such as /proc or /sys")

// Open opens a path below root, as the container sees it: the kernel resolves links, and none leads
// out. It never blocks: even a pipe without a writer opens. ErrKernel: the path leads to a file
// system of the kernel.
func Open(root *os.File, name string, flags int) (*os.File, error) {
	how := &unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC | unix.O_NONBLOCK), Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	if flags&unix.O_PATH != 0 {
		how.Flags &^= unix.O_NONBLOCK // the kernel refuses both together
	}
	// The kernel gives up if something is renamed meanwhile.
	const tries = 100
	for n := 0; ; n++ {
		fd, err := unix.Openat2(int(root.Fd()), path.Join("/", name), how)
		switch {
		case err == nil:
			return checked(fd, name)
		case (errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR)) && n < tries:
		default:
			return nil, err
		}
	}
}

// OpenAt opens an element of a directory, and does not follow a link: see Open.
func OpenAt(dir *os.File, base string, flags int) (*os.File, error) {
	if flags&unix.O_PATH == 0 {
		flags |= unix.O_NONBLOCK
	}
	fd, err := unix.Openat(int(dir.Fd()), base, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return checked(fd, path.Join(dir.Name(), base))
}

// checked returns the file of a descriptor unless it is on a file system of the kernel.
func checked(fd int, name string) (*os.File, error) {
	var st unix.Statfs_t
	err := unix.Fstatfs(fd, &st)
	if err == nil && kernels(int64(st.Type)) {
		err = ErrKernel
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), name), nil
}

// kernels reports whether a type of file system has only virtual files of the kernel.
func kernels(magic int64) bool {
	const mqueue, configfs = 0x19800202, 0x62656570
	switch magic {
	case unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC,
		unix.DEBUGFS_MAGIC, unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.SELINUX_MAGIC, unix.SMACK_MAGIC,
		unix.DEVPTS_SUPER_MAGIC, unix.BPF_FS_MAGIC, unix.PSTOREFS_MAGIC, unix.EFIVARFS_MAGIC, unix.BINFMTFS_MAGIC,
		unix.NSFS_MAGIC, unix.SOCKFS_MAGIC, unix.PIPEFS_MAGIC, unix.ANON_INODE_FS_MAGIC, unix.RDTGROUP_SUPER_MAGIC,
		mqueue, configfs:
		return true
	}
	return false
}

// ReadFile reads a file of at most that many bytes below root. It returns an error for a larger
// file, and for anything but a regular file.
func ReadFile(root *os.File, name string, most int64) ([]byte, error) {
	f, err := Open(root, name, unix.O_RDONLY)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > most {
		return nil, &os.PathError{Op: "read", Path: name, Err: errors.New("it is no file, or too large")}
	}
	return io.ReadAll(io.LimitReader(f, most))
}
