package esl

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// A gate is an ephemeral resource of one task, which asks for the least of it: the task
// is held back until the gate is there.
type gate struct {
	task *cluster.Task
	job  string
	// index is that of the task in its job.
	index int
	name  string
	// pool is nil while the gate is closed.
	pool *cluster.Pool
}

// asksGates has each task of a group ask for a gate.
func (g *Group) asksGates() error {
	prefix := g.ID + "." + g.kind
	for i := range g.Tasks {
		for _, x := range g.Tasks[i].Task.Requests {
			if strings.HasPrefix(x.Name, prefix) {
				return invalid("in: a job is let in one by one by a single %s: drop one", g.kind)
			}
		}
	}
	for i := range g.Tasks {
		g.Ask(i, g.Own(strconv.Itoa(i)), 1)
	}
	return nil
}

// gates returns those of a job, of policies of a kind, by index; also of tasks that have
// ended, as long as these are there.
func (s *State) gates(job, kind string) []gate {
	var out []gate
	s.View.EachMember(cluster.ID{Namespace: s.Namespace, ID: job}, func(t *cluster.Task) {
		if t.Info.V == nil {
			return
		}
		if name, index, ok := gateOf(t.Info.V.Requests, job+"."+kind); ok {
			out = append(out, gate{task: t, job: job, index: index, name: name, pool: s.Pool(name)})
		}
	})
	slices.SortFunc(out, func(a, b gate) int { return cmp.Compare(a.index, b.index) })
	return out
}

// gateOf finds the gate that is asked for, itself or as part of a gang.
func gateOf(requests types.Requests, prefix string) (name string, index int, ok bool) {
	for _, x := range requests {
		if !strings.HasPrefix(x.Name, prefix) {
			continue
		}
		name, _, _ := strings.Cut(x.Name, "@")
		if index, err := strconv.Atoi(name[strings.LastIndexByte(name, '.')+1:]); err == nil {
			return name, index, true
		}
	}
	return "", 0, false
}

// closed reports whether a gate is not there, or was closed again.
func (g *gate) closed() bool { return g.pool == nil || g.pool.Capacity() == 0 }

// waits reports whether a gate is closed whose task waits for it, and for nothing else
// that is not there: what waits for another task must not keep that one out. What no node
// is large enough for waits for that.
func (g *gate) waits(s *State) bool {
	t := g.task.Info.V
	if !g.closed() || g.task.Phase() != types.Pending || t.Stop != nil {
		return false
	}
	return s.ready(t, g.after) && s.largeFor(t)
}

// after reports whether a resource is not to be there before the gate is opened: the gate
// itself, and what others hold its task back by that go by whether it is open. These are
// in one order, so that none waits for the other: queues, fair queues, shares.
func (g *gate) after(name string) bool {
	name, _, _ = strings.Cut(name, "@")
	if name == g.name || isSharePool(name) {
		return true
	}
	flow := Flow{}.Kind()
	return !isGateOf(g.name, g.job, flow) && isGateOf(name, g.job, flow)
}

// gatesAmong divides what a task of a job asks for into the gates that are its own, and the
// rest.
func gatesAmong(requests types.Requests, job string) (gates, rest types.Requests) {
	for _, x := range requests {
		one := types.Requests{x}
		_, _, queued := gateOf(one, job+"."+Queued{}.Kind())
		if _, _, flow := gateOf(one, job+"."+Flow{}.Kind()); queued || flow {
			gates = append(gates, x)
		} else {
			rest = append(rest, x)
		}
	}
	return gates, rest
}

// isGateOf reports whether a resource is a gate of a job, of policies of a kind.
func isGateOf(name, job, kind string) bool { return strings.HasPrefix(name, job+"."+kind) }

// isSharePool reports whether a resource is the pool of a user of a fair-share.
func isSharePool(name string) bool { return strings.Contains(name, "."+FairShare{}.Kind()+".") }

// ready reports whether all ephemeral resources but some are there that a task asks for.
// Those of reservations count as there. What is not there is noted: see lack.
func (s *State) ready(t *cluster.TaskValue, but func(name string) bool) bool {
	for _, x := range t.Requests {
		rid := types.Resolve(s.Namespace, x.Name)
		if rid.Physical() || rid.Scoped() || but(x.Name) {
			continue
		}
		if pool := s.View.Pool(rid); pool != nil {
			if pool.Capacity() >= x.Amount {
				continue
			}
		} else if s.View.Everywhere[rid] != nil || len(s.View.At(rid)) > 0 {
			continue
		}
		s.lack(t.Job, rid)
		return false
	}
	return true
}

// largeFor reports whether a node that takes tasks would be large enough for a task if
// nothing else were there.
func (s *State) largeFor(t *cluster.TaskValue) bool {
	if len(t.Alternatives) == 0 {
		return s.large(t.Requests)
	}
	return slices.ContainsFunc(t.Alternatives, func(a types.Alternative) bool { return s.large(t.Requests.Plus(a.Requests)) })
}

// large reports whether a node is large enough for requests. Tasks that ask for the same
// of nodes, and for gates of their own, are looked at once.
func (s *State) large(requests types.Requests) bool {
	var of types.Requests
	for _, x := range requests {
		x.Name, _, _ = strings.Cut(x.Name, "@")
		if types.IsPhysical(x.Name) {
			of = append(of, x)
		}
	}
	key := fmt.Sprint(of)
	if known, ok := s.largest[key]; ok {
		return known
	}
	if s.largest == nil {
		s.largest = make(map[string]bool)
	}
	for _, n := range s.View.Nodes {
		if n.Eligible() && isLarge(s.View, n, of) {
			s.largest[key] = true
			return true
		}
	}
	s.largest[key] = false
	return false
}

// isLarge reports whether a node has what requests ask for of nodes, if nothing else were
// there.
func isLarge(v *cluster.View, n *cluster.Node, requests types.Requests) bool {
	for _, x := range requests {
		if !types.IsPhysical(x.Name) {
			continue
		}
		if capacity, ok := v.Capacity(n, types.ResourceID(x.Name)); !ok || capacity < x.Amount {
			return false
		}
	}
	return true
}

// open makes the gate, which ends with its job. Nobody else asks for it, so how much of it
// there is may say since when.
func (g *gate) open(now time.Time) Set {
	at := types.Quantity(max(now.Unix(), 1)) * One
	return Set{Name: g.name, Capacity: at, Where: controlplane.InCluster(), Options: OfJob(g.job)}
}

// close removes it.
func (g *gate) close() Set { return Set{Name: g.name, Where: controlplane.InCluster()} }

// inTurn orders gates: by priority, by age, by job, by index.
func inTurn(a, b gate) int {
	x, y := a.task.Info.V, b.task.Info.V
	return cmp.Or(cmp.Compare(y.Order(), x.Order()), cmp.Compare(x.Submitted, y.Submitted), strings.Compare(a.job, b.job), cmp.Compare(a.index, b.index))
}

// fewLeft is how many gates of ended tasks are left for a while, so that removing them
// takes no transaction of its own.
const fewLeft = 32

// withEnded adds to what is opened what is closed, if that is worth it, up to so many.
func withEnded(opened []Set, ended []gate, most int) []Set {
	if len(opened) == 0 && len(ended) < fewLeft {
		return nil
	}
	for _, g := range ended {
		if len(opened) >= most {
			break
		}
		opened = append(opened, g.close())
	}
	return opened
}
