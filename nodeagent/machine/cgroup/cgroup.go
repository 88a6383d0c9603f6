// Package cgroup finds the cgroups of containers and kills the processes in them. It uses only
// files of the kernel, and no container runtime. It supports both versions: v1, a tree below the
// root for each controller, with or without v2 next to them, and v2, one tree (cgroups(7);
// Documentation/admin-guide/cgroup-v1 and cgroup-v2.rst of Linux).
//
// A root is the mount point of the file systems: DefaultRoot, or a directory of a test. A path
// names a cgroup in the same way in every tree: it begins with "/".
package cgroup

import (
	"bufio"
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/types"
)

// DefaultRoot is the usual mount point of the cgroup file systems.
const DefaultRoot = "/sys/fs/cgroup"

const (
	controllersFile = "cgroup.controllers"
	procsFile       = "cgroup.procs"
)

// Unified reports whether root is the one tree of v2, without v1.
func Unified(root string) bool {
	_, err := os.Stat(filepath.Join(root, controllersFile))
	return err == nil
}

// Dirs returns the existing directories of a cgroup, sorted: one in v2; in v1 one per hierarchy
// that has it. None means that there is no such cgroup. Invalid: path is not a cgroup's.
func Dirs(root, path string) ([]string, error) {
	if err := checkPath(path); err != nil {
		return nil, err
	}
	trees, err := hierarchies(root)
	if err != nil {
		return nil, err
	}
	var dirs []string
	for _, tree := range trees {
		dir := filepath.Join(tree, path)
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			dirs = append(dirs, dir)
		}
	}
	return dirs, nil
}

// Procs returns the processes in a cgroup and below it, by their ids in this process's namespace,
// sorted, each once. None means that all have ended or the cgroup does not exist.
func Procs(root, path string) ([]int, error) {
	dirs, err := Dirs(root, path)
	if err != nil {
		return nil, err
	}
	var all []int
	for _, dir := range dirs {
		below, err := tree(dir)
		if err != nil {
			return nil, err
		}
		for _, d := range below {
			pids, err := procsOf(d)
			if err != nil {
				return nil, err
			}
			all = append(all, pids...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

// Children returns the names of the cgroups directly below parent, in any tree, sorted. None means
// that there are none or parent does not exist.
func Children(root, parent string) ([]string, error) {
	dirs, err := Dirs(root, parent)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !gone(err) {
			return nil, types.Errorf(types.Unavailable, "list the cgroups below %s: %w", dir, err)
		}
		for _, e := range entries {
			if e.IsDir() {
				names = append(names, e.Name())
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// checkPath keeps a mistake from affecting the whole machine.
func checkPath(path string) error {
	if !filepath.IsAbs(path) || filepath.Clean(path) != path || path == "/" {
		return types.Errorf(types.Invalid, "use cgroup %q: it is none of a container: give a path such as /escher/web-1", path)
	}
	return nil
}

// hierarchies returns the trees below root, each once: v1 has symbolic links from a controller to
// the tree that it shares with others.
func hierarchies(root string) ([]string, error) {
	if Unified(root) {
		return []string{root}, nil
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, types.Errorf(types.Unavailable, "list the cgroup hierarchies of %s: %w", root, err)
	}
	var trees []string
	for _, e := range entries {
		if e.IsDir() {
			trees = append(trees, filepath.Join(root, e.Name()))
		}
	}
	return trees, nil
}

// tree returns dir and all directories below it, except those that vanish meanwhile.
func tree(dir string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case gone(err):
			return nil
		case err != nil:
			return err
		case d.IsDir():
			dirs = append(dirs, path)
		}
		return nil
	})
	if err != nil {
		return nil, types.Errorf(types.Unavailable, "list the cgroups below %s: %w", dir, err)
	}
	return dirs, nil
}

// procsOf returns the processes of one directory.
func procsOf(dir string) ([]int, error) {
	content, err := os.ReadFile(filepath.Join(dir, procsFile))
	if gone(err) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil // A threaded cgroup of v2: its parent lists its processes.
	}
	if err != nil {
		return nil, types.Errorf(types.Unavailable, "list the processes of cgroup %s: %w", dir, err)
	}
	var pids []int
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		pid, err := strconv.Atoi(lines.Text())
		// 0 is a process that this one can neither see nor signal.
		if err == nil && pid > 0 {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

// gone reports whether a file or cgroup no longer exists: the kernel has two errors for it.
func gone(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV)
}
