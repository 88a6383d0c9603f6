package cgroup

import (
	"bytes"
	"errors"
	"time"
)

// readV2 reads a cgroup of the one tree (Documentation/admin-guide/cgroup-v2.rst).
func (r *Reader) readV2(dir string) (Stat, error) {
	var f files
	var s Stat
	var errs [5]error
	s.CPU, errs[0] = f.cpuV2(dir)
	s.Memory, errs[1] = f.memoryV2(dir)
	s.IO, errs[2] = r.ioV2(&f, dir)
	s.Processes, errs[3] = f.processes(dir)
	s.Pressure, errs[4] = f.pressure(dir)
	return s, errors.Join(errs[:]...)
}

// cpuV2 reads cpu.stat, which has the time even if the controller is off.
func (f *files) cpuV2(dir string) (*CPU, error) {
	text, err := f.read(dir, "cpu.stat")
	if text == nil || err != nil {
		return nil, err
	}
	c := new(CPU)
	for name, us := range fields(text) {
		switch name {
		case "usage_usec":
			c.Used = time.Duration(us) * time.Microsecond
		case "throttled_usec":
			c.Throttled = time.Duration(us) * time.Microsecond
		}
	}
	return c, nil
}

func (f *files) memoryV2(dir string) (*Memory, error) {
	usage, ok, err := f.number(dir, "memory.current")
	if !ok || err != nil {
		return nil, err
	}
	text, err := f.read(dir, "memory.stat")
	if text == nil || err != nil {
		return nil, err
	}
	m := new(Memory)
	var inactive int64
	for name, n := range fields(text) {
		switch name {
		case "anon":
			m.RSS = n
		case "inactive_file":
			inactive = n
		}
	}
	m.WorkingSet = max(0, usage-inactive)
	m.Limit, _, err = f.number(dir, "memory.max")
	var err2, err3 error
	m.Peak, _, err2 = f.number(dir, "memory.peak") // since Linux 5.19
	text, err3 = f.read(dir, "memory.events")
	for name, n := range fields(text) {
		if name == "oom_kill" {
			m.OOMKills = n
		}
	}
	return m, errors.Join(err, err2, err3)
}

// ioV2 reads io.stat, a line per device: 8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=0 dios=0.
func (r *Reader) ioV2(f *files, dir string) (*IO, error) {
	text, err := f.read(dir, "io.stat")
	if text == nil || err != nil {
		return nil, err
	}
	io := &IO{Reads: new(int64(0)), Writes: new(int64(0))}
	for line := range bytes.Lines(text) {
		words := bytes.Fields(line)
		if len(words) == 0 || r.isStacked(string(words[0])) {
			continue
		}
		for _, word := range words[1:] {
			io.addV2(bytes.Cut(word, []byte("=")))
		}
	}
	return io, nil
}

func (i *IO) addV2(name, value []byte, _ bool) {
	n, _ := numberOf(value)
	switch string(name) {
	case "rbytes":
		i.ReadBytes += n
	case "wbytes":
		i.WriteBytes += n
	case "rios":
		*i.Reads += n
	case "wios":
		*i.Writes += n
	}
}
