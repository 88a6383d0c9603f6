package cgroup

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/controlplane/supervise"
	"github.com/escher-sched/escher/types"
)

// killPause is the wait between two attempts: processes need a moment to end.
const killPause = 5 * time.Millisecond

// Kill kills every process in a cgroup and in all below it, and returns when none is
// left; success when there is no such cgroup. A process that forks as fast as it can is
// frozen first. Unavailable: ctx was done before, some are left.
//
// v2 has cgroup.kill for it, since Linux 5.14; what v1 has is the freezer.
func Kill(ctx context.Context, root, path string) error {
	for {
		dirs, err := Dirs(root, path)
		if err != nil {
			return err
		}
		for _, dir := range dirs {
			if err := killIn(dir, Unified(root)); err != nil {
				return err
			}
		}
		left, err := Procs(root, path)
		if err != nil || len(left) == 0 {
			return err
		}
		if err := supervise.Pause(ctx, killPause); err != nil {
			return types.Errorf(types.Unavailable, "kill cgroup %s: processes %v are left: %w", path, left, err)
		}
	}
}

// killIn kills what is in one directory of a cgroup, and below.
func killIn(dir string, unified bool) error {
	if unified && write(filepath.Join(dir, "cgroup.kill"), "1") == nil {
		return nil
	}
	dirs, err := tree(dir)
	if err != nil {
		return err
	}
	thaw := freeze(dirs, unified)
	defer thaw()
	for _, d := range dirs {
		pids, err := procsOf(d)
		if err != nil {
			return err
		}
		for _, pid := range pids {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return types.Errorf(types.Unavailable, "kill process %d of cgroup %s: %w", pid, d, err)
			}
		}
	}
	return nil
}

// freeze keeps the processes of directories from forking, as far as their tree can, and
// returns what lets them go on, which in v1 they must to die. It goes for each by
// itself: a container may have frozen what is below it.
func freeze(dirs []string, unified bool) (thaw func()) {
	file, frozen, thawed := "freezer.state", "FROZEN", "THAWED"
	if unified {
		file, frozen, thawed = "cgroup.freeze", "1", "0"
	}
	// Not every tree has the file: what it does not freeze is killed again and again.
	for _, d := range dirs {
		_ = write(filepath.Join(d, file), frozen)
	}
	return func() {
		for _, d := range dirs {
			_ = write(filepath.Join(d, file), thawed)
		}
	}
}

// write writes to a file of the kernel. It never makes one: in a directory that is none
// of the kernel's, that would pass for success.
func write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
