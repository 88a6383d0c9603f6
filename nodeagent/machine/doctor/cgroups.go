package doctor

import "github.com/escher-sched/escher/nodeagent/machine/cgroup"

// gatherCgroups looks at control groups as an agent does before it starts.
func gatherCgroups(h host, root, run string) cgroup.Facts {
	f := cgroup.Look(root, run)
	// The root of v2 has no limits: each group below it has, unless the kernel was started
	// without.
	if f.Unified {
		f.Swap = len(h.glob(root+"/*/memory.swap.max")) > 0
	}
	return f
}
