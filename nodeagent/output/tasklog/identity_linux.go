package tasklog

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// identity identifies a file, even compared with a later file of the same inode number.
func identity(f *os.File) string {
	var st unix.Statx_t
	if err := unix.Statx(int(f.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return ""
	}
	return fmt.Sprintf("%x.%x.%x", st.Ino, st.Btime.Sec, st.Btime.Nsec)
}
