package server

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/escher-sched/escher/types"
)

const (
	// socketName is the file that clients of etcd connect to.
	socketName = "etcd.sock"
	// maxSocketPath is the longest path a Unix socket can have on Linux.
	maxSocketPath = 107
	// socketRoom is what SocketDir leaves for the names of sockets.
	socketRoom = 32
)

// SocketDir returns the directory for the Unix sockets of whoever keeps its state
// in dir, the same at every call: "run" below dir or, where that is too long for
// a socket's path or not plain in a URL, a short one named by a hash of dir. It
// makes nothing; see MakeSocketDir. Names of sockets in it may have 32 bytes.
func SocketDir(dir string) string {
	if own := filepath.Join(dir, "run"); len(own)+1+socketRoom <= maxSocketPath && plain(own) {
		return own
	}
	sum := sha256.Sum256([]byte(filepath.Clean(dir)))
	name := "escher-" + hex.EncodeToString(sum[:8])
	uid := os.Geteuid()
	if uid == 0 {
		return filepath.Join("/run", name)
	}
	user := filepath.Join("/run/user", strconv.Itoa(uid))
	if _, err := os.Stat(user); err == nil {
		return filepath.Join(user, name)
	}
	return filepath.Join("/tmp", fmt.Sprintf("%s-%d", name, uid))
}

// plain reports whether a path means the same as it stands in a URL.
func plain(path string) bool {
	return !strings.ContainsFunc(path, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("/._-", r)
	})
}

// MakeSocketDir makes SocketDir(dir) so that nobody but its owner, and root, can
// reach what is in it. Precondition: something is in its place that is not a
// directory of ours.
func MakeSocketDir(dir string) (string, error) {
	path := SocketDir(dir)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", types.Errorf(types.Precondition, "make directory for sockets %s: %w", path, err)
	}
	// Below /tmp somebody else may have been there first.
	info, err := os.Lstat(path)
	if err != nil {
		return "", types.Errorf(types.Precondition, "look at directory for sockets %s: %w", path, err)
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || !ok || int(stat.Uid) != os.Geteuid() {
		return "", types.Errorf(types.Precondition, "use directory for sockets %s: it is not a directory of user %d: remove it", path, os.Geteuid())
	}
	if err := os.Chmod(path, 0o700); err != nil {
		return "", types.Errorf(types.Precondition, "close directory for sockets %s to others: %w", path, err)
	}
	return path, nil
}

// Endpoint returns where clients reach the etcd that keeps its data in dir.
func Endpoint(dir string) string {
	return "unix://" + filepath.Join(SocketDir(dir), socketName)
}
