// Package permits says which dangerous settings tasks may request on a node. It is pure.
package permits

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

const (
	// DefaultMaxPids lets a program have many threads. An ordinary node can run hundreds of such
	// programs.
	DefaultMaxPids = 32768
	// DefaultPids is the limit of processes and threads of a container without one in its spec. It
	// suffices for ordinary programs, and keeps a fork bomb from its neighbors.
	DefaultPids = 4096
)

// Permissions are the dangerous settings that tasks may request on a node. The zero value permits
// the least.
type Permissions struct {
	// Privileged allows privileged tasks.
	Privileged bool
	// Capabilities are those that tasks may add to the ones every node permits.
	Capabilities []string
	// MaxPids is the most processes and threads that a task may request; 0 means DefaultMaxPids.
	MaxPids int
}

func (p Permissions) maxPids() int { return cmp.Or(p.MaxPids, DefaultMaxPids) }

// Permits returns the resources that place tasks with such requests here, and nowhere else: see
// types.Spec.Permits.
func (p Permissions) Permits() map[string]types.Quantity {
	out := make(map[string]types.Quantity)
	if p.Privileged {
		out[string(types.PermitPrivileged)] = types.Inf
	}
	for _, name := range p.Capabilities {
		out[string(types.PermitCapability(name))] = types.Inf
	}
	return out
}

// Check returns Invalid for a spec that requests more than the node permits. Such a task did not
// request the resources of Permits, or the node's configuration has changed since.
func (p Permissions) Check(node string, spec *types.Spec) error {
	has := p.Permits()
	lacks := types.Textf("%s", action.StartAgentWith.Of())
	lacking := false
	for _, id := range spec.Permits() {
		if allow, _ := id.Permit(); has[string(id)] == 0 {
			lacks, lacking = types.Textf("%s %s", lacks, allow), true
		}
	}
	if lacking {
		return types.Errorf(types.Invalid, "run it with such rights: node %s does not permit them: %s", node, lacks)
	}
	if most := p.maxPids(); spec.Pids > most {
		return types.Errorf(types.Invalid, "pids: %d are asked for, and node %s gives %d at most: ask for less, or %s %s",
			spec.Pids, node, most, action.StartAgentWith.Of(), action.MaxPids.Of(strconv.Itoa(spec.Pids)))
	}
	return nil
}

// Pids returns the limit of processes and threads for the container of a spec.
func (p Permissions) Pids(spec *types.Spec) int64 {
	return cmp.Or(int64(spec.Pids), p.Usual(0))
}

// Usual returns the limit of processes and threads for a container without one in its spec. of is
// that of its namespace; 0 means DefaultPids.
func (p Permissions) Usual(of int) int64 { return int64(min(cmp.Or(of, DefaultPids), p.maxPids())) }

// Validate checks the permissions, and that no capacity sets what follows from them.
func (p Permissions) Validate(capacity types.Requests) error {
	var errs []error
	for _, r := range capacity {
		if allow, ok := types.ResourceID(r.Name).Permit(); ok {
			errs = append(errs, types.Errorf(types.Invalid, "capacity.%s: cannot be set: it follows from %s", r.Name, allow))
		}
	}
	for _, name := range p.Capabilities {
		if !slices.Contains(types.Capabilities(), name) {
			errs = append(errs, fmt.Errorf("allow-cap: %q is no capability to be named: name each that tasks may add, such as NET_ADMIN", name))
		}
	}
	if n := p.MaxPids; n < 0 || n > types.MaxPids {
		errs = append(errs, fmt.Errorf("max-pids: %d is out of range: give 1 to %d, or 0 for %d", n, types.MaxPids, DefaultMaxPids))
	}
	return errors.Join(errs...)
}
