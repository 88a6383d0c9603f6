package cluster

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/types"
)

// Need is a request resolved: what accounting calls it, and how much.
type Need struct {
	ID     types.ResourceID
	Amount types.Quantity
	// Devices says which devices it is to be made up of; nil is any.
	Devices *types.DeviceRequest
}

// Needs resolves the request vector of a task of namespace ns, and what is said of its
// devices, with what the namespace adds to every one: its defaults, its own requests, and the
// draw on its quotas. Sorted by id, each id once. What is drawn from a reservation was counted
// against quotas when that was granted.
func (v *View) Needs(ns string, requests types.Requests, devices ...types.DeviceRequest) []Need {
	if c := v.Namespaces[ns]; c != nil {
		if missing := c.V.Missing(requests); missing != nil {
			requests = requests.Plus(missing)
		}
	}
	return v.BundleNeeds(ns, requests, devices...)
}

// BundleNeeds is Needs of a bundle of a reservation, which has no defaults: what draws on it
// has none either.
func (v *View) BundleNeeds(ns string, requests types.Requests, devices ...types.DeviceRequest) []Need {
	out := make([]Need, 0, len(requests)+2)
	for _, r := range requests {
		out = append(out, Need{ID: types.Resolve(ns, r.Name), Amount: r.Amount})
	}
	if c := v.Namespaces[ns]; c != nil {
		for _, r := range c.V.Requests {
			out = append(out, Need{ID: types.Resolve(ns, r.Name), Amount: r.Amount})
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

// merge adds up neighbours of the same id.
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
