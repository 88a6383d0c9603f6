package containerd

import (
	"context"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// rights sets the rights of the container's processes on the machine. seccomp depends on the
// capabilities, so it comes last.
func rights(of nodeagent.Container) []oci.SpecOpts {
	var opts []oci.SpecOpts
	if of.ReadOnlyRoot {
		opts = append(opts, oci.WithRootFSReadonly())
	}
	if of.Privileged {
		return append(opts, oci.WithPrivileged, oci.WithAllDevicesAllowed, oci.WithHostDevices, newPrivileges)
	}
	return append(opts, capabilities(of.CapAdd, of.CapDrop), oci.WithNoNewPrivileges, seccomp.WithDefaultProfile())
}

// capabilities gives root the default ones, plus add, minus drop. Another user gets only the added
// ones: otherwise they would have no use.
func capabilities(add, drop []string) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		root := kernelNames(types.CapabilitiesOf(add, drop))
		s.Process.Capabilities = &specs.LinuxCapabilities{Bounding: root, Effective: root, Permitted: root}
		if s.Process.User.UID != 0 {
			s.Process.Capabilities.Inheritable = kernelNames(add)
			s.Process.Capabilities.Ambient = kernelNames(add)
		}
		return nil
	}
}

// kernelNames returns the names of capabilities in the runtime specification.
func kernelNames(names []string) []string {
	out := make([]string, len(names))
	for i, name := range names {
		out[i] = "CAP_" + name
	}
	return out
}

// newPrivileges lets programs such as sudo work.
func newPrivileges(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
	s.Process.NoNewPrivileges = false
	return nil
}
