package cluster

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/quotas"
	"github.com/escher-sched/escher/types"
)

// Need is a resolved request: the id in accounting, and the amount.
type Need struct {
	ID     types.ResourceID
	Amount types.Quantity
	// Devices restricts its devices; nil means any.
	Devices *types.DeviceRequest
}

// Needs resolves the requests and device requests of a task of namespace ns. It adds the
// namespace's defaults, its own requests, and the draws on its quotas. The result is sorted by id,
// each id once. What is drawn from a reservation counted against quotas when it was granted, and the
// reservation has the namespace's requests for each bundle.
func (v *View) Needs(ns string, requests types.Requests, devices ...types.DeviceRequest) []Need {
	if c := v.Namespaces[ns]; c != nil {
		if missing := c.V.Missing(requests); missing != nil {
			requests = requests.Plus(missing)
		}
	}
	return v.BundleNeeds(ns, requests, devices...)
}

// BundleNeeds is Needs for a bundle of a reservation, without defaults: tasks that draw on it have
// none either.
func (v *View) BundleNeeds(ns string, requests types.Requests, devices ...types.DeviceRequest) []Need {
	out := make([]Need, 0, len(requests)+2)
	for _, r := range requests {
		out = append(out, Need{ID: types.Resolve(ns, r.Name), Amount: r.Amount})
	}
	if c := v.Namespaces[ns]; c != nil {
		if len(c.V.Requests) > 0 && !quotas.Reserved(requests) {
			for _, r := range c.V.Requests {
				out = append(out, Need{ID: types.Resolve(ns, r.Name), Amount: r.Amount})
			}
		}
		for _, q := range c.V.Quotas {
			if amount := requests.Get(string(q.Resource)); amount > 0 {
				out = append(out, Need{ID: q.Pool, Amount: amount})
			}
		}
	}
	slices.SortFunc(out, func(a, b Need) int { return strings.Compare(string(a.ID), string(b.ID)) })
	out = merge(out)
	for i := range devices {
		rid := types.Resolve(ns, devices[i].Resource)
		for j := range out {
			if out[j].ID == rid {
				out[j].Devices = &devices[i]
			}
		}
	}
	return out
}

// merge adds up neighbors with the same id.
func merge(needs []Need) []Need {
	out := needs[:0]
	for _, n := range needs {
		if k := len(out); k > 0 && out[k-1].ID == n.ID {
			out[k-1].Amount = out[k-1].Amount.Add(n.Amount)
			continue
		}
		out = append(out, n)
	}
	return out
}
