package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/server"
	"github.com/escher-sched/escher/types"
)

// submitOwned submits a job like a library of policies, in one transaction. The job owns resources,
// a reservation that its tasks request, and policies. All of it must end with the job; some of it
// ends with a session, too.
func (p *applications) submitOwned(rng *rand.Rand) {
	n := min(1+rng.IntN(5), p.w.cfg.Tasks-p.submitted)
	if n <= 0 {
		return
	}
	ns := pick(namespaces(), rng.Uint32())
	job, c := p.newRef(ns, "j"), p.w.newChange()
	session := ""
	if rng.IntN(3) == 0 {
		s := p.newRef(ns, "s")
		session = s.id
		c.Put(controlplane.SessionKey(ns, s.id), &types.Session{})
		p.sessions = append(p.sessions, s)
	}
	own := func(suffix string) string { return job.id + "." + suffix }
	ask := map[string]types.Quantity{"cpu": 100}
	make := func(suffix, where string, capacity types.Quantity) {
		ask[own(suffix)] = 1000
		c.Put(controlplane.ResourceKey(ns, own(suffix), where), &types.Resource{Capacity: capacity, Lifetime: types.OfJob, Owner: job.id})
	}
	if rng.IntN(2) == 0 {
		make("slots", types.ClusterWide, types.Quantity(1000*(1+rng.IntN(n))))
	}
	if rng.IntN(2) == 0 {
		make("apart", types.EveryNode, 1000)
	}
	if rng.IntN(3) == 0 {
		delete(ask, "cpu")
		ask["cpu@"+own("lock")] = 100
		c.Put(controlplane.ReservationKey(ns, own("lock")), &types.Reservation{
			Bundles: []types.Bundle{{Requests: requests(map[string]types.Quantity{"cpu": types.Quantity(100 * n)})}},
			Job:     job.id, Session: session, Submitted: p.w.now.UnixNano(),
		})
	}
	signals := rng.IntN(3) == 0
	for i := range n {
		t := &types.Task{Requests: requests(ask), Job: job.id, Session: session, Submitted: p.w.now.UnixNano()}
		switch {
		case signals && i == 0:
			t.Provides = []types.Provide{{Name: own("done"), Amount: types.Inf, When: types.WhenSucceeded}}
		case signals:
			t.Requests = t.Requests.Plus(requests(map[string]types.Quantity{own("done"): 1000}))
		}
		p.add(c, ns, t)
	}
	c.Put(controlplane.PoliciesKey(ns, job.id), &types.Policies{Job: job.id, Session: session, Policies: []types.Policy{{Kind: "gang"}}})
	c.IfUnchanged(controlplane.JobKey(ns, job.id), 0)
	c.Put(controlplane.JobKey(ns, job.id), &types.Job{Tasks: n})
	p.owned = append(p.owned, job)
	p.w.try(c)
	p.w.say("job %s of %d tasks with its own resources, of session %q", job, n, session)
}

// endSession ends one of the sessions.
func (p *applications) endSession(rng *rand.Rand) {
	if len(p.sessions) == 0 {
		return
	}
	i := rng.IntN(len(p.sessions))
	s := p.sessions[i]
	p.sessions = slices.Delete(p.sessions, i, i+1)
	p.remove(controlplane.SessionKey(s.ns, s.id))
}

func (p *applications) endSessions() {
	for _, s := range p.sessions {
		p.remove(controlplane.SessionKey(s.ns, s.id))
	}
	p.sessions = nil
}

// collect deletes finished tasks, like the collector.
func (p *applications) collect() {
	p.giveUpRoom()
	rest := p.tasks[:0]
	for _, id := range p.tasks {
		status, task := controlplane.StatusKey(id.ns, id.id), controlplane.TaskKey(id.ns, id.id)
		var s types.Status
		mod := p.w.read(status, &s)
		if mod == 0 || !s.Phase.Ended() {
			rest = append(rest, id)
			continue
		}
		c := p.w.newChange()
		c.IfUnchanged(status, mod)
		c.Delete(status)
		c.Delete(task)
		p.w.try(c)
	}
	p.w.say("%d of %d tasks are left", len(rest), len(p.tasks))
	p.tasks = rest
}

// collector returns the index of a collector.
func (w *world) collector(n uint32) int { return int(n) % len(w.collectors) }

// startCollector replaces a collector with a new one without state.
func (w *world) startCollector(i int) {
	c, err := server.NewCollector(w.store, nil, server.DefaultPolicy(), nil, server.Options{})
	if err != nil {
		w.fail("%v", err)
	}
	w.collectors[i] = c
	w.say("collector %d starts", i)
}

// refresh updates a collector about one kind of keys; its view of the others may be old.
func (w *world) refresh(i int, kind controlplane.Kind) {
	if err := w.collectors[i].Refresh(context.Background(), w.now, kind); err != nil {
		w.fail("refresh %s: %v", kind, err)
	}
	w.say("collector %d knows the %s of %d", i, kind, w.store.Revision())
}

// collectorLook runs a collector once. It must take nothing from a job that has not ended.
func (w *world) collectorLook(i int) {
	owned, before := w.ownedByJobs(), w.store.Revision()
	if err := w.collectors[i].Once(context.Background(), w.now); err != nil {
		w.fail("collect: %v", err)
	}
	for _, b := range w.store.Events(before + 1) {
		for _, e := range b.Events {
			job, of := owned[e.Key]
			if !e.Delete || !of {
				continue
			}
			w.seen["collected of a job"]++
			if open := w.openTask(job); open != "" {
				w.fail("%s was collected, and %s of its job has not ended", e.Key, open)
			}
		}
	}
	w.say("collector %d looked", i)
}

// ownedByJobs returns what ends with a job and with nothing else, by key.
func (w *world) ownedByJobs() map[string]ref {
	out := make(map[string]ref)
	for _, kv := range w.list(controlplane.Prefix(controlplane.Resources)).KVs {
		var r types.Resource
		k, _ := controlplane.Parse(kv.Key)
		if types.Decode(kv.Value, &r) == nil && r.Lifetime == types.OfJob {
			out[kv.Key] = ref{k.Namespace, r.Owner}
		}
	}
	for _, kv := range w.list(controlplane.Prefix(controlplane.Reservations)).KVs {
		var r types.Reservation
		k, _ := controlplane.Parse(kv.Key)
		if types.Decode(kv.Value, &r) == nil && r.Job != "" && r.Session == "" {
			out[kv.Key] = ref{k.Namespace, r.Job}
		}
	}
	for _, kv := range w.list(controlplane.Prefix(controlplane.Policies)).KVs {
		var p types.Policies
		k, _ := controlplane.Parse(kv.Key)
		if types.Decode(kv.Value, &p) == nil && p.Job != "" && p.Session == "" {
			out[kv.Key] = ref{k.Namespace, p.Job}
		}
	}
	return out
}

// openTask returns an unfinished task of a job; empty if there is none.
func (w *world) openTask(job ref) string {
	for _, kv := range w.list(controlplane.Prefix(controlplane.Tasks, job.ns)).KVs {
		var t types.Task
		k, _ := controlplane.Parse(kv.Key)
		if types.Decode(kv.Value, &t) == nil && t.Job == job.id && !w.status(ref{job.ns, k.ID}).Phase.Ended() {
			return fmt.Sprintf("task %s", k.ID)
		}
	}
	return ""
}

// collectAll lets the collectors see everything and work until nothing changes. Then nothing has
// outlived its owner.
func (w *world) collectAll() {
	for i := 0; len(w.findings) == 0; i++ {
		before := w.store.Revision()
		for c := range w.collectors {
			for _, kind := range server.FollowedKinds() {
				w.refresh(c, kind)
			}
			w.collectorLook(c)
			w.check()
		}
		w.settle()
		if w.store.Revision() == before {
			break
		}
		if i == rounds {
			w.fail("there is always something to be collected")
		}
	}
	if len(w.findings) > 0 {
		return
	}
	for _, f := range w.audit.Left() {
		w.fail("%s", f)
	}
}
