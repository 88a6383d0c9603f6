package taskset

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// GateOf finds the gate of a task of a job, of shared policies of a kind, in requests: requested
// directly or through a gang's reservation.
func GateOf(requests types.Requests, job, kind string) (name string, index int, ok bool) {
	for _, x := range requests {
		if !IsGateOf(x.Name, job, kind) {
			continue
		}
		name, _, _ := strings.Cut(x.Name, "@")
		if index, err := strconv.Atoi(name[strings.LastIndexByte(name, '.')+1:]); err == nil {
			return name, index, true
		}
	}
	return "", 0, false
}

// GatesAmong splits the requests of a task into the gates of its own, and the rest.
func GatesAmong(requests types.Requests, job string) (gates, rest types.Requests) {
	for _, x := range requests {
		one := types.Requests{x}
		_, _, queued := GateOf(one, job, kindQueue)
		if _, _, fair := GateOf(one, job, KindFairQueue); queued || fair {
			gates = append(gates, x)
		} else {
			rest = append(rest, x)
		}
	}
	return gates, rest
}

// IsGateOf reports whether a resource is a gate of a job, of policies of a kind.
func IsGateOf(name, job, kind string) bool {
	rest, ok := strings.CutPrefix(name, job)
	label, dot := strings.CutPrefix(rest, ".")
	if !ok || !dot {
		return false
	}
	former := esl.FormerLabel(kind)
	return strings.HasPrefix(label, kind) || former != "" && strings.HasPrefix(label, former)
}

// IsSharePool reports whether a resource is the pool of a user of a fair-share.
func IsSharePool(name string) bool { return strings.Contains(name, "."+kindFairShare+".") }

// Ready reports whether all ephemeral resources that a task requests exist, except those of but.
// Resources of reservations count as existing. It passes a missing one to NoteLacking.
func Ready(s *esl.State, t *cluster.TaskValue, but func(name string) bool) bool {
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
		s.NoteLacking(t.Job, rid)
		return false
	}
	return true
}

// IsLarge reports whether requests of physical resources fit on a node if it were empty.
func IsLarge(v *cluster.View, n *cluster.Node, requests types.Requests) bool {
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

// Behind reports whether a requested opening of the job is closed. If all are open, since is when
// the last one opened, in Unix nanoseconds; 0 if there is none.
func Behind(s *esl.State, requests types.Requests) (closed bool, since int64) {
	for _, x := range requests {
		if !IsGateOf(x.Name, s.Job, KindAfter) && !IsGateOf(x.Name, s.Job, KindBarrier) {
			continue
		}
		at := s.View.Everywhere[types.Resolve(s.Namespace, x.Name)]
		if at == nil || at.V == nil {
			return true, 0
		}
		if at.V.Capacity != types.Inf { // an unlimited one stores no time
			since = max(since, int64(at.V.Capacity/esl.One)*int64(time.Second))
		}
	}
	return false, since
}

// AsksFor reports whether a resource is requested, directly or through a gang's reservation.
func AsksFor(requests types.Requests, name string) bool {
	return slices.ContainsFunc(requests, func(x types.Request) bool {
		rest, ok := strings.CutPrefix(x.Name, name)
		return ok && (rest == "" || rest[0] == '@')
	})
}
