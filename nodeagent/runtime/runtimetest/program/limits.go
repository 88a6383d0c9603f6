package main

import (
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// df prints the size of a file system in KiB, and what it forbids.
func df(path string) error {
	var s unix.Statfs_t
	if err := unix.Statfs(path, &s); err != nil {
		return err
	}
	var options []string
	for _, o := range []struct {
		flag int64
		name string
	}{{unix.ST_NOSUID, "nosuid"}, {unix.ST_NODEV, "nodev"}, {unix.ST_NOEXEC, "noexec"}} {
		if s.Flags&o.flag != 0 {
			options = append(options, o.name)
		}
	}
	fmt.Println(s.Blocks*uint64(s.Bsize)/1024, strings.Join(options, ","))
	return nil
}

// rlimits prints limits of this process; -1 means none.
func rlimits() error {
	for _, l := range []struct {
		name     string
		resource int
	}{{"memlock", unix.RLIMIT_MEMLOCK}, {"nofile", unix.RLIMIT_NOFILE}} {
		var r unix.Rlimit
		if err := unix.Getrlimit(l.resource, &r); err != nil {
			return err
		}
		fmt.Println(l.name, int64(r.Cur), int64(r.Max))
	}
	return nil
}
