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

// killPause is the wait between two tries: processes need a moment to end.
const killPause = 5 * time.Millisecond

// Kill kills every process in a cgroup and below it, and returns when none is left. It succeeds if
// there is no such cgroup. It freezes the processes first, so that a fast-forking process cannot
// escape. Unavailable: ctx was done first, and some processes are left.
//
// v2 has cgroup.kill since Linux 5.14; v1 has the freezer.
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

// killIn kills the processes in one directory of a cgroup and below it.
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

// freeze keeps the processes of directories from forking, where their tree can. thaw unfreezes
// them, which v1 needs for them to die. It sets each directory separately, because a container may
// have frozen a directory below it.
func freeze(dirs []string, unified bool) (thaw func()) {
	file, frozen, thawed := "freezer.state", "FROZEN", "THAWED"
	if unified {
		file, frozen, thawed = "cgroup.freeze", "1", "0"
	}
	// Some trees lack the file: Kill repeats the kill for their processes.
	for _, d := range dirs {
		_ = write(filepath.Join(d, file), frozen)
	}
	return func() {
		for _, d := range dirs {
			_ = write(filepath.Join(d, file), thawed)
		}
	}
}

// Idle makes the processes of a cgroup run only while those of other cgroups of its parent leave a
// processor idle (SCHED_IDLE). A kernel before 5.15 cannot: then its least share is all there is.
//
// runc can since 1.2, and ignores the setting before.
func Idle(root, path string) {
	dirs, err := Dirs(root, path)
	if err != nil {
		return // its process has ended
	}
	for _, dir := range dirs {
		_ = write(filepath.Join(dir, "cpu.idle"), "1")
	}
}

// write writes to a file of the kernel. It never creates one: in an ordinary directory, that would
// look like success.
func write(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}
