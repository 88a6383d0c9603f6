package tasksocket

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// openToAll lets every user connect to the socket at path. It changes nothing but a socket: a
// process with write access to the directory, such as a task of an older agent, may have replaced
// it by a link to a file of the machine.
func openToAll(path string) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: path, Err: err}
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &os.PathError{Op: "stat", Path: path, Err: err}
	}
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return fmt.Errorf("%s is not the socket that was made there: something else took its place", path)
	}
	// A descriptor of O_PATH does not support fchmod; its name in /proc is the file itself.
	return os.Chmod(fmt.Sprintf("/proc/self/fd/%d", fd), 0o666)
}
