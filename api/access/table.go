package access

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// Row says what an operation of the HTTP API needs: all of Needs, in the namespace of its path or, for
// a path without one, in the cluster. Without needs, every caller may call it, and the operation
// decides what that caller gets.
type Row struct {
	Operation string
	Needs     []rights.Need
	// InCluster reports whether the needs are in the cluster, whatever the path is.
	InCluster bool
	// Public reports whether every program may call it, without a token: it gets no caller.
	Public bool
	// Agents reports whether agents of nodes may call it without the needs.
	Agents bool
	// Tasks reports whether the sockets of tasks serve it, and Itself whether those with SocketSelf do, for
	// the task itself. NamesTask reports whether such a request must name it.
	Tasks, Itself, NamesTask bool
	// Bound is what such a request uses of the bounds of the agent.
	Bound tasksocket.Bound
}

// Of returns what an identity needs.
func (r Row) Of(id Identity) []rights.Need {
	if r.Agents && strings.HasPrefix(id.Subject, types.NodeSubject+":") {
		return nil
	}
	return r.Needs
}

// Table is the table of rights: what each operation needs. An operation that is not in it is refused.
func Table() []Row { return slices.Concat(ofAccess(), ofCluster(), ofNamespace()) }

// ofAccess are the operations on identities, tokens and rights.
func ofAccess() []Row {
	return []Row{
		{Operation: "getLogin", Public: true},
		{Operation: "whoAmI", Tasks: true, Itself: true},
		{Operation: "canI", Tasks: true},
		{Operation: "holdUnit", Tasks: true}, // for tasks alone, as the agent answers it
		{Operation: "watchPeers", Tasks: true, Bound: tasksocket.Watching, Itself: true},
		{Operation: "listRights"},
		{Operation: "grantRight"},
		{Operation: "revokeRight"},
		{Operation: "listTokens"},
		{Operation: "createToken"},
		{Operation: "revokeToken"},
	}
}

// ofCluster are the operations on nodes, and on settings of namespaces.
func ofCluster() []Row {
	return []Row{
		{Operation: "listNodes", Needs: read(rights.Nodes)},
		{Operation: "getNode", Needs: read(rights.Nodes)},
		{Operation: "explainNode", Needs: read(rights.Audit)}, // it names tasks of all namespaces
		{Operation: "listHistory"},                            // read history, in the namespace that the request names or in the cluster
		{Operation: "getUsage"},
		{Operation: "listRequests"}, // read audit, in the namespace that the request names or in the cluster
		{Operation: "cordonNode", Needs: write(rights.Nodes)},
		{Operation: "uncordonNode", Needs: write(rights.Nodes)},
		{Operation: "drainNode", Needs: write(rights.Nodes)},
		{Operation: "labelNode", Needs: write(rights.Nodes)},
		{Operation: "removeNode", Needs: write(rights.Nodes)},
		{Operation: "certifyNode"}, // for the node itself, and for holders of the right to write tokens
		{Operation: "openSecrets"}, // for the agent of the node alone
		{Operation: "openLogin"},   // for the agent of the node alone
		{Operation: "getNodeUsage", Needs: read(rights.Nodes)},
		{Operation: "listNodeUsage", Needs: read(rights.Nodes)}, // and read tasks: it has those of such namespaces
		{Operation: "listImages", Needs: read(rights.Images)},
		{Operation: "loadImages", Needs: write(rights.Images)},
		{Operation: "pullImage", Needs: write(rights.Images)},
		{Operation: "getPull", Needs: read(rights.Images)},
		{Operation: "exportWorkdir", Needs: read(rights.Images), Agents: true}, // a digest is as secret as a token
		{Operation: "listLackingLayers", Needs: read(rights.Images)},
		{Operation: "listLayers", Needs: read(rights.Images), Agents: true},
		{Operation: "audit", Needs: read(rights.Audit)},
		{Operation: "listNamespaces"},
		{Operation: "getNamespace", Needs: read(rights.Namespaces)},
		{Operation: "setNamespace", Needs: write(rights.Namespaces), InCluster: true}, // it bounds the namespace
		{Operation: "removeNamespace", Needs: write(rights.Namespaces), InCluster: true},
	}
}

// ofNamespace are the operations on what applications make.
func ofNamespace() []Row {
	enter := needs(rights.Enter, []rights.Kind{rights.Tasks})
	work := []rights.Kind{rights.Tasks, rights.Jobs, rights.Resources, rights.Reservations, rights.Policies}
	return []Row{
		{Operation: "getState", Needs: read(rights.State), Tasks: true, Bound: tasksocket.Listing},
		{Operation: "listKeys", Needs: read(rights.State)}, // and to read what the keys are of: see Keys
		{Operation: "watchKeys", Needs: read(rights.State)},
		{Operation: "listTasks", Needs: read(rights.Tasks), Tasks: true, Bound: tasksocket.Listing},
		{Operation: "launchTasks", Needs: write(rights.Tasks, rights.Jobs, rights.Policies), Tasks: true},
		{Operation: "getTask", Needs: read(rights.Tasks), Tasks: true, Itself: true},
		{Operation: "removeTask", Needs: write(rights.Tasks)},
		{Operation: "stopTask", Needs: write(rights.Tasks), Tasks: true, Itself: true},
		{Operation: "evictTask", Needs: write(rights.Tasks), Tasks: true, Itself: true},
		{Operation: "waitTasks", Needs: read(rights.Tasks), Tasks: true, Itself: true, NamesTask: true},
		{Operation: "explainTask", Needs: read(rights.Tasks)},
		{Operation: "listAttempts", Needs: read(rights.Tasks)},
		{Operation: "readEvents", Needs: read(rights.Tasks)},
		{Operation: "getTaskUsage", Needs: read(rights.Tasks)},
		{Operation: "readLogs", Needs: read(rights.Logs)},
		{Operation: "signalTask", Needs: write(rights.Tasks)},
		{Operation: "attachToTask", Needs: enter},
		{Operation: "execInTask", Needs: enter},
		{Operation: "forwardPort", Needs: enter},
		{Operation: "getFiles", Needs: enter},
		{Operation: "statFile", Needs: enter},
		{Operation: "putFiles", Needs: enter},

		{Operation: "listJobs", Needs: read(rights.Jobs), Tasks: true, Bound: tasksocket.Listing},
		{Operation: "getJob", Needs: read(rights.Jobs), Tasks: true, Bound: tasksocket.Listing},
		{Operation: "stopJob", Needs: write(rights.Jobs, rights.Tasks), Tasks: true, Bound: tasksocket.Listing},
		{Operation: "removeJob", Needs: write(rights.Jobs, rights.Tasks)},
		{Operation: "explainJob", Needs: read(rights.Jobs)},

		{Operation: "listResources", Needs: read(rights.Resources), Tasks: true, Bound: tasksocket.Listing},
		{Operation: "setResource", Needs: write(rights.Resources), Tasks: true, Itself: true},
		{Operation: "listReservations", Needs: read(rights.Reservations), Tasks: true, Bound: tasksocket.Listing},
		{Operation: "reserve", Needs: write(rights.Reservations), Tasks: true},
		{Operation: "unreserve", Needs: write(rights.Reservations), Tasks: true},
		{Operation: "explainReservation", Needs: read(rights.Reservations)},
		{Operation: "listPolicies", Needs: read(rights.Policies), Tasks: true, Bound: tasksocket.Listing},
		{Operation: "withdrawPolicy", Needs: write(rights.Policies, rights.Resources)},

		{Operation: "transact", Needs: write(work...), Tasks: true},
		{Operation: "planDocuments", Needs: read(work...)},
		{Operation: "applyDocuments", Needs: write(work...)}, // and write namespaces, if one is among them
		{Operation: "submitDocuments", Needs: write(rights.Tasks, rights.Jobs, rights.Policies)},
		{Operation: "listSecrets", Needs: read(rights.Secrets)}, // names: no right gives values to users
		{Operation: "setSecret", Needs: write(rights.Secrets)},
		{Operation: "removeSecret", Needs: write(rights.Secrets)},
		{Operation: "watch", Needs: read(rights.Tasks, rights.Resources), Tasks: true, Bound: tasksocket.Watching, Itself: true, NamesTask: true},
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
