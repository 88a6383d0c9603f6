package esl

import (
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// Shared policies across namespaces. A job may take part in a shared policy of another namespace, if the
// settings of its own allow that: see types.NamespacePolicy. The policy refers to what is in other
// namespaces by names that begin with the namespace: team:job. What its tasks request is in their own
// namespace: see OwnerOf.

// Named returns the id of what a name means in a namespace: team:job is in namespace team.
func Named(ns, name string) cluster.ID {
	if of, id, ok := strings.Cut(name, ":"); ok {
		return cluster.ID{Namespace: of, ID: id}
	}
	return cluster.ID{Namespace: ns, ID: name}
}

// Across is in the names of the objects of shared policies in other namespaces, and in the id of no policy.
const Across = ".."

// OwnerOf returns what the names of the objects of a shared policy begin with in the namespace of a job that
// names it: org..lab for org:lab.
func OwnerOf(name string) string { return strings.Replace(name, ":", Across, 1) }

// CheckID refuses the id of a policy that is in the names of the objects of shared policies of other namespaces.
func CheckID(id string) error {
	return InvalidIf(strings.Contains(id, Across), "%q has two dots in a row, as the objects of policies of other namespaces have: choose another id", id)
}

// allows reports whether the settings of a namespace let its jobs take part in a shared policy.
func allows(n *types.Namespace, ns string, shared cluster.ID) bool {
	if shared.Namespace == ns {
		return true
	}
	if n != nil {
		for _, p := range n.Policies {
			if p.Name == shared.Namespace+":"+shared.ID {
				return true
			}
		}
	}
	return false
}

// allowed is allows by the settings in a view.
func allowed(v *cluster.View, ns string, shared cluster.ID) bool {
	c := v.Namespaces[ns]
	if c == nil {
		return allows(nil, ns, shared)
	}
	return allows(c.V, ns, shared)
}
