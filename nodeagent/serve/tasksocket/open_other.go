//go:build !linux

package tasksocket

import "errors"

// openToAll refuses: tasks run on Linux alone.
func openToAll(string) error { return errors.ErrUnsupported }
