package rig

import (
	"errors"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/types"
)

// refuseTmpfs refuses a directory in memory: without real syncs, figures about etcd mean nothing.
func refuseTmpfs(dir string) error {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return types.Errorf(types.Invalid, "dir: %q cannot be looked at: %w; name a directory on a disk", dir, err)
	}
	if st.Type == unix.TMPFS_MAGIC || st.Type == unix.RAMFS_MAGIC {
		return types.Errorf(types.Invalid, "dir: %q is in memory: name a directory on a disk", dir)
	}
	return nil
}

// fsyncLatency returns the median time to write 4 KiB and sync it.
func fsyncLatency(dir string) (took time.Duration, err error) {
	f, err := os.CreateTemp(dir, "escher-fsync-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close(), os.Remove(f.Name())) }()
	var all []time.Duration
	page := make([]byte, 4096)
	for range 100 {
		start := time.Now()
		if _, err := f.Write(page); err != nil {
			return 0, err
		}
		if err := f.Sync(); err != nil {
			return 0, err
		}
		all = append(all, time.Since(start))
	}
	slices.Sort(all)
	return all[len(all)/2], nil
}
