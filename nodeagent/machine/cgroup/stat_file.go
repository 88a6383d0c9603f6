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

// files reads files of cgroups into one buffer. It bypasses package os, which would register each
// file with the runtime's poller: dozens of containers have ten files each, read every few seconds.
type files struct{ buf []byte }

// firstBuffer holds any of the files except io.stat of a machine with many disks.
const firstBuffer = 4 << 10

// read returns the content of a file, valid until the next call. nil without an error means that
// the file or its cgroup does not exist.
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

// fill reads a file into the buffer, which grows as needed.
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

// retry calls f until no signal interrupts it.
func retry(f func() (int, error)) (int, error) {
	for {
		n, err := f()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// number reads a file with one number; false if it does not exist or has "max".
func (f *files) number(dir, name string) (int64, bool, error) {
	text, err := f.read(dir, name)
	n, ok := numberOf(text)
	return n, ok, err
}

// numberOf parses a number; false if text is not one.
func numberOf(text []byte) (int64, bool) {
	n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 64)
	if err != nil {
		return 0, false
	}
	// "No limit" of v1 is close to the largest number.
	return int64(min(n, 1<<63-1)), true
}

// fields yields the names and numbers of a file with one pair per line.
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

// processes counts the processes of a cgroup; nil if there is no such cgroup.
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
		return Pressure{}, err // Either all exist or none.
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
