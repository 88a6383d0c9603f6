package nodeagent

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/escher-sched/escher/types"
)

const (
	// DefaultMaxPids lets a program that means it have many threads; a node of ordinary
	// size has room for hundreds of such.
	DefaultMaxPids = 32768
	// DefaultPids is how many processes and threads a container has if its spec does not
	// say: enough for any program that means it, and no fork bomb reaches its neighbours.
	DefaultPids = 4096
)

// Permissions say what of the dangerous tasks may ask for on a node. The zero value is
// the least.
type Permissions struct {
	// Privileged lets tasks be privileged.
	Privileged bool
	// Capabilities are those that tasks may add beside what every node permits.
	Capabilities []string
	// MaxPids is how many processes and threads a task may ask for; 0 is DefaultMaxPids.
	MaxPids int
}

func (p Permissions) maxPids() int { return cmp.Or(p.MaxPids, DefaultMaxPids) }

// permits returns the resources by which tasks that ask for such things are placed
// here, and nowhere else: see types.Spec.Permits.
func (p Permissions) permits() map[string]types.Quantity {
	out := make(map[string]types.Quantity)
	if p.Privileged {
		out[string(types.PermitPrivileged)] = types.Inf
	}
	for _, name := range p.Capabilities {
		out[string(types.PermitCapability(name))] = types.Inf
	}
	return out
}

// check returns Invalid for a spec that asks for more than the node permits. It was not
// placed here for that: its task did not request it, or the node's configuration has
// changed since.
func (p Permissions) check(node string, spec *types.Spec) error {
	has := p.permits()
	var lacks []string
	for _, id := range spec.Permits() {
		if flag, _ := id.Permit(); has[string(id)] == 0 {
			lacks = append(lacks, flag)
		}
	}
	if len(lacks) > 0 {
		return types.Errorf(types.Invalid, "run it with such rights: node %s does not permit them: start its agent (or escher dev) with %s", node, strings.Join(lacks, " "))
	}
	if most := p.maxPids(); spec.Pids > most {
		return types.Errorf(types.Invalid, "pids: %d are asked for, and node %s gives %d at most: ask for less, or start its agent (or escher dev) with --max-pids %d",
			spec.Pids, node, most, spec.Pids)
	}
	return nil
}

// pids returns how many processes and threads the container of a spec may have.
func (p Permissions) pids(spec *types.Spec) int64 {
	return cmp.Or(int64(spec.Pids), p.usual(0))
}

// usual returns how many of them it may have whose spec does not say. of is what its namespace
// says; 0 is DefaultPids.
func (p Permissions) usual(of int) int64 { return int64(min(cmp.Or(of, DefaultPids), p.maxPids())) }

func (c Config) validatePermissions() error {
	var errs []error
	for _, r := range c.Capacity {
		if flag, ok := types.ResourceID(r.Name).Permit(); ok {
			errs = append(errs, fmt.Errorf("capacity.%s: cannot be set: it follows from %s", r.Name, flag))
		}
	}
	for _, name := range c.Permissions.Capabilities {
		if !slices.Contains(types.Capabilities(), name) {
			errs = append(errs, fmt.Errorf("allow-cap: %q is no capability to be named: name each that tasks may add, such as NET_ADMIN", name))
		}
	}
	if n := c.Permissions.MaxPids; n < 0 || n > types.MaxPids {
		errs = append(errs, fmt.Errorf("max-pids: %d is out of range: give 1 to %d, or 0 for %d", n, types.MaxPids, DefaultMaxPids))
	}
	return errors.Join(errs...)
}

// capacity returns what the node has: what was given, its ports, and what it permits.
func (c *Config) capacity() types.Requests {
	amounts := c.Permissions.permits()
	if c.Ports != (PortRange{}) {
		maps.Copy(amounts, map[string]types.Quantity{string(types.Port): c.Ports.capacity()})
	}
	if len(amounts) == 0 {
		return c.Capacity
	}
	for _, r := range c.Capacity {
		amounts[r.Name] = r.Amount
	}
	return types.NewRequests(amounts)
}
