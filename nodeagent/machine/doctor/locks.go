package doctor

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// errHangs is the error for a program that does not answer.
var errHangs = errors.New("it does not answer")

// locked reports whether a process holds a lock on a file, according to the kernel's list:
//
//	1: FLOCK  ADVISORY  WRITE 1234 fd:00:5678 0 EOF
func locked(h host, path string) bool {
	var st unix.Stat_t
	if unix.Stat(path, &st) != nil {
		return false
	}
	file := fmt.Sprintf("%02x:%02x:%d", unix.Major(st.Dev), unix.Minor(st.Dev), st.Ino)
	for _, line := range h.lines("/proc/locks") {
		fields := strings.Fields(line)
		// A waiting one begins with an arrow.
		if len(fields) >= 6 && fields[1] == "FLOCK" && fields[5] == file {
			return true
		}
	}
	return false
}
