package audit

import (
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// Left returns the objects that have outlived their owners at present. That is legal until the
// collector sees it. At rest it violates NothingLeft.
func (c *Checker) Left() []Finding {
	l := leftovers{s: c.s, open: c.s.openJobs()}
	l.found = func(object, format string, args ...any) {
		l.all = append(l.all, c.finding(NothingLeft, object, format, args))
	}
	for rid, p := range c.s.pools {
		l.resource(rid, types.ClusterWide, p.info.V)
	}
	for rid, r := range c.s.everywhere {
		l.resource(rid, types.EveryNode, r.V)
	}
	for _, n := range c.s.nodes {
		l.ofNode(n)
	}
	for _, r := range c.s.reservations {
		l.reservation(r)
	}
	for at, p := range c.s.policies {
		object := "policies " + at.String()
		l.ends(object, controlplane.Sessions, id{at.ns, p.V.Session})
		l.ends(object, controlplane.Jobs, id{at.ns, p.V.Job})
	}
	for _, t := range c.s.tasks {
		l.task(t)
	}
	return sorted(l.all)
}

// leftovers searches for objects left behind.
type leftovers struct {
	s *state
	// open are the jobs with tasks that have not ended.
	open  map[id]bool
	found finder
	all   []Finding
}

// openJobs returns the jobs with tasks that have not ended.
func (s *state) openJobs() map[id]bool {
	open := make(map[id]bool)
	for _, t := range s.tasks {
		if t.info.V != nil && t.info.V.Job != "" && !t.ended() {
			open[id{t.id.ns, t.info.V.Job}] = true
		}
	}
	return open
}

// ended reports whether the task has ended.
func (t *task) ended() bool { return t.status.V != nil && t.status.V.Phase.Ended() }

// resource checks one key of an ephemeral resource.
func (l *leftovers) resource(rid types.ResourceID, where string, r *types.Resource) {
	if r == nil {
		return
	}
	ns, name, _ := rid.Split()
	object, owner := "resource "+ns+"/"+name+"/"+where, id{ns, r.Owner}
	switch r.Lifetime {
	case types.OfTask:
		l.ends(object, controlplane.Tasks, owner)
	case types.OfJob:
		l.ends(object, controlplane.Jobs, owner)
	case types.OfSession:
		l.ends(object, controlplane.Sessions, owner)
	case types.OfReservation:
		l.ends(object, controlplane.Reservations, owner)
	case types.OfPolicy:
		l.ends(object, controlplane.Policies, owner)
	}
}

// ofNode checks the resources of a node.
func (l *leftovers) ofNode(n *node) {
	for rid, r := range n.own {
		l.resource(rid, n.name, r.V)
		l.session(n, "resource", rid, r.V.NodeSession)
	}
	for rid, p := range n.left {
		l.session(n, "provided", rid, p.V.NodeSession)
		ns, name, _ := rid.Split()
		l.ends("provided "+ns+"/"+name+"/"+n.name, controlplane.Jobs, id{ns, p.V.Job})
	}
}

// session checks a resource of a session of its node.
func (l *leftovers) session(n *node, noun string, rid types.ResourceID, session int64) {
	if session != n.session() {
		ns, name, _ := rid.Split()
		l.found(noun+" "+ns+"/"+name+"/"+n.name, "belongs to session %d of its node, which is over", session)
	}
}

func (l *leftovers) reservation(r *reservation) {
	if r.info.V == nil {
		return
	}
	object := "reservation " + r.id.String()
	l.ends(object, controlplane.Sessions, id{r.id.ns, r.info.V.Session})
	l.ends(object, controlplane.Jobs, id{r.id.ns, r.info.V.Job})
	l.ends(object, controlplane.Policies, id{r.id.ns, r.info.V.Policy})
}

// task checks a task that ends with its session. No scheduler sees a task whose job is missing.
func (l *leftovers) task(t *task) {
	x := t.info.V
	if x == nil || x.Session == "" || x.Stop != nil || t.ended() || x.Job != "" && l.s.jobs[id{t.id.ns, x.Job}] == nil {
		return
	}
	l.ends(t.object(), controlplane.Sessions, id{t.id.ns, x.Session})
}

// ends checks an object that ends with an owner, if the owner's id is set.
func (l *leftovers) ends(object string, kind controlplane.Kind, with id) {
	if with.id == "" {
		return
	}
	there, ended, what := false, false, ""
	switch kind {
	case controlplane.Tasks:
		t := l.s.tasks[with]
		what, there = "task", t != nil && t.info.V != nil
		ended = there && t.ended()
	case controlplane.Jobs:
		what, there, ended = "job", l.s.jobs[with] != nil, !l.open[with]
	case controlplane.Sessions:
		what, there = "session", l.s.sessions[with] != nil
	case controlplane.Reservations:
		r := l.s.reservations[with]
		what, there = "reservation", r != nil && r.info.V != nil
	case controlplane.Policies:
		what, there = "policy", l.s.policies[with] != nil
	}
	switch {
	case !there:
		l.found(object, "ends with %s %s, which is gone", what, with)
	case ended:
		l.found(object, "ends with %s %s, which has ended", what, with)
	}
}
