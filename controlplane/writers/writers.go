// Package writers says which roles may write which keys.
package writers

import "github.com/escher-sched/escher/controlplane"

// Writer is a role that may change keys.
type Writer string

// The writers.
const (
	Agent         Writer = "agent"
	Application   Writer = "application"
	Scheduler     Writer = "scheduler"
	Server        Writer = "server"
	Administrator Writer = "administrator"
)

// Access lists the writers of the keys of a kind. It is invariant 6: one writer a key, and only
// within its range. The range of an agent is below its node, that of an application below its
// namespace.
type Access struct {
	Kind controlplane.Kind
	// Put lists the roles that create and change the key.
	Put []Writer
	// Delete lists the roles that delete it. The end of its lease deletes it too.
	Delete []Writer
}

// Table returns the writers of every kind. The collector is part of the server.
func Table() []Access {
	return []Access{
		{controlplane.Nodes, by(Agent, Administrator), by(Administrator)},
		{controlplane.Devices, by(Agent), by(Administrator)},
		{controlplane.Alive, by(Agent), by(Agent)},
		{controlplane.Tokens, by(Agent), by(Agent)},
		{controlplane.Cordons, by(Administrator), by(Administrator)},
		{controlplane.Namespaces, by(Administrator), by(Administrator)},
		{controlplane.Admissions, by(Server), by(Server)},
		{controlplane.Resources, by(Application), by(Application, Server)},
		{controlplane.Sessions, by(Application), by(Application)},
		{controlplane.Specs, by(Application), by(Server)},
		{controlplane.Tasks, by(Application, Server), by(Application, Server)},
		{controlplane.Jobs, by(Application), by(Application, Server)},
		{controlplane.Reservations, by(Application), by(Application, Server)},
		{controlplane.Policies, by(Application), by(Application, Server)},
		{controlplane.Grants, by(Scheduler), by(Scheduler)},
		{controlplane.Allocated, by(Scheduler), by(Scheduler, Administrator)},
		{controlplane.Bindings, by(Scheduler), by(Scheduler)},
		{controlplane.Reports, by(Agent), by(Scheduler)},
		{controlplane.Provided, by(Scheduler), by(Application, Server)},
		{controlplane.Statuses, by(Scheduler), by(Application, Server)},
		{controlplane.Histories, by(Server), by(Server)},
		{controlplane.Rights, by(Administrator), by(Administrator)},
		{controlplane.Credentials, by(Administrator), by(Administrator)},
		{controlplane.Secrets, by(Server), by(Server)},
		{controlplane.Schedulers, by(Scheduler), by(Scheduler)},
		{controlplane.Leaders, by(Server, Scheduler), by(Server, Scheduler)},
		{controlplane.System, by(Server, Administrator), by(Server)},
	}
}

func by(w ...Writer) []Writer { return w }
