package audit

import (
	"strconv"
	"strings"

	"github.com/escher-sched/escher/types"
)

// wholePort is one port.
const wholePort types.Quantity = 1000

// portNumber returns the number of a port that is asked for by it, 0 of any other
// resource.
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

// gives reports whether the node gives out port number n as one of its range.
func (n *node) gives(number int) bool {
	at := n.info.V
	return at != nil && at.PortFirst > 0 && at.PortFirst <= number && number <= at.PortLast
}

// ports returns how much there is of a port resource; ok is false for any other.
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

// portGiven finds what is wrong with a port of the node's range that was given out.
func (n *node) portGiven(d types.DeviceShare, who string, found finder) {
	number, err := strconv.Atoi(d.ID)
	if err != nil || !n.gives(number) || d.ID != strconv.Itoa(number) {
		found(who, "holds port %s, which is not in the range of node %s", d.ID, n.name)
	}
	if d.Share != wholePort {
		found(who, "holds %s of port %s", amount(d.Share, types.Port), d.ID)
	}
}

// deviceName names what a holding of rid has a share of: ports are devices, of which
// those that were asked for by their number are not listed.
func deviceName(rid types.ResourceID, device string) string {
	if rid == types.Port {
		return "port/" + device
	}
	return device
}
