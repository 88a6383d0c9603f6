package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// collectFor reserves capacity on some machines for waiting tasks of a job, or to keep it; false if there are
// none, or the name is taken.
func (p *applications) collectFor(rng *rand.Rand, ns, id string) bool {
	r := &types.Reservation{Submitted: p.w.now.UnixNano(), Priority: rng.IntN(4)}
	for range 60 {
		of, any := p.recent(rng)
		if !any || len(r.Bundles) > rng.IntN(4) {
			break
		}
		t := p.waits(of)
		if of.ns != ns || t == nil || r.Job != "" && t.Job != r.Job {
			continue
		}
		r.Job = t.Job
		r.Bundles = append(r.Bundles, types.Bundle{Requests: t.Requests, Devices: t.Devices, Node: fmt.Sprintf("n%d", rng.IntN(p.w.cfg.Nodes))})
	}
	key := controlplane.ReservationKey(ns, id)
	if len(r.Bundles) == 0 || p.w.get(key).Key != "" {
		return false
	}
	r.Collect = types.NewCollect(r.Bundles, rng.IntN(4) > 0)
	c := p.w.newChange()
	c.IfUnchanged(key, 0)
	c.Put(key, r)
	p.w.try(c)
	p.w.say("reservation %s/%s is directed to collect for %d tasks of job %s", ns, id, len(r.Bundles), r.Job)
	return true
}

// waits returns a waiting task of a job whose requests can be held for it; nil if it is not one.
func (p *applications) waits(id ref) *types.Task {
	t := new(types.Task)
	p.w.read(controlplane.TaskKey(id.ns, id.id), t)
	if t.Job == "" || p.w.get(controlplane.JobKey(id.ns, t.Job)).Key == "" || len(t.Requests) == 0 || p.w.status(id).Phase != types.Pending {
		return nil
	}
	for _, x := range t.Requests {
		if strings.ContainsAny(x.Name, "@/") {
			return nil
		}
	}
	return t
}

// giveUpRoom deletes the reservations that have been handed over.
func (p *applications) giveUpRoom() {
	for _, kv := range p.w.list(controlplane.Prefix(controlplane.Grants)).KVs {
		var g types.Grant
		k, _ := controlplane.Parse(kv.Key)
		if types.Decode(kv.Value, &g) == nil && g.Phase == types.HandedOver {
			p.remove(controlplane.ReservationKey(k.Namespace, k.ID))
		}
	}
}
