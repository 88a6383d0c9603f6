package cluster

import "github.com/escher-sched/escher/types"

// portCapacity returns the capacity of a port resource on node n: the size of its range for
// types.Port, and one for each port number outside the range.
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

// onePort is the amount of one port.
const onePort types.Quantity = 1000

// HasInRange reports whether a port is in the node's range, where it is available only as
// types.Port.
func (n *Node) HasInRange(number int) bool {
	return n.Info.V != nil && n.Info.V.PortFirst != 0 && number >= n.Info.V.PortFirst && number <= n.Info.V.PortLast
}
