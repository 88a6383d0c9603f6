package controlplane

import (
	"strconv"
	"strings"

	"github.com/escher-sched/escher/types"
)

// This file alone builds and parses keys. Callers validate names and ids first
// (types.ValidateName), so nothing needs escaping and keys read well in etcdctl. Every prefix ends
// in "/".

// Root is the prefix of all keys.
const Root = "/escher/"

// Kind is the first segment of a key below Root.
type Kind string

// The kinds of keys, each with its full key, its content, and its only writer.
const (
	// Nodes: /escher/nodes/<node> → types.Node. Agent.
	Nodes Kind = "nodes"
	// DevicesOf: /escher/devices/<node> → types.Devices. Agent.
	Devices Kind = "devices"
	// Alive: /escher/alive/<node> → types.Alive, on the agent's lease. Its
	// CreateRevision is the node's session. Agent.
	Alive Kind = "alive"
	// Tokens: /escher/tokens/<node> → types.Token, on the agent's lease. Agent.
	Tokens Kind = "tokens"
	// Cordons: /escher/cordons/<node> → types.Cordon. Administrator.
	Cordons Kind = "cordons"
	// Namespaces: /escher/namespaces/<ns> → types.Namespace. Administrator.
	Namespaces Kind = "namespaces"
	// Admissions: /escher/admissions/<ns> → types.Admission, while the namespace is over
	// its budget. Server.
	Admissions Kind = "admissions"
	// Resources: /escher/resources/<ns>/<name>/<where> → types.Resource, where
	// <where> is a node, + or *. Applications of ns.
	Resources Kind = "resources"
	// Sessions: /escher/sessions/<ns>/<id> → types.Session, on a lease of the
	// application.
	Sessions Kind = "sessions"
	// Specs: /escher/specs/<ns>/<digest> → types.Spec. Applications of ns.
	Specs Kind = "specs"
	// Tasks: /escher/tasks/<ns>/<id> → types.Task. Applications of ns.
	Tasks Kind = "tasks"
	// Jobs: /escher/jobs/<ns>/<id> → types.Job. Applications of ns.
	Jobs Kind = "jobs"
	// Reservations: /escher/reservations/<ns>/<id> → types.Reservation.
	// Applications of ns.
	Reservations Kind = "reservations"
	// Policies: /escher/policies/<ns>/<id> → types.Policies, by the id of the job
	// that they are about. Applications of ns.
	Policies Kind = "policies"
	// Grants: /escher/grants/<ns>/<id> → types.Grant. Scheduler.
	Grants Kind = "grants"
	// Allocated: /escher/allocated/<node> and, of a cluster-wide resource,
	// /escher/allocated/*/<ns>/<name> → types.Allocated. Scheduler.
	Allocated Kind = "allocated"
	// Bindings: /escher/bindings/<node>/<ns>/<id>/<attempt> → types.Binding.
	// Scheduler.
	Bindings Kind = "bindings"
	// Reports: /escher/reports/<node>/<ns>/<id>/<attempt> → types.Report. Put
	// by the agent, deleted by the scheduler.
	Reports Kind = "reports"
	// Provided: /escher/provided/<ns>/<name>/<node> → types.Provided. Put by
	// the scheduler, deleted by applications.
	Provided Kind = "provided"
	// Statuses: /escher/status/<ns>/<id> → types.Status. Scheduler.
	Statuses Kind = "status"
	// Histories: /escher/history/<ns>/<name> → types.History, of the past runs of the jobs
	// of that name. Server.
	Histories Kind = "history"
	// Rights: /escher/rights/<name> → types.Right. Administrator.
	Rights Kind = "rights"
	// Credentials: /escher/credentials/<id> → types.Credential. Administrator.
	Credentials Kind = "credentials"
	// Secrets: /escher/secrets/<ns>/<name> → types.Secret. Server.
	Secrets Kind = "secrets"
	// Schedulers: /escher/schedulers/<name> → types.Leader, on a lease.
	// Scheduler.
	Schedulers Kind = "schedulers"
	// Leaders: /escher/leaders/<role> → types.Leader. Server and scheduler.
	Leaders Kind = "leaders"
	// System: /escher/system/<what>: admission, cluster, epoch. Server.
	System Kind = "system"
)

// Leased reports whether keys of a kind are always on a lease, which ends them with their writer. A
// scheduler holds its roles without one, because it is known by its own key.
func (k Kind) Leased() bool {
	return k == Alive || k == Tokens || k == Sessions || k == Schedulers
}

// A Key is a parsed key. Its Kind determines which fields are set: see the full forms at the kinds.
type Key struct {
	Kind      Kind
	Node      string
	Namespace string
	// ID is the id of a task, job, session, reservation, spec, scheduler, role, credential or system
	// value, or the name of a history or right.
	ID string
	// Name is the name of a resource.
	Name string
	// Where is the location of an ephemeral resource: a node, + or *.
	Where string
	// Attempt is the attempt of a binding or report.
	Attempt int
}

// Prefix returns the prefix of all keys of a kind, or of the keys below the given segments:
// Prefix(Tasks, ns), Prefix(Resources, ns, name).
func Prefix(kind Kind, segments ...string) string {
	var b strings.Builder
	b.WriteString(Root)
	b.WriteString(string(kind))
	b.WriteByte('/')
	for _, s := range segments {
		b.WriteString(s)
		b.WriteByte('/')
	}
	return b.String()
}

func join(kind Kind, segments ...string) string {
	size := len(Root) + len(kind)
	for _, s := range segments {
		size += 1 + len(s)
	}
	var b strings.Builder
	b.Grow(size)
	b.WriteString(Root)
	b.WriteString(string(kind))
	for _, s := range segments {
		b.WriteByte('/')
		b.WriteString(s)
	}
	return b.String()
}

// NodeKey is the key of a node.
func NodeKey(node string) string { return join(Nodes, node) }

// DevicesKey is the key of the devices of a node.
func DevicesKey(node string) string { return join(Devices, node) }

// AliveKey is the key that a node's agent keeps on its lease.
func AliveKey(node string) string { return join(Alive, node) }

// TokenKey is the key of the secret whose bearer may use the API of a node.
func TokenKey(node string) string { return join(Tokens, node) }

// CordonKey is the key that keeps new tasks off a node.
func CordonKey(node string) string { return join(Cordons, node) }

// NamespaceKey is the key of a namespace.
func NamespaceKey(ns string) string { return join(Namespaces, ns) }

// NamespaceAdmissionKey exists while a namespace is over its budget.
func NamespaceAdmissionKey(ns string) string { return join(Admissions, ns) }

// ResourceKey is the key of an ephemeral resource at a location: a node, types.EveryNode or
// types.ClusterWide.
func ResourceKey(ns, name, where string) string { return join(Resources, ns, name, where) }

// SessionKey is the key of a session.
func SessionKey(ns, id string) string { return join(Sessions, ns, id) }

// SpecKey is the key of a spec.
func SpecKey(ns, digest string) string { return join(Specs, ns, digest) }

// TaskKey is the key of a task.
func TaskKey(ns, id string) string { return join(Tasks, ns, id) }

// JobKey is the key of a job.
func JobKey(ns, id string) string { return join(Jobs, ns, id) }

// ReservationKey is the key of a reservation.
func ReservationKey(ns, id string) string { return join(Reservations, ns, id) }

// PoliciesKey is the key of the policies of a job, or of some that jobs share.
func PoliciesKey(ns, id string) string { return join(Policies, ns, id) }

// GrantKey is the key of a reservation as granted.
func GrantKey(ns, id string) string { return join(Grants, ns, id) }

// AllocatedKey is the key of the amounts in use on a node.
func AllocatedKey(node string) string { return join(Allocated, node) }

// PoolKey is the key of the amount in use of a cluster-wide resource.
func PoolKey(ns, name string) string { return join(Allocated, "*", ns, name) }

// BindingKey is the key of one attempt of a task on a node.
func BindingKey(node, ns, id string, attempt int) string {
	return join(Bindings, node, ns, id, strconv.Itoa(attempt))
}

// ReportKey is the key of an agent's report about a binding.
func ReportKey(node, ns, id string, attempt int) string {
	return join(Reports, node, ns, id, strconv.Itoa(attempt))
}

// ProvidedKey is the key of a resource that an ended task left on a node.
func ProvidedKey(ns, name, node string) string { return join(Provided, ns, name, node) }

// StatusKey is the key of the status of a task.
func StatusKey(ns, id string) string { return join(Statuses, ns, id) }

// HistoryKey is the key of the past runs of the jobs of a name.
func HistoryKey(ns, name string) string { return join(Histories, ns, name) }

// RightKey is the key of a right.
func RightKey(name string) string { return join(Rights, name) }

// CredentialKey is the key of a credential.
func CredentialKey(id string) string { return join(Credentials, id) }

// SecretKey is the key of a secret.
func SecretKey(ns, name string) string { return join(Secrets, ns, name) }

// SchedulerKey is the key of a live scheduler.
func SchedulerKey(name string) string { return join(Schedulers, name) }

// LeaderKey is the key of a role that one process at a time holds.
func LeaderKey(role string) string { return join(Leaders, role) }

// AdmissionKey is the key that exists while admission is closed.
func AdmissionKey() string { return join(System, "admission") }

// ClusterKey is the key of the cluster's id.
func ClusterKey() string { return join(System, "cluster") }

// EpochKey is the key of the epoch, which changes with every restore.
func EpochKey() string { return join(System, "epoch") }

// ProgressKey is the key of etcd's last recorded index.
func ProgressKey() string { return join(System, "progress") }

// Parse is the inverse of the functions above. ok is false for any other text, including one with a
// segment that is no name: Escher neither writes nor reads such a key.
func Parse(key string) (k Key, ok bool) {
	rest, ok := strings.CutPrefix(key, Root)
	if !ok {
		return Key{}, false
	}
	kind, rest, _ := strings.Cut(rest, "/")
	k.Kind = Kind(kind)
	var seg [4]string
	n := 0
	for more := true; more; n++ {
		if n == len(seg) {
			return Key{}, false
		}
		seg[n], rest, more = strings.Cut(rest, "/")
		if !isPart(k.Kind, n, seg[n]) {
			return Key{}, false
		}
	}
	return k.fill(seg, n)
}

// isPart reports whether a text may be the n-th segment after a kind.
func isPart(kind Kind, n int, text string) bool {
	switch {
	case types.IsName(text):
		return true
	case text == types.EveryNode, text == types.ClusterWide:
		return kind == Resources && n == 2 || kind == Allocated && n == 0
	case kind == Specs && n == 1: // a digest
		return len(text) == 64 && types.IsName(text[:32]) && types.IsName(text[32:])
	}
	return false
}

// fill sets the fields of k from the n segments after its kind.
func (k Key) fill(seg [4]string, n int) (Key, bool) {
	switch k.Kind {
	case Nodes, Devices, Alive, Tokens, Cordons:
		k.Node = seg[0]
		return k, n == 1
	case Allocated:
		if n == 3 && seg[0] == "*" {
			k.Where, k.Namespace, k.Name = seg[0], seg[1], seg[2]
			return k, true
		}
		k.Node = seg[0]
		return k, n == 1
	case Namespaces, Admissions:
		k.Namespace = seg[0]
		return k, n == 1
	case Schedulers, Leaders, System, Rights, Credentials:
		k.ID = seg[0]
		return k, n == 1
	case Sessions, Specs, Tasks, Jobs, Reservations, Policies, Grants, Statuses, Histories, Secrets:
		k.Namespace, k.ID = seg[0], seg[1]
		return k, n == 2
	case Resources:
		k.Namespace, k.Name, k.Where = seg[0], seg[1], seg[2]
		return k, n == 3
	case Provided:
		k.Namespace, k.Name, k.Node = seg[0], seg[1], seg[2]
		return k, n == 3
	case Bindings, Reports:
		k.Node, k.Namespace, k.ID = seg[0], seg[1], seg[2]
		attempt, err := strconv.Atoi(seg[3])
		k.Attempt = attempt
		return k, n == 4 && err == nil && attempt > 0 && strconv.Itoa(attempt) == seg[3]
	}
	return Key{}, false
}

// String is the inverse of Parse.
func (k Key) String() string {
	switch k.Kind {
	case Nodes, Devices, Alive, Tokens, Cordons:
		return join(k.Kind, k.Node)
	case Allocated:
		if k.Where != "" {
			return PoolKey(k.Namespace, k.Name)
		}
		return AllocatedKey(k.Node)
	case Namespaces, Admissions:
		return join(k.Kind, k.Namespace)
	case Schedulers, Leaders, System, Rights, Credentials:
		return join(k.Kind, k.ID)
	case Resources:
		return ResourceKey(k.Namespace, k.Name, k.Where)
	case Provided:
		return ProvidedKey(k.Namespace, k.Name, k.Node)
	case Bindings, Reports:
		return join(k.Kind, k.Node, k.Namespace, k.ID, strconv.Itoa(k.Attempt))
	}
	return join(k.Kind, k.Namespace, k.ID)
}
