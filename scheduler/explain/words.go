package explain

import (
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
	"github.com/escher-sched/escher/types/words"
)

// The words of explanations.

// doing is an action about a task or reservation.
func doing(verb action.Verb, ns string, id cluster.ID) action.Action {
	if id.Namespace == ns {
		return verb.Of(id.ID)
	}
	return verb.Of(id.ID).In(id.Namespace)
}

func explained(ns string, id cluster.ID) action.Action { return doing(action.Explain, ns, id) }

func seeWhy(ns string, id cluster.ID) types.Text {
	return types.Textf("See why: %s", explained(ns, id))
}

// list joins names, and counts those beyond the third.
func list(names []string) string { return words.List(names, 3) }

// is is the verb for a number.
func is(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func names(nodes []*cluster.Node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.Name
	}
	return out
}
