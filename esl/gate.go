package esl

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

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

// waits reports whether a gate is closed whose task waits for it, and for nothing else
// that is not there: what waits for another task must not keep that one out.
func (g *gate) waits(s *State) bool {
	t := g.task.Info.V
	return g.pool == nil && g.task.Phase() == types.Pending && t.Stop == nil && s.ready(t.Requests, func(name string) bool {
		base, _, _ := strings.Cut(name, "@")
		return base == g.name
	})
}

// ready reports whether all ephemeral resources but some are there that requests name.
// Those of reservations count as there.
func (s *State) ready(requests types.Requests, but func(name string) bool) bool {
	for _, x := range requests {
		rid := types.Resolve(s.Namespace, x.Name)
		if rid.Physical() || rid.Scoped() || but(x.Name) {
			continue
		}
		if pool := s.View.Pool(rid); pool != nil {
			if pool.Capacity() < x.Amount {
				return false
			}
		} else if s.View.Everywhere[rid] == nil && len(s.View.At(rid)) == 0 {
			return false
		}
	}
	return true
}

// open makes the gate, which ends with its job.
func (g *gate) open() Set {
	return Set{Name: g.name, Capacity: 1, Where: controlplane.InCluster(), Options: OfJob(g.job)}
}

// close removes it.
func (g *gate) close() Set { return Set{Name: g.name, Where: controlplane.InCluster()} }

// inTurn orders gates: by priority, by age, by job, by index.
func inTurn(a, b gate) int {
	x, y := a.task.Info.V, b.task.Info.V
	return cmp.Or(cmp.Compare(y.Priority, x.Priority), cmp.Compare(x.Submitted, y.Submitted), strings.Compare(a.job, b.job), cmp.Compare(a.index, b.index))
}

// fewLeft is how many gates of ended tasks are left for a while, so that removing them
// takes no transaction of its own.
const fewLeft = 32

// withEnded adds to what is opened what is closed, if that is worth it.
func withEnded(opened []Set, ended []gate) []Set {
	if len(opened) == 0 && len(ended) < fewLeft {
		return nil
	}
	for _, g := range ended {
		if len(opened) >= perPlan {
			break
		}
		opened = append(opened, g.close())
	}
	return opened
}
