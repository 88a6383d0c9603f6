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
	"github.com/escher-sched/escher/types"
)

const (
	// cpuPeriod is the scheduling period of cpu limits, in microseconds.
	cpuPeriod = 100_000
	// minQuota is the least that the kernel accepts in a period.
	minQuota = 1_000
	// A core is worth sharesOfCore of cpu.shares, in which the kernel takes from
	// minShares to maxShares. For v2 runc makes a cpu.weight of them.
	sharesOfCore = 1024
	minShares    = 2
	maxShares    = 262_144
)

// control is how containers are put into cgroups on this machine.
type control struct {
	facts  cgroup.Facts
	layout cgroup.Layout
}

// newControl decides that by what the machine has; driver is the one wanted, if any.
func newControl(facts cgroup.Facts, driver cgroup.Driver, namespace string) (control, error) {
	driver, err := facts.Choose(driver)
	return control{facts: facts, layout: cgroup.Layout{Driver: driver, Group: namespace}}, err
}

// Cgroups returns where the cgroups of the containers are.
func (r *Runtime) Cgroups() cgroup.Layout { return r.control.layout }

// runtime says what runs a container. The record of the container keeps it: with the
// driver that made a cgroup it is removed.
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

// limits puts the container into its cgroup, with its shares and its limits.
func (m control) limits(of nodeagent.Container) oci.SpecOpts {
	return func(_ context.Context, _ oci.Client, _ *containers.Container, s *oci.Spec) error {
		s.Linux.CgroupsPath = m.layout.OCI(of.ID)
		res := s.Linux.Resources
		res.CPU = cpuOf(of)
		pids := cmp.Or(of.Pids, nodeagent.DefaultPids)
		res.Pids = &specs.LinuxPids{Limit: &pids}
		if of.MemoryBytes > 0 {
			res.Memory = &specs.LinuxMemory{Limit: &of.MemoryBytes}
			if m.facts.Swap {
				res.Memory.Swap = &of.MemoryBytes // memory and swap together: no swap
			}
		}
		if m.facts.Unified {
			// Half a task is of no use: all of it is killed, and says so. v1 cannot.
			res.Unified = map[string]string{"memory.oom.group": "1"}
		}
		return nil
	}
}

// cpuOf returns the share of cpu, which is by what is requested, so that what a node
// has too little of is divided by that, and the limit.
func cpuOf(of nodeagent.Container) *specs.LinuxCPU {
	shares := uint64(min(maxShares, max(minShares, of.MilliCPU*sharesOfCore/1000)))
	cpu := &specs.LinuxCPU{Shares: &shares}
	if of.MilliCPU > 0 && of.CPULimit != types.CPUNone {
		quota, period := max(minQuota, of.MilliCPU*cpuPeriod/1000), uint64(cpuPeriod)
		cpu.Quota, cpu.Period = &quota, &period
	}
	return cpu
}
