package cgroup

import (
	"bytes"
	"errors"
	"path/filepath"
	"time"
)

// noLimitV1 is more memory than any machine has: v1 reports "no limit" as the largest possible
// number of pages.
const noLimitV1 = 1 << 60

// readV1 reads a cgroup that has a tree per controller. If v2 is mounted next to them and has the
// cgroup, it provides the pressure.
func (r *Reader) readV1(root, path string) (Stat, error) {
	var f files
	dir := func(controller string) string { return filepath.Join(root, controller, path) }
	var s Stat
	var errs [5]error
	s.CPU, errs[0] = f.cpuV1(dir("cpuacct"), dir("cpu"))
	s.Memory, errs[1] = f.memoryV1(dir("memory"))
	s.IO, errs[2] = r.ioV1(&f, dir("blkio"))
	s.Processes, errs[3] = f.processesV1(dir)
	s.Pressure, errs[4] = f.pressure(dir("unified"))
	return s, errors.Join(errs[:]...)
}

func (f *files) cpuV1(account, limit string) (*CPU, error) {
	used, ok, err := f.number(account, "cpuacct.usage")
	if !ok || err != nil {
		return nil, err
	}
	c := &CPU{Used: time.Duration(used)}
	text, err := f.read(limit, "cpu.stat")
	for name, n := range fields(text) {
		if name == "throttled_time" {
			c.Throttled = time.Duration(n)
		}
	}
	return c, err
}

func (f *files) memoryV1(dir string) (*Memory, error) {
	usage, ok, err := f.number(dir, "memory.usage_in_bytes")
	if !ok || err != nil {
		return nil, err
	}
	m := new(Memory)
	text, err := f.read(dir, "memory.stat")
	if text == nil || err != nil {
		return nil, err
	}
	var inactive int64
	for name, n := range fields(text) {
		switch name {
		case "total_rss":
			m.RSS = n
		case "total_inactive_file":
			inactive = n
		case "hierarchical_memory_limit":
			if n < noLimitV1 {
				m.Limit = n
			}
		}
	}
	m.WorkingSet = max(0, usage-inactive)
	if m.Peak, _, err = f.number(dir, "memory.max_usage_in_bytes"); err != nil {
		return nil, err
	}
	text, err = f.read(dir, "memory.oom_control")
	for name, n := range fields(text) {
		if name == "oom_kill" {
			m.OOMKills = n
		}
	}
	return m, err
}

// ioV1 reads the counters of the throttle layer, which work with any scheduler of the disk. Since
// Linux 6.10 they count nothing until the disk has a limit: then ioV1 adds up the io of the
// processes.
func (r *Reader) ioV1(f *files, dir string) (*IO, error) {
	text, err := f.throttled(dir, "blkio.throttle.io_service_bytes")
	if text == nil || err != nil {
		return nil, err
	}
	io := new(IO)
	var counted bool
	if io.ReadBytes, io.WriteBytes, counted = r.sumV1(text); !counted {
		return r.ioOfProcesses(f, dir)
	}
	if text, err = f.throttled(dir, "blkio.throttle.io_serviced"); text == nil || err != nil {
		return nil, err
	}
	reads, writes, _ := r.sumV1(text)
	io.Reads, io.Writes = &reads, &writes
	return io, nil
}

// throttled reads the recursive file of a counter (since Linux 4.20), or else the plain one.
func (f *files) throttled(dir, name string) ([]byte, error) {
	text, err := f.read(dir, name+"_recursive")
	if text == nil && err == nil {
		return f.read(dir, name)
	}
	return text, err
}

// sumV1 adds up lines such as "8:0 Read 4096"; counted is false if there are none.
func (r *Reader) sumV1(text []byte) (read, written int64, counted bool) {
	for line := range bytes.Lines(text) {
		words := bytes.Fields(line)
		if len(words) != 3 || r.isStacked(string(words[0])) {
			continue
		}
		counted = true
		n, _ := numberOf(words[2])
		switch string(words[1]) {
		case "Read":
			read += n
		case "Write":
			written += n
		}
	}
	return read, written, counted
}

// processesV1 counts the processes in the first tree that has the cgroup.
func (f *files) processesV1(dir func(controller string) string) (*int64, error) {
	for _, controller := range []string{"pids", "memory", "cpuacct", "freezer"} {
		n, err := f.processes(dir(controller))
		if n != nil || err != nil {
			return n, err
		}
	}
	return nil, nil
}
