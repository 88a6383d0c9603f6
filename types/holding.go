package types

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/types/wire"
)

// Holding is a held amount of a resource, with its devices.
type Holding struct {
	Resource ResourceID
	Amount   Quantity
	// Cluster reports whether the amount comes from the cluster-wide pool of Resource. It then
	// counts there, not on the node.
	Cluster bool
	// Devices are the shares that make up Amount, if the resource has devices.
	Devices []DeviceShare
}

func (h *Holding) fields(w *wire.Pass) {
	wire.Text(w, 2, &h.Resource)
	wire.Integer(w, 3, &h.Amount)
	w.Boolean(4, &h.Cluster)
	wire.List(w, 5, &h.Devices, (*DeviceShare).fields)
}

// DeviceShare is a part of one device, in thousandths.
type DeviceShare struct {
	ID    string
	Share Quantity
}

func (d *DeviceShare) fields(w *wire.Pass) {
	wire.Text(w, 2, &d.ID)
	wire.Integer(w, 3, &d.Share)
}

// Allocated holds the amounts in use on one node, or of one cluster-wide resource, sorted by
// resource and without zeros. Concurrent schedulers meet here: every bind, grant and release
// compares and writes it.
type Allocated struct {
	Extra
	Holds []Holding
}

func (a *Allocated) fields(w *wire.Pass) { wire.List(w, 2, &a.Holds, (*Holding).fields) }

// Of returns the amount of id in use.
func (a *Allocated) Of(id ResourceID) Quantity {
	if h := a.find(id); h != nil {
		return h.Amount
	}
	return 0
}

// DevicesOf returns the device shares of id in use.
func (a *Allocated) DevicesOf(id ResourceID) []DeviceShare {
	if h := a.find(id); h != nil {
		return h.Devices
	}
	return nil
}

func (a *Allocated) find(id ResourceID) *Holding {
	i, ok := a.search(id)
	if !ok {
		return nil
	}
	return &a.Holds[i]
}

func (a *Allocated) search(id ResourceID) (int, bool) {
	// Like slices.BinarySearchFunc, without copying each holding.
	from, to := 0, len(a.Holds)
	for from < to {
		at := int(uint(from+to) / 2)
		switch c := strings.Compare(string(a.Holds[at].Resource), string(id)); {
		case c == 0:
			return at, true
		case c < 0:
			from = at + 1
		default:
			to = at
		}
	}
	return from, false
}

// Full reports whether so many resources are in use that no further one may be.
func (a *Allocated) Full(id ResourceID) bool {
	return a != nil && len(a.Holds) >= MaxHeld && a.find(id) == nil && !id.IsPlacement()
}

// Clone returns a copy that shares nothing with a.
func (a *Allocated) Clone() *Allocated {
	c := &Allocated{Extra: a.Extra, Holds: slices.Clone(a.Holds)}
	for i := range c.Holds {
		c.Holds[i].Devices = slices.Clone(c.Holds[i].Devices)
	}
	return c
}

// Take adds h to the amounts in use.
func (a *Allocated) Take(h Holding) {
	i, ok := a.search(h.Resource)
	if !ok {
		if h.Amount == 0 && len(h.Devices) == 0 {
			return
		}
		h.Cluster = false
		h.Devices = slices.Clone(h.Devices)
		a.Holds = slices.Insert(a.Holds, i, h)
		return
	}
	at := &a.Holds[i]
	at.Amount = at.Amount.Add(h.Amount)
	for _, d := range h.Devices {
		at.Devices = addShare(at.Devices, d.ID, d.Share)
	}
}

// Return subtracts h from the amounts in use.
func (a *Allocated) Return(h Holding) {
	i, ok := a.search(h.Resource)
	if !ok {
		return
	}
	at := &a.Holds[i]
	at.Amount -= h.Amount
	for _, d := range h.Devices {
		at.Devices = addShare(at.Devices, d.ID, -d.Share)
	}
	if at.Amount == 0 && len(at.Devices) == 0 {
		a.Holds = slices.Delete(a.Holds, i, i+1)
	}
}

// addShare adds q to the share of one device, and drops a share of zero.
func addShare(shares []DeviceShare, id string, q Quantity) []DeviceShare {
	for i := range shares {
		if shares[i].ID != id {
			continue
		}
		if shares[i].Share += q; shares[i].Share == 0 {
			return slices.Delete(shares, i, i+1)
		}
		return shares
	}
	return append(shares, DeviceShare{id, q})
}
