// Package sockets names the Unix sockets of a process by its directory, so that programs find a
// cluster on their machine by that directory alone.
package sockets

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
	// EtcdName is the name of etcd's socket for clients.
	EtcdName = "etcd.sock"
	// maxPath is the longest path of a Unix socket on Linux.
	maxPath = 107
	// nameBytes is the space that Dir leaves for the names of sockets.
	nameBytes = 32
)

// Dir returns the directory for the Unix sockets of a process with its state in dir, always
// the same one. It is "run" below dir. If that is too long for the path of a socket, or changes in
// a URL, it is a short path with a hash of dir. Dir creates nothing; see Make. Names
// of sockets in it may have 32 bytes.
func Dir(dir string) string {
	if own := filepath.Join(dir, "run"); len(own)+1+nameBytes <= maxPath && plain(own) {
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

// Make creates Dir(dir), accessible to its owner and root only. Precondition: its
// path is something other than a directory of this user.
func Make(dir string) (string, error) {
	path := Dir(dir)
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

// Etcd returns the address for clients of the etcd with its data in dir.
func Etcd(dir string) string {
	return "unix://" + filepath.Join(Dir(dir), EtcdName)
}
