package controlplane

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
	Kind Kind
	// Put lists the roles that create and change the key.
	Put []Writer
	// Delete lists the roles that delete it. The end of its lease deletes it too.
	Delete []Writer
}

// AccessTable returns the writers of every kind. The collector is part of the server.
func AccessTable() []Access {
	return []Access{
		{Nodes, by(Agent), by(Administrator)},
		{Devices, by(Agent), by(Administrator)},
		{Alive, by(Agent), by(Agent)},
		{Tokens, by(Agent), by(Agent)},
		{Cordons, by(Administrator), by(Administrator)},
		{Namespaces, by(Administrator), by(Administrator)},
		{Admissions, by(Server), by(Server)},
		{Resources, by(Application), by(Application, Server)},
		{Sessions, by(Application), by(Application)},
		{Specs, by(Application), by(Server)},
		{Tasks, by(Application, Server), by(Application, Server)},
		{Jobs, by(Application), by(Application, Server)},
		{Reservations, by(Application), by(Application, Server)},
		{Policies, by(Application), by(Application, Server)},
		{Grants, by(Scheduler), by(Scheduler)},
		{Allocated, by(Scheduler), by(Scheduler, Administrator)},
		{Bindings, by(Scheduler), by(Scheduler)},
		{Reports, by(Agent), by(Scheduler)},
		{Provided, by(Scheduler), by(Application, Server)},
		{Statuses, by(Scheduler), by(Application, Server)},
		{Schedulers, by(Scheduler), by(Scheduler)},
		{Leaders, by(Server, Scheduler), by(Server, Scheduler)},
		{System, by(Server, Administrator), by(Server)},
	}
}

func by(w ...Writer) []Writer { return w }
