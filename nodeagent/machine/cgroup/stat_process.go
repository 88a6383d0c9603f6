package cgroup

import (
	"cmp"
	"path/filepath"
	"strconv"
)

// maxIOProcesses limits the number of processes whose io files are read: more would cost too much.
const maxIOProcesses = 256

// ioOfProcesses adds up the bytes that the processes of a cgroup read from devices, and those that
// they wrote, now or later (proc_pid_io(5)). The io of an ended child counts for the process that
// waited for it. nil means that the kernel does not count it, or there are too many processes.
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
