package doctor

import (
	"slices"
	"strings"
)

// gatherCgroups looks how control groups are mounted, and which controllers can be used.
func gatherCgroups(h host) Cgroups {
	var v1 []string
	root, memory := "", ""
	for _, m := range h.mounts() {
		switch m.kind {
		case "cgroup2":
			if root == "" || m.at == cgroupRoot {
				root = m.at
			}
		case "cgroup":
			v1 = append(v1, m.options...)
			if slices.Contains(m.options, "memory") {
				memory = m.at
			}
		}
	}
	v1 = slices.DeleteFunc(v1, func(option string) bool { return !slices.Contains(known(), option) })
	slices.Sort(v1)
	v1 = slices.Compact(v1)
	switch {
	case root != "" && len(v1) == 0:
		return Cgroups{
			Mode: "v2", Controllers: strings.Fields(h.text(root + "/cgroup.controllers")),
			// The root has no limits: each group below it has.
			SwapLimit: len(h.glob(root+"/*/memory.swap.max")) > 0,
		}
	case len(v1) == 0:
		return Cgroups{Mode: "none"}
	}
	c := Cgroups{Mode: "v1", Controllers: v1, SwapLimit: h.has(memory + "/memory.memsw.limit_in_bytes")}
	if root != "" {
		c.Mode = "hybrid"
	}
	return c
}

const cgroupRoot = "/sys/fs/cgroup"

// known are the controllers of v1, which stand among the options of a mount.
func known() []string {
	return []string{"blkio", "cpu", "cpuacct", "cpuset", "devices", "freezer", "hugetlb", "memory", "net_cls", "net_prio", "perf_event", "pids", "rdma", "misc"}
}
