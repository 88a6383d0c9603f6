package access

import (
	"slices"

	"github.com/escher-sched/escher/types/rights"
)

// Row says what an operation of the HTTP API needs: all of Needs, in the namespace of its path or, for
// a path without one, in the cluster. Without needs, every caller may call it, and the operation
// decides what that caller gets.
type Row struct {
	Operation string
	Needs     []rights.Need
}

// Table is the table of rights: what each operation needs. An operation that is not in it is refused.
func Table() []Row { return slices.Concat(ofAccess(), ofCluster(), ofNamespace()) }

// ofAccess are the operations on identities, tokens and rights.
func ofAccess() []Row {
	return []Row{
		{"whoAmI", nil},
		{"canI", nil},
		{"listRights", nil},
		{"grantRight", nil},
		{"revokeRight", nil},
		{"listTokens", nil},
		{"createToken", nil},
		{"revokeToken", nil},
	}
}

// ofCluster are the operations on nodes, and on settings of namespaces.
func ofCluster() []Row {
	return []Row{
		{"listNodes", read(rights.Nodes)},
		{"getNode", read(rights.Nodes)},
		{"explainNode", read(rights.Audit)}, // it names tasks of all namespaces
		{"listHistory", nil},                // read history, in the namespace that the request names or in the cluster
		{"getUsage", nil},
		{"cordonNode", write(rights.Nodes)},
		{"uncordonNode", write(rights.Nodes)},
		{"drainNode", write(rights.Nodes)},
		{"labelNode", write(rights.Nodes)},
		{"removeNode", write(rights.Nodes)},
		{"getNodeUsage", read(rights.Nodes)},
		{"listNodeUsage", read(rights.Audit)}, // it names tasks of all namespaces
		{"listImages", read(rights.Images)},
		{"loadImages", write(rights.Images)},
		{"pullImage", write(rights.Images)},
		{"getPull", read(rights.Images)},
		{"exportWorkdir", read(rights.Images)},
		{"listLackingLayers", read(rights.Images)},
		{"listLayers", read(rights.Images)},
		{"audit", read(rights.Audit)},
		{"listNamespaces", nil},
		{"getNamespace", read(rights.Namespaces)},
		{"setNamespace", write(rights.Namespaces)},
		{"removeNamespace", write(rights.Namespaces)},
	}
}

// ofNamespace are the operations on what applications make.
func ofNamespace() []Row {
	enter := needs(rights.Enter, []rights.Kind{rights.Tasks})
	work := []rights.Kind{rights.Tasks, rights.Jobs, rights.Resources, rights.Reservations, rights.Policies}
	return []Row{
		{"getState", read(rights.State)},
		{"listTasks", read(rights.Tasks)},
		{"launchTasks", write(rights.Tasks, rights.Jobs, rights.Policies)},
		{"getTask", read(rights.Tasks)},
		{"removeTask", write(rights.Tasks)},
		{"stopTask", write(rights.Tasks)},
		{"evictTask", write(rights.Tasks)},
		{"waitTasks", read(rights.Tasks)},
		{"explainTask", read(rights.Tasks)},
		{"listAttempts", read(rights.Tasks)},
		{"readEvents", read(rights.Tasks)},
		{"getTaskUsage", read(rights.Tasks)},
		{"readLogs", read(rights.Logs)},
		{"signalTask", write(rights.Tasks)},
		{"attachToTask", enter},
		{"execInTask", enter},
		{"forwardPort", enter},
		{"getFiles", enter},
		{"statFile", enter},
		{"putFiles", enter},

		{"listJobs", read(rights.Jobs)},
		{"getJob", read(rights.Jobs)},
		{"stopJob", write(rights.Jobs, rights.Tasks)},
		{"removeJob", write(rights.Jobs, rights.Tasks)},
		{"explainJob", read(rights.Jobs)},

		{"listResources", read(rights.Resources)},
		{"setResource", write(rights.Resources)},
		{"listReservations", read(rights.Reservations)},
		{"reserve", write(rights.Reservations)},
		{"unreserve", write(rights.Reservations)},
		{"explainReservation", read(rights.Reservations)},
		{"listPolicies", read(rights.Policies)},

		{"transact", write(work...)},
		{"planDocuments", read(work...)},
		{"applyDocuments", write(work...)}, // and write namespaces, if one is among them
		{"watch", read(rights.Tasks, rights.Resources)},
	}
}

func read(kinds ...rights.Kind) []rights.Need { return needs(rights.Read, kinds) }

func write(kinds ...rights.Kind) []rights.Need { return needs(rights.Write, kinds) }

// needs returns the needs to use several kinds in a way.
func needs(verb rights.Verb, kinds []rights.Kind) []rights.Need {
	all := make([]rights.Need, len(kinds))
	for i, k := range kinds {
		all[i] = rights.Need{Verb: verb, Kind: k}
	}
	return all
}
