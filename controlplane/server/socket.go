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
	// socketName is the name of etcd's socket for clients.
	socketName = "etcd.sock"
	// maxSocketPath is the longest path of a Unix socket on Linux.
	maxSocketPath = 107
	// socketNameBytes is the space that SocketDir leaves for the names of sockets.
	socketNameBytes = 32
)

// SocketDir returns the directory for the Unix sockets of a process with its state in dir, always
// the same one. It is "run" below dir. If that is too long for the path of a socket, or changes in
// a URL, it is a short path with a hash of dir. SocketDir creates nothing; see MakeSocketDir. Names
// of sockets in it may have 32 bytes.
func SocketDir(dir string) string {
	if own := filepath.Join(dir, "run"); len(own)+1+socketNameBytes <= maxSocketPath && plain(own) {
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

// plain reports whether a path is unchanged in a URL.
func plain(path string) bool {
	return !strings.ContainsFunc(path, func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("/._-", r)
	})
}

// MakeSocketDir creates SocketDir(dir), accessible to its owner and root only. Precondition: its
// path is something other than a directory of this user.
func MakeSocketDir(dir string) (string, error) {
	path := SocketDir(dir)
	if err := os.MkdirAll(path, 0o700); err != nil {
		return "", types.Errorf(types.Precondition, "make directory for sockets %s: %w", path, err)
	}
	// Below /tmp another user may have created it first.
	info, err := os.Lstat(path)
	if err != nil {
		return "", types.Errorf(types.Precondition, "check directory for sockets %s: %w", path, err)
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

// Endpoint returns the address for clients of the etcd with its data in dir.
func Endpoint(dir string) string {
	return "unix://" + filepath.Join(SocketDir(dir), socketName)
}
