package controlplane

import (
	"strings"

	"github.com/escher-sched/escher/types"
)

// The compares that binding a task may need.
const (
	// fixedCompares counts the task, its status and its namespace, and of the node: itself, its
	// allocated key, session, cordon and devices.
	fixedCompares = 8
	// ephemeralCompares counts, for a resource: the node's own key; that of every node, or of the
	// cluster; a provided key; a provider and its report.
	ephemeralCompares = 5
)

// bindCompares returns the largest number of compares that binding a task may need, over its
// alternatives.
func bindCompares(t *types.Task) int {
	most := requestCompares(t.Requests)
	for _, a := range t.Alternatives {
		most = max(most, requestCompares(t.Requests.Plus(a.Requests)))
	}
	return fixedCompares + most
}

// requestCompares returns the share of the requests in bindCompares.
func requestCompares(r types.Requests) int {
	n := 0
	for _, x := range r {
		switch {
		case strings.Contains(x.Name, "@"):
			n++ // the grant
		case !types.IsPhysical(x.Name):
			n += ephemeralCompares
		}
	}
	return n
}
