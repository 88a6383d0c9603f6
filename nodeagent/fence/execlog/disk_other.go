//go:build !linux

package execlog

import (
	"errors"
	"os"
)

// datasync writes a file to disk.
func datasync(f *os.File) error { return f.Sync() }

// allocate reserves nothing.
func allocate(*os.File, int64, int64) error { return errors.ErrUnsupported }
