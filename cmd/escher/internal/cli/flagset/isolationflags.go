// Package flagset holds flags that several commands share.
package flagset

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/nodeagent/permits"
	"github.com/escher-sched/escher/types"
)

// IsolationFlags are the limits and rights of a task.
type IsolationFlags struct {
	pids            int
	burst           bool
	cpuLimit        string
	capAdd, capDrop []string
	readOnly        bool
	privileged      bool
	socket          string
	memoryLimit     string
	shm             string
	tmpfs, ulimits  []string
}

func (i *IsolationFlags) Add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.IntVar(&i.pids, "pids-limit", 0, "most processes and threads it may have (default: that of its node)")
	cmdutil.Preset(flags, "pids-limit", "", "give 1 or more, or leave it out for the default of its node")
	flags.BoolVar(&i.burst, "cpu-burst", false, "use idle cpu too, beyond --cpu")
	flags.StringVar(&i.cpuLimit, "cpu-limit", "", "")
	_ = flags.MarkHidden("cpu-limit") // its name until --cpu-burst; it is there
	flags.StringArrayVar(&i.capAdd, "cap-add", nil, "capability to add, such as NET_ADMIN; most only where the node allows it; repeat for several")
	flags.StringArrayVar(&i.capDrop, "cap-drop", nil, "capability to drop, or ALL; repeat for several")
	flags.BoolVar(&i.readOnly, "read-only", false, "make the files of its image read-only; see --scratch")
	flags.StringVar(&i.socket, "socket", "", "what it may do through its task socket: namespace, self or none (default: namespace)")
	flags.BoolVar(&i.privileged, "privileged", false, "grant the rights of the node's root user; only where the node allows it")
	flags.StringVar(&i.memoryLimit, "memory-limit", "", "most memory it may use, such as 2Gi (default: that of --memory)")
	flags.StringVar(&i.shm, "shm-size", "", "size of its shared memory, /dev/shm, such as 8Gi (default: half of --memory, or 64Mi without)")
	flags.StringArrayVar(&i.tmpfs, "tmpfs", nil, "PATH[:size=64Mi]: file system in memory (default size: that of --shm-size); repeat for several")
	flags.StringArrayVar(&i.ulimits, "ulimit", nil, "NAME=SOFT[:HARD]: limit of each process, such as memlock=-1, which means none; repeat for several")
}

// Isolate copies the flags to out.
func (i *IsolationFlags) Isolate(f *cmdutil.Factory, out *types.Spec) error {
	if i.cpuLimit == string(types.CPUNone) {
		f.Tell("--cpu-limit none is --cpu-burst now; the former flag goes with the next release")
	}
	if i.burst {
		i.cpuLimit = string(types.CPUNone)
	}
	out.Pids, out.CPULimit, out.ReadOnlyRoot, out.Privileged = i.pids, types.CPULimit(i.cpuLimit), i.readOnly, i.privileged
	var err, err2, err3 error
	out.Socket, err3 = types.ParseSocket(i.socket)
	out.CapAdd, err = parseCapabilities("cap-add", i.capAdd)
	out.CapDrop, err2 = parseCapabilities("cap-drop", i.capDrop)
	return errors.Join(err, err2, err3, i.memory(out))
}

// memory copies the flags about memory and limits of processes to out.
func (i *IsolationFlags) memory(out *types.Spec) error {
	var errs []error
	if i.memoryLimit != "" {
		size, err := types.ParseSize(i.memoryLimit)
		if err != nil {
			err = types.Errorf(types.Invalid, "memory-limit: %w", err)
		}
		out.MemoryLimit, errs = types.Quantity(size), append(errs, err)
	}
	if i.shm != "" {
		size, err := parseShm(i.shm)
		out.Shm, errs = size, append(errs, err)
	}
	for _, text := range i.tmpfs {
		f, err := parseTmpfs(text)
		out.Tmpfs, errs = append(out.Tmpfs, f), append(errs, err)
	}
	for _, text := range i.ulimits {
		u, err := parseUlimit(text)
		out.Ulimits, errs = append(out.Ulimits, u), append(errs, err)
	}
	slices.SortStableFunc(out.Ulimits, func(a, b types.Ulimit) int { return strings.Compare(a.Name, b.Name) })
	return errors.Join(errs...)
}

func parseCapabilities(field string, texts []string) ([]string, error) {
	var names []string
	var errs []error
	for _, text := range texts {
		name, err := parseCapability(field, text)
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
	flags.IntVar(&p.pids, "max-pids", permits.DefaultMaxPids, "most processes and threads a task may ask for")
}

// Permissions returns the permissions of the flags.
func (p *PermissionFlags) Permissions() (permits.Permissions, error) {
	caps, err := parseCapabilities("allow-cap", p.caps)
	return permits.Permissions{Privileged: p.privileged, Capabilities: caps, MaxPids: p.pids}, err
}
