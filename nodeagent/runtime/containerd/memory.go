package containerd

import (
	"context"
	"fmt"
	"strings"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/escher-sched/escher/types"
)

// tmpfs is a file system in memory, with docker's options: every user may write there, and nothing
// in it may run.
func tmpfs(target string, bytes int64) specs.Mount {
	return specs.Mount{
		Type: "tmpfs", Source: "tmpfs", Destination: target,
		Options: []string{"nosuid", "nodev", "noexec", "mode=1777", fmt.Sprintf("size=%d", bytes)},
	}
}

// sharedMemory sets the size of the shared memory, which is 64 MiB in containerd's specification.
func sharedMemory(bytes int64) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		if bytes <= 0 {
			return nil
		}
		for i, m := range s.Mounts {
			if m.Destination != types.SharedMemory {
				continue
			}
			options := make([]string, 0, len(m.Options))
			for _, o := range m.Options {
				if !strings.HasPrefix(o, "size=") {
					options = append(options, o)
				}
			}
			s.Mounts[i].Options = append(options, fmt.Sprintf("size=%d", bytes))
		}
		return nil
	}
}

// rlimits sets the limits of processes. It removes containerd's limit of 1024 open files: the
// daemon's own limits apply to the rest.
func rlimits(limits []types.Ulimit) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		s.Process.Rlimits = nil
		for _, u := range limits {
			// The kernel's value for no limit is the largest one: -1 without a sign.
			s.Process.Rlimits = append(s.Process.Rlimits, specs.POSIXRlimit{
				Type: "RLIMIT_" + strings.ToUpper(u.Name), Soft: uint64(u.Soft), Hard: uint64(u.Hard),
			})
		}
		return nil
	}
}

// namedLimit replaces the kernel's number of a limit in a message of runc by its name.
func namedLimit(text string) string {
	// As in asm-generic/resource.h; 9 limits the address space, and has no name here.
	names := [...]string{
		"cpu", "fsize", "data", "stack", "core", "rss", "nproc", "nofile", "memlock", "", "locks", "sigpending", "msgqueue", "nice", "rtprio", "rttime",
	}
	for number, name := range names {
		if name != "" {
			text = strings.ReplaceAll(text, fmt.Sprintf("rlimit type %d:", number), "ulimit "+name+":")
		}
	}
	return text
}
