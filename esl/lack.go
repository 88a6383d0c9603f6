package esl

import (
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// lacks are resources and reservations of others that a shared policy found not to be
// there, or not to be enough, while tasks wait for them. It cares for them until it is
// asked the next time: what it does may be another thing then.
type lacks map[cluster.ID]struct{}

// lack notes that a task of a job waits for a resource. What is called after the job is not
// noted, as the policies that the job names are asked for that anyway.
func (s *State) lack(job string, rid types.ResourceID) {
	if s.lacks == nil {
		return
	}
	ns, name, reservation := rid.Split()
	if reservation != "" {
		name = reservation
	}
	if !strings.HasPrefix(name, job+".") {
		s.lacks[cluster.ID{Namespace: ns, ID: name}] = struct{}{}
	}
}

// listeners are policies by what they care for.
type listeners map[cluster.ID]map[*keptPolicy]struct{}

func (l listeners) add(on cluster.ID, p *keptPolicy) {
	if l[on] == nil {
		l[on] = make(map[*keptPolicy]struct{})
	}
	l[on][p] = struct{}{}
}

func (l listeners) drop(on cluster.ID, p *keptPolicy) {
	if delete(l[on], p); len(l[on]) == 0 {
		delete(l, on)
	}
}

// lacks has a policy asked when what it found lacking changes, and no longer when what it
// found the time before does.
func (k *keeping) lacks(p *keptPolicy, now lacks) {
	for on := range p.lacks {
		if _, still := now[on]; !still {
			k.lacked.drop(on, p)
		}
	}
	for on := range now {
		k.lacked.add(on, p)
	}
	p.lacks = now
}
