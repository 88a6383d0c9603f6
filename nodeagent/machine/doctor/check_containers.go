package doctor

import (
	"fmt"
	"strings"

	"github.com/escher-sched/escher/types/action"
	"github.com/escher-sched/escher/types/words"
)

const installContainers = "apt-get install containerd runc"

func checkContainerd(f Facts) []Finding {
	d, c := of("containerd"), f.Containerd
	has, well := c.Serving, "version "+c.Serving+" answers at "+f.Plan.Containerd
	if has == "" {
		has, well = c.Version, "version "+c.Version+" is installed: the agent runs one of its own"
	}
	switch {
	case c.Serving == "" && f.Plan.Named:
		d.problem(c.Error, "systemctl start containerd, or leave out %s: then the agent runs one of its own", action.AgentContainerd.Of())
	case has == "" && c.Binary != "":
		d.problem(c.Binary+" does not say its version", "%s --version", c.Binary)
	case has == "":
		d.problem("it is not installed, and none answers", installContainers)
	}
	if major, minor, ok := version(has); ok && (major < 1 || major == 1 && minor < 6) {
		d.problem(fmt.Sprintf("version %s is older than 1.6, the first that is known to work", has), "install containerd 1.6 or 2")
	}
	if c.Shim == "" && has != "" {
		d.problem("containerd-shim-runc-v2 is not in the PATH, and every container takes one", installContainers)
	}
	return d.done(well)
}

func checkRunc(f Facts) []Finding {
	d, c := of("runc"), f.Containerd
	switch major, minor, ok := version(c.RuncVersion); {
	case c.Runc == "":
		d.problem("it is not installed", "apt-get install runc")
	case c.RuncError != "":
		d.problem(fmt.Sprintf("%s does not run: %s", c.Runc, c.RuncError), "%s --version", c.Runc)
	case !ok:
		d.warn(fmt.Sprintf("the version of %s cannot be read", c.Runc), "%s --version", c.Runc)
	case major < 1:
		d.problem(fmt.Sprintf("version %s is older than 1.0", c.RuncVersion), "install runc 1.1 or later")
	case f.Cgroups.Unified && major == 1 && minor < 1:
		d.warn(fmt.Sprintf("version %s knows little of control groups v2", c.RuncVersion), "install runc 1.1 or later")
	}
	return d.done("version " + c.RuncVersion)
}

func checkInit(f Facts) []Finding {
	d := of("init")
	if f.Containerd.Init == "" {
		d.warn("tasks that ask for an init process cannot start here", "apt-get install tini")
	}
	return d.done(f.Containerd.Init)
}

func checkAgent(f Facts) []Finding {
	d := of("agent")
	if f.Agent.Running {
		return d.done("process " + f.Agent.PID + " runs in " + f.Plan.StateDir)
	}
	return d.done("none runs in " + f.Plan.StateDir)
}

func checkWatchdog(f Facts) []Finding {
	if !f.Watchdog.Known || !f.Agent.Running {
		return nil
	}
	d := of("watchdog")
	if !f.Watchdog.Running {
		d.problem("it does not run: tasks run on if the agent dies, while others take them over", "restart the agent, and look into its log")
	}
	return d.done("it runs")
}

// checkContainers finds containers that no agent manages.
func checkContainers(f Facts) []Finding {
	d := of("containers")
	total := 0
	for _, s := range f.Spaces {
		running, unbound := 0, 0
		for _, c := range s.Containers {
			if c.Running {
				running++
			}
			if f.Cluster != nil && !f.Cluster.Bound[boundText(c.Namespace, c.Task, c.Attempt)] {
				unbound++
			}
		}
		total += running
		whose := fmt.Sprintf("of node %s of cluster %s", s.Node, s.Cluster)
		ours := s.Node == f.Plan.Node && (f.Cluster == nil || f.Cluster.ID == s.Cluster)
		switch {
		case !ours:
			d.warn(fmt.Sprintf("the agent of %s leaves alone %s %s, %d of them running", f.Plan.Node, words.Count(len(s.Containers), "container"), whose, running), "%s", remove(s.Name))
		case !f.Agent.Running && running > 0:
			d.warn(fmt.Sprintf("no agent manages %s %s", words.Count(running, "running container"), whose), "start the agent, which adopts or ends them; to end them without it: %s", remove(s.Name))
		case f.Cluster != nil && f.Agent.Running && unbound > 0:
			d.warn(fmt.Sprintf("the agent has not yet removed %s %s", words.Count(unbound, "unbound container"), whose), "look again in a moment; if they stay, restart the agent")
		}
	}
	return d.done(fmt.Sprintf("%d running", total))
}

// remove returns the command that ends all containers of a namespace.
func remove(space string) string {
	return strings.ReplaceAll("ctr -n NS task ls -q | xargs -r -n1 ctr -n NS task rm -f; ctr -n NS container ls -q | xargs -r ctr -n NS container rm", "NS", space)
}
