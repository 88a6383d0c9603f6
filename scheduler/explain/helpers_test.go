package explain

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// of adds a device request.
func of(r types.DeviceRequest) func(*types.Task) {
	if r.Resource == "" {
		r.Resource = "gpu"
	}
	return func(t *types.Task) { t.Devices = append(t.Devices, r) }
}

func bundle(amount types.Quantity, r types.DeviceRequest) types.Bundle {
	r.Resource = "gpu"
	return types.Bundle{Requests: types.NewRequests(q{"gpu": amount}), Devices: []types.DeviceRequest{r}}
}

func bundleOf(amounts q) types.Bundle { return types.Bundle{Requests: types.NewRequests(amounts)} }

func accumulates(t *types.Task) { t.Accumulate = true }

func clusterID(ns, id string) cluster.ID { return cluster.ID{Namespace: ns, ID: id} }
