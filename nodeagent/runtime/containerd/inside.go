package containerd

import (
	"context"
	"path/filepath"
	"strconv"
)

// Root implements nodeagent.Runtime. The directory belongs to a process id.
func (r *Runtime) Root(ctx context.Context, id string) (string, error) {
	p, err := r.runs(ctx, id, "show the files of")
	if err != nil {
		return "", err
	}
	return filepath.Join("/proc", strconv.FormatUint(uint64(p.Pid), 10), "root"), nil
}
