// Package flagset holds flags that several commands share.
package flagset

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/types"
)

// IsolationFlags are the limits and rights of a task.
type IsolationFlags struct {
	pids            int
	cpuLimit        string
	capAdd, capDrop []string
	readOnly        bool
	privileged      bool
	socket          string
}

func (i *IsolationFlags) Add(flags *pflag.FlagSet) {
	flags.IntVar(&i.pids, "pids-limit", 0, "most processes and threads it may have; 0 means the default of its node")
	flags.StringVar(&i.cpuLimit, "cpu-limit", "", "none: use idle cpu too (default: no more than --cpu)")
	flags.StringArrayVar(&i.capAdd, "cap-add", nil, "capability to add, such as NET_ADMIN; most only where the node allows it; repeat for several")
	flags.StringArrayVar(&i.capDrop, "cap-drop", nil, "capability to drop, or ALL; repeat for several")
	flags.BoolVar(&i.readOnly, "read-only", false, "make the files of its image read-only; see --scratch")
	flags.StringVar(&i.socket, "socket", "", "what it may do through its task socket: namespace, self or none (default: namespace)")
	flags.BoolVar(&i.privileged, "privileged", false, "grant the rights of the node's root user; only where the node allows it")
}

// Isolate copies the flags to out.
func (i *IsolationFlags) Isolate(out *types.Spec) error {
	out.Pids, out.CPULimit, out.ReadOnlyRoot, out.Privileged = i.pids, types.CPULimit(i.cpuLimit), i.readOnly, i.privileged
	var err, err2, err3 error
	out.Socket, err3 = types.ParseSocket(i.socket)
	out.CapAdd, err = parseCapabilities("cap-add", i.capAdd)
	out.CapDrop, err2 = parseCapabilities("cap-drop", i.capDrop)
	return errors.Join(err, err2, err3)
}

func parseCapabilities(field string, texts []string) ([]string, error) {
	var names []string
	var errs []error
	for _, text := range texts {
		name, err := types.ParseCapability(field, text)
		names, errs = append(names, name), append(errs, err)
	}
	return names, errors.Join(errs...)
}

// PermissionFlags say what tasks may request on a node.
type PermissionFlags struct {
	privileged bool
	caps       []string
	pids       int
}

func (p *PermissionFlags) Add(flags *pflag.FlagSet) {
	flags.BoolVar(&p.privileged, "allow-privileged", false, "let tasks be privileged, which makes them root of this machine")
	flags.StringArrayVar(&p.caps, "allow-cap", nil, "capability that tasks may add, such as NET_ADMIN; repeat for several")
	flags.IntVar(&p.pids, "max-pids", nodeagent.DefaultMaxPids, "most processes and threads a task may ask for")
}

// Permissions returns the permissions of the flags.
func (p *PermissionFlags) Permissions() (nodeagent.Permissions, error) {
	caps, err := parseCapabilities("allow-cap", p.caps)
	return nodeagent.Permissions{Privileged: p.privileged, Capabilities: caps, MaxPids: p.pids}, err
}
