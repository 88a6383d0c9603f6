package scheduler

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// fits reports whether a node can take needs as the draft leaves it. If not, short
// is the first resource there is not enough of.
func (d *Draft) fits(n *cluster.Node, needs []cluster.Need) (short types.ResourceID, ok bool) {
	for _, x := range needs {
		if d.view.Pool(x.ID) != nil {
			continue
		}
		free, known := d.free(n, x.ID)
		if !known || free < x.Amount {
			return x.ID, false
		}
		if !d.devicesFit(n, x) {
			return x.ID, false
		}
	}
	return "", true
}

// poolShort returns the first cluster-wide resource of needs that there is not
// enough of.
func (d *Draft) poolShort(needs []cluster.Need) (types.ResourceID, bool) {
	for _, x := range needs {
		if p := d.view.Pool(x.ID); p != nil && d.poolFree(p) < x.Amount {
			return x.ID, true
		}
	}
	return "", false
}

// hold turns needs, which fit, into what a binding or grant on n holds.
func (d *Draft) hold(n *cluster.Node, needs []cluster.Need) []types.Holding {
	holds := make([]types.Holding, 0, len(needs))
	for _, x := range needs {
		switch {
		case x.ID.IsPlacement():
		case d.view.Pool(x.ID) != nil:
			holds = append(holds, types.Holding{Resource: x.ID, Amount: x.Amount, Cluster: true})
		default:
			holds = append(holds, types.Holding{Resource: x.ID, Amount: x.Amount, Devices: d.pickDevices(n, x)})
		}
	}
	return holds
}
