package cgroup

import (
	"cmp"
	"path/filepath"
	"strconv"
)

// maxIOProcesses is of how many processes it is read what each has done: of more it would
// cost too much.
const maxIOProcesses = 256

// ioOfProcesses adds up what the processes of a cgroup have read from devices, and what
// they have written that went or will go there (proc_pid_io(5)). What a child did counts
// for who waited for it. Nil: the kernel does not count that, or there are too many.
func (r *Reader) ioOfProcesses(f *files, dir string) (*IO, error) {
	pids, err := procsOf(dir)
	if err != nil || len(pids) > maxIOProcesses {
		return nil, err
	}
	var io *IO
	for _, pid := range pids {
		text, err := f.read(filepath.Join(cmp.Or(r.Proc, "/proc"), strconv.Itoa(pid)), "io")
		if err != nil {
			return nil, err
		}
		if text != nil && io == nil {
			io = new(IO)
		}
		for name, n := range fields(text) {
			switch name {
			case "read_bytes:":
				io.ReadBytes += n
			case "write_bytes:":
				io.WriteBytes += n
			}
		}
	}
	return io, nil
}
