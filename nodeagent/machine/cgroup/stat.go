package cgroup

import (
	"cmp"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/escher-sched/escher/types"
)

// Stat is the resource usage of a cgroup and everything below it, since it was made and now. A nil
// field is not counted by the kernel, because the controller is off or the version lacks it: that
// is not the same as 0.
type Stat struct {
	CPU    *CPU
	Memory *Memory
	IO     *IO
	// Processes includes threads if the pids controller is on, and otherwise not.
	Processes *int64
	Pressure  Pressure
}

// CPU is processor time.
type CPU struct {
	// Used is the used time, Throttled the time for which the limit held it back.
	Used, Throttled time.Duration
}

// Memory is in bytes.
type Memory struct {
	// WorkingSet excludes files that were not read lately, which can be dropped at once. The
	// kubelet uses the same number.
	WorkingSet int64
	// RSS is the memory of processes, without files.
	RSS int64
	// Peak is the highest usage, files included; 0 means unknown.
	Peak int64
	// Limit is its own limit; 0 means none.
	Limit int64
	// OOMKills is the number of processes killed for lack of memory.
	OOMKills int64
}

// IO is the traffic with block devices. Traffic that one kernel device passes to another, such as
// dm and loop, counts once. Where v1 counts by device, it does not account later writes from the
// page cache.
type IO struct {
	ReadBytes, WriteBytes int64
	// Reads and Writes are operations of the devices; nil if only bytes are known.
	Reads, Writes *int64
}

// Pressure is how long processes waited for each resource; nil if the kernel does not count it
// (Documentation/accounting/psi.rst of Linux).
type Pressure struct {
	CPU, Memory, IO *Stall
}

// Stall is the time in which some processes, or all that were not idle, waited.
type Stall struct {
	// Some10 and Full10 are the share of the last ten seconds, in percent.
	Some10, Full10 float64
	// Some and Full are the total times.
	Some, Full time.Duration
}

// Reader reads the resource usage of cgroups. Its methods may be called concurrently. The zero
// value uses the usual mount points.
type Reader struct {
	// Root is the mount point of the cgroup file systems, Sys of sysfs and Proc of procfs; "" means
	// DefaultRoot, /sys and /proc.
	Root, Sys, Proc string

	mu sync.Mutex
	// stacked caches isStacked by the number of the device.
	stacked map[string]bool
}

// Read reads a cgroup. NotFound: there is none, or it vanished meanwhile.
func (r *Reader) Read(path string) (Stat, error) {
	if err := checkPath(path); err != nil {
		return Stat{}, err
	}
	root := cmp.Or(r.Root, DefaultRoot)
	var s Stat
	var err error
	if Unified(root) {
		s, err = r.readV2(filepath.Join(root, path))
	} else {
		s, err = r.readV1(root, path)
	}
	if err != nil {
		return Stat{}, types.Errorf(types.ClassOf(err), "read what cgroup %s uses: %w", path, err)
	}
	if s == (Stat{}) {
		return Stat{}, types.Errorf(types.NotFound, "read what cgroup %s uses: there is no such cgroup", path)
	}
	return s, nil
}

// isStacked reports whether a block device passes its work to other devices, which are counted
// themselves. number is such as 253:0.
func (r *Reader) isStacked(number string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	is, known := r.stacked[number]
	if known {
		return is
	}
	dir := filepath.Join(cmp.Or(r.Sys, "/sys"), "dev/block", number)
	below, _ := os.ReadDir(filepath.Join(dir, "slaves")) // Without the directory, it has none.
	_, noLoop := os.Stat(filepath.Join(dir, "loop"))
	if r.stacked == nil {
		r.stacked = make(map[string]bool)
	}
	r.stacked[number] = len(below) > 0 || noLoop == nil
	return r.stacked[number]
}
