package audit

import (
	"strconv"
	"strings"

	"github.com/escher-sched/escher/types"
)

// wholePort is the amount of one port.
const wholePort types.Quantity = 1000

// portNumber returns the number of a fixed port, 0 for any other resource.
func portNumber(rid types.ResourceID) int {
	text, ok := strings.CutPrefix(string(rid), "port/")
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0
	}
	return n
}

// gives reports whether a port number is in the node's own range.
func (n *node) gives(number int) bool {
	at := n.info.V
	return at != nil && at.PortFirst > 0 && at.PortFirst <= number && number <= at.PortLast
}

// ports returns the capacity of a port resource; ok is false for any other.
func (n *node) ports(rid types.ResourceID) (q types.Quantity, ok bool) {
	number := portNumber(rid)
	switch {
	case rid == types.Port:
		if n.info.V.PortFirst > 0 {
			q = wholePort * types.Quantity(1+n.info.V.PortLast-n.info.V.PortFirst)
		}
		return q, true
	case number == 0:
		return 0, false
	case n.gives(number):
		return 0, true
	}
	return wholePort, true
}

// portGiven checks a port of the node's range.
func (n *node) portGiven(d types.DeviceShare, holder string, found finder) {
	number, err := strconv.Atoi(d.ID)
	if err != nil || !n.gives(number) || d.ID != strconv.Itoa(number) {
		found(holder, "holds port %s, which is not in the range of node %s", d.ID, n.name)
	}
	if d.Share != wholePort {
		found(holder, "holds %s of port %s", amount(d.Share, types.Port), d.ID)
	}
}

// deviceName returns the name of a device of rid: ports are devices too, apart from fixed ones,
// which list none.
func deviceName(rid types.ResourceID, device string) string {
	if rid == types.Port {
		return "port/" + device
	}
	return device
}
