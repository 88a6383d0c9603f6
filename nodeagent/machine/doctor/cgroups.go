package doctor

import "github.com/escher-sched/escher/nodeagent/machine/cgroup"

// gatherCgroups finds the facts of control groups, as an agent does before it starts.
func gatherCgroups(h host, root, run string) cgroup.Facts {
	f := cgroup.Look(root, run)
	// The root of v2 has no limits. Each group below it has them, unless the kernel was booted
	// without.
	if f.Unified {
		f.Swap = len(h.glob(root+"/*/memory.swap.max")) > 0
	}
	return f
}
