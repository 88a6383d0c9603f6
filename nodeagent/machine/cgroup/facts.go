package cgroup

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/escher-sched/escher/types"
)

// DefaultRun is where systemd shows that it is process 1 (sd_booted(3)).
const DefaultRun = "/run"

// Facts are the facts of a machine that decide how containers are limited.
type Facts struct {
	// Root is the mount point of the cgroups.
	Root string
	// Unified reports whether there is only v2.
	Unified bool
	// Systemd reports whether systemd is process 1.
	Systemd bool
	// Controllers are the available controllers, sorted.
	Controllers []string
	// Closed are the controllers of v2 that the root cgroup does not delegate, and cannot: it is
	// not the machine's root cgroup, and has processes (cgroup-v2.rst, "No Internal Process
	// Constraint").
	Closed []string
	// Swap reports whether memory and swap can be limited together.
	Swap bool
}

// Look finds the facts of a machine: root is the mount point of cgroups, run is DefaultRun. It
// treats unreadable files as missing.
func Look(root, run string) Facts {
	f := Facts{Root: root, Unified: Unified(root)}
	info, err := os.Stat(filepath.Join(run, "systemd/system"))
	f.Systemd = err == nil && info.IsDir()
	if f.Unified {
		f.lookUnified()
	} else {
		f.lookV1()
	}
	slices.Sort(f.Controllers)
	return f
}

func (f *Facts) lookUnified() {
	f.Controllers = f.words(controllersFile)
	f.Swap = true
	_, err := os.Stat(filepath.Join(f.Root, "cgroup.type"))
	if machine := err != nil; machine || len(f.words(procsFile)) == 0 {
		return
	}
	open := f.words("cgroup.subtree_control")
	for _, c := range f.Controllers {
		if !slices.Contains(open, c) {
			f.Closed = append(f.Closed, c)
		}
	}
}

// lookV1 reads the names of the hierarchies: cpu,cpuacct with its links, or each alone.
func (f *Facts) lookV1() {
	entries, err := os.ReadDir(f.Root)
	if err != nil {
		return
	}
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(f.Root, e.Name(), procsFile)); err == nil {
			f.Controllers = append(f.Controllers, strings.Split(e.Name(), ",")...)
		}
	}
	slices.Sort(f.Controllers)
	f.Controllers = slices.Compact(f.Controllers)
	// The kernel may have been built or booted without it.
	_, err = os.Stat(filepath.Join(f.Root, "memory/memory.memsw.limit_in_bytes"))
	f.Swap = err == nil
}

func (f *Facts) words(file string) []string {
	content, err := os.ReadFile(filepath.Join(f.Root, file))
	if err != nil {
		return nil
	}
	return strings.Fields(string(content))
}

// Driver returns the driver for such a machine: systemd where it manages v2, and runc itself
// otherwise.
func (f Facts) Driver() Driver {
	if f.Unified && f.Systemd {
		return Systemd
	}
	return Cgroupfs
}

// Choose returns the wanted driver, or the one that suits the machine if wanted is "". Invalid:
// wanted is unknown. Precondition: the machine does not run systemd.
func (f Facts) Choose(wanted Driver) (Driver, error) {
	switch wanted {
	case "":
		return f.Driver(), nil
	case Cgroupfs:
		return wanted, nil
	case Systemd:
		if !f.Systemd {
			return "", types.Errorf(types.Precondition, "use the cgroup driver systemd: it is not what started this machine: leave the driver out, or use cgroupfs")
		}
		return wanted, nil
	}
	return "", types.Errorf(types.Invalid, "cgroup driver %q is unknown: use cgroupfs or systemd, or leave it out", wanted)
}

// Needed returns the controllers that are required to enforce the limits of tasks.
func Needed() []string { return []string{"cpu", "memory", "pids"} }

// Check returns Precondition if the machine cannot enforce the limits of tasks. The error has the
// reason and a remedy.
func (f Facts) Check() error {
	var missing, closed []string
	for _, c := range Needed() {
		switch {
		case !slices.Contains(f.Controllers, c):
			missing = append(missing, c)
		case slices.Contains(f.Closed, c):
			closed = append(closed, c)
		}
	}
	switch {
	case len(f.Controllers) == 0:
		return types.Errorf(types.Precondition, "limit tasks: no control groups are mounted at %s: mount them, or run this outside of its container", f.Root)
	case len(missing) > 0 && f.Unified:
		return types.Errorf(types.Precondition, "limit tasks: the controllers %s are not in %s: give them to this machine or container "+
			"(for memory, boot with cgroup_enable=memory; with systemd, set Delegate=yes)", strings.Join(missing, ", "), filepath.Join(f.Root, controllersFile))
	case len(missing) > 0:
		return types.Errorf(types.Precondition, "limit tasks: no hierarchy of %s is mounted below %s: mount it (for memory, boot with cgroup_enable=memory)", strings.Join(missing, ", "), f.Root)
	case len(closed) > 0:
		return types.Errorf(types.Precondition, "limit tasks: %s is not in %s, and cannot be while processes are in that group: move them into one below it, and write +%s there",
			strings.Join(closed, ", "), filepath.Join(f.Root, "cgroup.subtree_control"), strings.Join(closed, " +"))
	}
	return nil
}

// String describes the version and the driver in a few words.
func (f Facts) String() string {
	version := "v1"
	if f.Unified {
		version = "v2"
	}
	return fmt.Sprintf("cgroup %s, driver %s", version, f.Driver())
}
