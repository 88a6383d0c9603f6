package cgroup

import (
	"bytes"
	"errors"
	"iter"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/escher-sched/escher/types"
)

// files reads the files of cgroups, into one buffer after the other. Dozens of containers
// with ten files each are read every few seconds, so that it goes around package os, which
// would have the runtime poll each of them.
type files struct{ buf []byte }

// firstBuffer holds any of the files but io.stat of a machine with many disks.
const firstBuffer = 4 << 10

// read returns what a file has, until the next call. Nil without an error: there is no
// such file, or its cgroup is gone.
func (f *files) read(dir, name string) ([]byte, error) {
	if f.buf == nil {
		f.buf = make([]byte, firstBuffer)
	}
	path := filepath.Join(dir, name)
	n, err := f.fill(path)
	switch {
	case gone(err), errors.Is(err, unix.ESRCH), errors.Is(err, unix.EOPNOTSUPP):
		return nil, nil // It, or its process, has ended; or it is switched off, as pressure may be.
	case err != nil:
		return nil, types.Errorf(types.Unavailable, "read %s: %w", path, err)
	}
	return f.buf[:n], nil
}

// fill reads a file into the buffer, which grows as it must.
func (f *files) fill(path string) (n int, err error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, unix.Close(fd)) }()
	for {
		if n == len(f.buf) {
			f.buf = append(f.buf, make([]byte, len(f.buf))...)
		}
		more, err := retry(func() (int, error) { return unix.Read(fd, f.buf[n:]) })
		if err != nil || more == 0 {
			return n, err
		}
		n += more
	}
}

// retry calls f again as long as a signal interrupts it.
func retry(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// number reads a file with one number; false if it is not there, or says "max".
func (f *files) number(dir, name string) (int64, bool, error) {
	text, err := f.read(dir, name)
	n, ok := numberOf(text)
	return n, ok, err
}

// numberOf reads a number; false if it is none.
func numberOf(text []byte) (int64, bool) {
	n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil {
		return 0, false
	}
	// What v1 has as "no limit" is close to the largest there is.
	return int64(min(n, 1<<63-1)), true
}

// fields yields the names and numbers of a file with one of each a line.
func fields(text []byte) iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for line := range bytes.Lines(text) {
			name, value, _ := bytes.Cut(line, []byte(" "))
			n, ok := numberOf(value)
			if ok && !yield(string(name), n) {
				return
			}
		}
	}
}

// processes counts those of a cgroup; nil if there is no such cgroup.
func (f *files) processes(dir string) (*int64, error) {
	n, ok, err := f.number(dir, "pids.current")
	if ok || err != nil {
		return &n, err
	}
	text, err := f.read(dir, procsFile)
	if text == nil || err != nil {
		return nil, err
	}
	return new(int64(bytes.Count(text, []byte("\n")))), nil
}

// pressure reads the three files of a cgroup of v2.
func (f *files) pressure(dir string) (Pressure, error) {
	cpu, err := f.stall(dir, "cpu.pressure")
	if cpu == nil {
		return Pressure{}, err // It is all of them or none.
	}
	memory, err2 := f.stall(dir, "memory.pressure")
	io, err3 := f.stall(dir, "io.pressure")
	return Pressure{CPU: cpu, Memory: memory, IO: io}, errors.Join(err, err2, err3)
}

func (f *files) stall(dir, name string) (*Stall, error) {
	text, err := f.read(dir, name)
	if err != nil {
		return nil, err
	}
	return parseStall(text), nil
}
