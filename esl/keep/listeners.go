package keep

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
)

// listeners are policies by the objects they depend on.
type listeners map[cluster.ID]map[*managedPolicy]struct{}

func (l listeners) add(on cluster.ID, p *managedPolicy) {
	if l[on] == nil {
		l[on] = make(map[*managedPolicy]struct{})
	}
	l[on][p] = struct{}{}
}

func (l listeners) drop(on cluster.ID, p *managedPolicy) {
	if delete(l[on], p); len(l[on]) == 0 {
		delete(l, on)
	}
}

// lacks calls a policy again when the resources it found lacking change, and no longer when those
// of its previous call do.
func (k *loop) lacks(p *managedPolicy, now esl.Lacking) {
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
