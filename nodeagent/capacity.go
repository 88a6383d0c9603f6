package nodeagent

import (
	"maps"

	"github.com/escher-sched/escher/types"
)

// capacity returns the capacity of the node: the configured one, its ports and its permissions.
func (c *Config) capacity() types.Requests {
	amounts := c.Permissions.Permits()
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
