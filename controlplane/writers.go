package controlplane

// Writer is who may change a key.
type Writer string

// The writers.
const (
	Agent         Writer = "agent"
	Application   Writer = "application"
	Scheduler     Writer = "scheduler"
	Server        Writer = "server"
	Administrator Writer = "administrator"
)

// Access says who writes the keys of a kind: invariant 6, one writer a key, and
// only within its range. An agent's range is what is below its node, an
// application's what is below its namespace.
type Access struct {
	Kind Kind
	// Put is who creates and changes the key.
	Put []Writer
	// Delete is who deletes it, besides the end of the lease it is on.
	Delete []Writer
}

// AccessTable returns the table of writers, a line a kind. The collector is part
// of the server.
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
