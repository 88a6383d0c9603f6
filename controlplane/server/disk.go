package server

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/types"
)

// FreeBytes returns the bytes on the disk of dir that this process may still use.
func FreeBytes(dir string) (int64, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, types.Errorf(types.Precondition, "check the disk of %s: %w", dir, err)
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}

// checkDisk returns a Precondition error if less than want bytes are free on the disk of dir; verb
// names the prevented action.
func checkDisk(verb, dir string, want int64, free func(string) (int64, error)) error {
	n, err := free(dir)
	if err != nil {
		return err
	}
	if n < want {
		return types.Errorf(types.Precondition, "%s in %s: %s of disk are free there, and it needs %s: free some space, then start again",
			verb, dir, size(n), size(want))
	}
	return nil
}

// size formats a number of bytes for people.
func size(n int64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
	return fmt.Sprintf("%d MiB", n>>20)
}
