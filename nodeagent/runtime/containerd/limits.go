package containerd

import (
	"cmp"
	"context"

	"github.com/containerd/containerd/api/types/runc/options"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/typeurl/v2"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/machine/cgroup"
	"github.com/escher-sched/escher/nodeagent/permits"
	"github.com/escher-sched/escher/types"
)

const (
	// cpuPeriod is the scheduling period of cpu limits, in microseconds.
	cpuPeriod = 100_000
	// minQuota is the kernel's minimum per period.
	minQuota = 1_000
	// A core has sharesOfCore of cpu.shares. The kernel accepts minShares to maxShares. For v2,
	// runc converts them to cpu.weight.
	sharesOfCore = 1024
	minShares    = 2
	maxShares    = 262_144
)

// control configures the cgroups of containers on this machine.
type control struct {
	facts  cgroup.Facts
	layout cgroup.Layout
}

// newControl chooses the control by the facts of the machine; driver "" means any driver.
func newControl(facts cgroup.Facts, driver cgroup.Driver, namespace string) (control, error) {
	driver, err := facts.Choose(driver)
	return control{facts: facts, layout: cgroup.Layout{Driver: driver, Group: namespace}}, err
}

// Cgroups returns the layout of the containers' cgroups.
func (r *Runtime) Cgroups() cgroup.Layout { return r.control.layout }

// runtime returns the runtime of a container. The record of the container stores it: the driver
// that made a cgroup also removes it.
func (m control) runtime() (containers.RuntimeInfo, error) {
	info := containers.RuntimeInfo{Name: runtimeName}
	if m.layout.Driver != cgroup.Systemd {
		return info, nil
	}
	opts, err := typeurl.MarshalAny(&options.Options{SystemdCgroup: true})
	if err != nil {
		return info, types.Errorf(types.Internal, "say that systemd makes cgroups: %w", err)
	}
	info.Options = opts
	return info, nil
}

// limits puts the container into its cgroup, with its shares and limits.
func (m control) limits(of nodeagent.Container) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		s.Linux.CgroupsPath = m.layout.OCI(of.ID)
		res := s.Linux.Resources
		res.CPU = cpuOf(of)
		pids := cmp.Or(of.Pids, permits.DefaultPids)
		res.Pids = &specs.LinuxPids{Limit: &pids}
		if of.MemoryBytes > 0 {
			res.Memory = &specs.LinuxMemory{Limit: &of.MemoryBytes}
			if m.facts.Swap {
				res.Memory.Swap = &of.MemoryBytes // memory and swap together: no swap
			}
		}
		if m.facts.Unified {
			// Half a task is useless: the kernel kills all of it, and reports so. v1 cannot.
			res.Unified = map[string]string{"memory.oom.group": "1"}
		}
		return nil
	}
}

// cpuOf returns the cpu shares and the limit. The shares follow the request, which divides cpu
// under contention.
func cpuOf(of nodeagent.Container) *specs.LinuxCPU {
	shares := uint64(min(maxShares, max(minShares, of.MilliCPU*sharesOfCore/1000)))
	cpu := &specs.LinuxCPU{Shares: &shares}
	if of.MilliCPU > 0 && of.CPULimit != types.CPUNone {
		quota, period := max(minQuota, of.MilliCPU*cpuPeriod/1000), uint64(cpuPeriod)
		cpu.Quota, cpu.Period = &quota, &period
	}
	return cpu
}
