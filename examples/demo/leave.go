package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// leaveNothing removes the directory of the demo and reports what else is left.
func (d *demo) leaveNothing() error {
	id, _ := os.ReadFile(filepath.Join(d.dir, "cluster"))
	// A stopped process takes a moment to end.
	deadline := time.Now().Add(3 * time.Second)
	for left := errors.Join(processes(d.dir), mounts(d.dir)); left != nil; left = errors.Join(processes(d.dir), mounts(d.dir)) {
		if time.Now().After(deadline) {
			return left // the directory is in use
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err := os.RemoveAll(d.dir); err != nil {
		return err
	}
	return traces(strings.TrimSpace(string(id)))
}

// processes finds processes started for the directory.
func processes(dir string) error {
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return err
	}
	var left error
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		if strings.Contains(string(text), dir) {
			left = errors.Join(left, fmt.Errorf("process %s is left: %s", filepath.Base(filepath.Dir(file)), strings.ReplaceAll(string(text), "\x00", " ")))
		}
	}
	return left
}

// mounts finds mounts below the directory.
func mounts(dir string) error {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	var left error
	for line := range strings.Lines(string(text)) {
		if strings.Contains(line, dir) {
			left = errors.Join(left, fmt.Errorf("mount is left: %s", strings.TrimSpace(line)))
		}
	}
	return left
}

// traces finds what runc keeps outside of the directory, by the id of the cluster.
func traces(id string) error {
	if id == "" {
		return nil
	}
	var left error
	for _, pattern := range []string{"/run/containerd/runc/*", "/run/containerd/*/*", "/sys/fs/cgroup/*", "/sys/fs/cgroup/*/*"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, path := range found {
			if strings.Contains(path, id) {
				left = errors.Join(left, fmt.Errorf("%s is left", path))
			}
		}
	}
	return left
}
