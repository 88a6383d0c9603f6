package nodeagent

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/escher-sched/escher/types"
)

// PortRange is a range of ports of a machine, including both ends.
type PortRange struct{ First, Last int }

// capacity returns the amount of types.Port in the range.
func (r PortRange) capacity() types.Quantity {
	const one = 1000
	if r == (PortRange{}) {
		return 0
	}
	return types.Quantity(r.Last-r.First+1) * one
}

func (c Config) validatePorts() error {
	var errs []error
	if c.Capacity.Get(string(types.Port)) != 0 {
		errs = append(errs, errors.New("capacity.port: cannot be set: it follows from the range of ports"))
	}
	for _, r := range c.Capacity {
		if _, ok := types.ResourceID(r.Name).FixedPort(); ok {
			errs = append(errs, fmt.Errorf("capacity.%s: cannot be set: every node has each port outside its own range", r.Name))
		}
	}
	if p := c.Ports; p != (PortRange{}) && (p.First < 1 || p.Last > types.MaxPort || p.First > p.Last) {
		errs = append(errs, fmt.Errorf("ports: %d-%d is no range: give FIRST-LAST within 1-%d", p.First, p.Last, types.MaxPort))
	}
	return errors.Join(errs...)
}

// portEnv returns the environment variables with a task's ports: ESCHER_PORT_<NAME> for each, and
// PORT for the first. Ports without a number of their own get those that the binding holds, in
// order. Invalid: the binding holds too few.
func portEnv(b *types.Binding, spec *types.Spec) ([]string, error) {
	numbers := spec.PortNumbers(b.Ports())
	var env []string
	for _, p := range spec.Ports {
		number := numbers[p.Name]
		if number == 0 {
			return nil, types.Errorf(types.Invalid, "give the task port %s: it holds no more ports: request as many of port as it has ports without a number", p.Name)
		}
		if len(env) == 0 {
			env = append(env, "PORT="+strconv.Itoa(number))
		}
		env = append(env, p.Env()+"="+strconv.Itoa(number))
	}
	return env, nil
}
