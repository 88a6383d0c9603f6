package usage

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"github.com/prometheus/procfs/blockdevice"

	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/types"
)

// machine reads the usage of a machine.
type machine struct {
	proc procfs.FS
	disk blockdevice.FS
	sys  string
	// whole caches isDisk by device name.
	whole map[string]bool
}

// newMachine returns a machine with the given mount points of procfs and sysfs.
func newMachine(proc, sys string) (*machine, error) {
	p, err := procfs.NewFS(proc)
	if err != nil {
		return nil, types.Errorf(types.Precondition, "read %s: %w: mount it there", proc, err)
	}
	d, err := blockdevice.NewFS(proc, sys)
	if err != nil {
		return nil, types.Errorf(types.Precondition, "read %s: %w: mount it there", sys, err)
	}
	return &machine{proc: p, disk: d, sys: sys, whole: make(map[string]bool)}, nil
}

// read returns the usage by all processes and the kernel. Values that cannot be read are nil; the
// error has the reason.
func (m *machine) read() (cgroup.Stat, error) {
	var s cgroup.Stat
	var errs [3]error
	s.CPU, errs[0] = m.cpu()
	s.Memory, errs[1] = m.memory()
	s.IO, errs[2] = m.io()
	s.Pressure = m.pressure()
	if err := errors.Join(errs[:]...); err != nil {
		return s, types.Errorf(types.Unavailable, "read what the machine uses: %w", err)
	}
	return s, nil
}

// cpu returns the busy time of the processors. The time of guests is part of that of users.
func (m *machine) cpu() (*cgroup.CPU, error) {
	stat, err := m.proc.Stat()
	if err != nil {
		return nil, err
	}
	t := stat.CPUTotal
	busy := t.User + t.Nice + t.System + t.IRQ + t.SoftIRQ + t.Steal
	return &cgroup.CPU{Used: time.Duration(busy * float64(time.Second))}, nil
}

// memory returns the memory that is not available to a new process without swapping.
func (m *machine) memory() (*cgroup.Memory, error) {
	info, err := m.proc.Meminfo()
	if err != nil {
		return nil, err
	}
	total, available := info.MemTotalBytes, info.MemAvailableBytes
	if total == nil || available == nil {
		return nil, nil
	}
	out := &cgroup.Memory{WorkingSet: int64(*total - min(*total, *available)), Limit: int64(*total)}
	if anon := info.AnonPagesBytes; anon != nil {
		out.RSS = int64(*anon)
	}
	return out, nil
}

// io returns the sum of all disks.
func (m *machine) io() (*cgroup.IO, error) {
	disks, err := m.disk.ProcDiskstats()
	if err != nil {
		return nil, err
	}
	const sector = 512 // independent of the disk's sector size
	out := &cgroup.IO{Reads: new(int64(0)), Writes: new(int64(0))}
	for _, d := range disks {
		if m.isDisk(d.DeviceName) {
			out.ReadBytes += int64(d.ReadSectors) * sector
			out.WriteBytes += int64(d.WriteSectors) * sector
			*out.Reads += int64(d.ReadIOs)
			*out.Writes += int64(d.WriteIOs)
		}
	}
	return out, nil
}

// isDisk reports whether a block device does its work itself. A partition is part of such a device,
// and others pass their work to devices that are counted.
func (m *machine) isDisk(name string) bool {
	is, known := m.whole[name]
	if known {
		return is
	}
	dir := filepath.Join(m.sys, "block", strings.ReplaceAll(name, "/", "!"))
	_, partition := os.Stat(dir)
	below, _ := os.ReadDir(filepath.Join(dir, "slaves")) // Without the directory, it has none.
	_, noLoop := os.Stat(filepath.Join(dir, "loop"))
	is = partition == nil && len(below) == 0 && noLoop != nil && !strings.HasPrefix(name, "ram") && !strings.HasPrefix(name, "zram")
	m.whole[name] = is
	return is
}

// pressure returns the pressure; nil where the kernel does not count it.
func (m *machine) pressure() cgroup.Pressure {
	var p cgroup.Pressure
	for name, into := range map[string]**cgroup.Stall{"cpu": &p.CPU, "memory": &p.Memory, "io": &p.IO} {
		stats, err := m.proc.PSIStatsForResource(name)
		if err != nil || stats.Some == nil {
			continue // A kernel built or booted without it.
		}
		s := &cgroup.Stall{Some10: stats.Some.Avg10, Some: time.Duration(stats.Some.Total) * time.Microsecond}
		if stats.Full != nil {
			s.Full10, s.Full = stats.Full.Avg10, time.Duration(stats.Full.Total)*time.Microsecond
		}
		*into = s
	}
	return p
}
