package execlog

import (
	"os"

	"golang.org/x/sys/unix"
)

// datasync writes the content of a file to disk.
func datasync(f *os.File) error { return unix.Fdatasync(int(f.Fd())) }

// allocate reserves disk space for a part of a file, beyond its end too.
func allocate(f *os.File, offset, bytes int64) error {
	return unix.Fallocate(int(f.Fd()), unix.FALLOC_FL_KEEP_SIZE, offset, bytes)
}
