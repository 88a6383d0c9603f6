//go:build !linux

// Package inroot opens files of a container from outside of it, on Linux alone.
package inroot

import (
	"errors"
	"os"
)

// PathOnly and EmptyPath are of Linux.
const PathOnly, EmptyPath = 0, 0

// ErrKernel is the error of a path on a virtual file system of the kernel.
var ErrKernel = errors.New("it is on a file system of the kernel, such as /proc or /sys")

// Open opens nothing.
func Open(*os.File, string, int) (*os.File, error) { return nil, errors.ErrUnsupported }

// OpenAt opens nothing.
func OpenAt(*os.File, string, int) (*os.File, error) { return nil, errors.ErrUnsupported }

// ReadFile reads nothing.
func ReadFile(*os.File, string, int64) ([]byte, error) { return nil, errors.ErrUnsupported }
