package cluster

import "github.com/escher-sched/escher/types"

// portCapacity returns how much of a port resource node n has: as many of types.Port
// as its range has numbers, and one of each port by number that is not in it.
func (n *Node) portCapacity(rid types.ResourceID) (types.Quantity, bool) {
	if rid == types.Port {
		if n.Info.V.PortFirst == 0 {
			return 0, false
		}
		return types.Quantity(n.Info.V.PortLast-n.Info.V.PortFirst+1) * onePort, true
	}
	number, ok := rid.FixedPort()
	if !ok || n.HasInRange(number) {
		return 0, ok
	}
	return onePort, true
}

// onePort is the amount that is one port.
const onePort types.Quantity = 1000

// HasInRange reports whether a port is of the range of which the node gives out
// ports: then it can be had only as types.Port.
func (n *Node) HasInRange(number int) bool {
	return n.Info.V != nil && n.Info.V.PortFirst != 0 && number >= n.Info.V.PortFirst && number <= n.Info.V.PortLast
}
