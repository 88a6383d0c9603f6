package cgroup

import (
	"cmp"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/escher-sched/escher/types"
)

// Stat is what a cgroup, with all below it, has used since it was made, and has now. What
// the kernel does not count for it, as the controller is off or the version has none, is
// nil: that is not the same as 0.
type Stat struct {
	CPU    *CPU
	Memory *Memory
	IO     *IO
	// Processes are counted with their threads where the pids controller is on, else
	// without.
	Processes *int64
	Pressure  Pressure
}

// CPU is time of processors.
type CPU struct {
	// Used is what was used, Throttled how long it was held back by its limit.
	Used, Throttled time.Duration
}

// Memory is in bytes.
type Memory struct {
	// WorkingSet is what it has without files that nobody has read lately, which can be
	// dropped at once: what the kubelet goes by, too.
	WorkingSet int64
	// RSS is what belongs to processes and not to files.
	RSS int64
	// Peak is the most it had, files included; 0 if the kernel does not tell.
	Peak int64
	// Limit is what it may have; 0 is no limit of its own.
	Limit int64
	// OOMKills is how many processes were killed for want of memory.
	OOMKills int64
}

// IO is what went to and came from block devices. What one device of the kernel hands to
// another, as dm and loop do, is counted once. Where v1 counts by device, what is written
// later, from the page cache, is nobody's.
type IO struct {
	ReadBytes, WriteBytes int64
	// Reads and Writes are operations of the devices; nil if only bytes are told.
	Reads, Writes *int64
}

// Pressure is how long something waited for each resource, nil if the kernel does not
// count it (Documentation/accounting/psi.rst of Linux).
type Pressure struct {
	CPU, Memory, IO *Stall
}

// Stall is the time in which some of its tasks, or all that were not idle, waited.
type Stall struct {
	// Some10 and Full10 are the part of the last ten seconds, in percent.
	Some10, Full10 float64
	// Some and Full are all of it.
	Some, Full time.Duration
}

// Reader reads what cgroups use. Its methods may be called concurrently. The zero value
// reads from where systems mount things.
type Reader struct {
	// Root is where the cgroup file systems are mounted, Sys and Proc where sysfs and
	// procfs are; empty are DefaultRoot, /sys and /proc.
	Root, Sys, Proc string

	mu sync.Mutex
	// stacked remembers of devices, by number, whether others do their work.
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

// isStacked reports whether a block device, by its number such as 253:0, has others do
// its work, which are counted themselves.
func (r *Reader) isStacked(number string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	is, known := r.stacked[number]
	if known {
		return is
	}
	dir := filepath.Join(cmp.Or(r.Sys, "/sys"), "dev/block", number)
	below, _ := os.ReadDir(filepath.Join(dir, "slaves")) // Without it, it has none.
	_, noLoop := os.Stat(filepath.Join(dir, "loop"))
	if r.stacked == nil {
		r.stacked = make(map[string]bool)
	}
	r.stacked[number] = len(below) > 0 || noLoop == nil
	return r.stacked[number]
}
