package sim

import (
	"strings"

	"github.com/escher-sched/escher/types"
)

// count notes what a change of a key shows to have happened.
func (o *oracle) count(before, after *cell) {
	if after == nil {
		return
	}
	switch m := after.message.(type) {
	case *types.Binding:
		if before == nil {
			o.countBind(m)
		}
	case *types.Grant:
		what := "grants " + string(m.Phase)
		if before != nil && before.message.(*types.Grant).Phase == types.Accumulating {
			what += " after accumulating"
		}
		o.seen[what]++
	case *types.Status:
		o.seen["status "+string(m.Phase)]++
		if reason, _, _ := strings.Cut(m.Reason, " "); m.Phase == types.Pending {
			o.seen["pending again: "+reason]++
		}
	}
}

func (o *oracle) countBind(b *types.Binding) {
	o.seen["binds"]++
	for _, h := range b.Holds {
		switch {
		case h.Cluster:
			o.seen["holds of pools"]++
		case h.Resource.Scoped():
			o.seen["holds scoped"]++
		case len(h.Devices) > 0:
			o.seen["holds of devices"]++
		case !h.Resource.Physical():
			_, name, _ := h.Resource.Split()
			o.seen["holds of "+name[:1]]++
		}
	}
	if b.Alternative > 0 {
		o.seen["later alternatives"]++
	}
}
