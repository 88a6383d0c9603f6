// Package rights says what a role may do. It is pure: package api/access applies it to requests.
package rights

import (
	"fmt"
	"slices"
	"strings"
)

// Verb is a way to use objects.
type Verb string

// The verbs.
const (
	// Read lists, describes, explains and follows objects.
	Read Verb = "read"
	// Write creates, changes, stops and removes objects.
	Write Verb = "write"
	// Enter runs commands in containers, connects to their ports, and reads and writes their files: it
	// gives all that the task has.
	Enter Verb = "enter"
)

// Kind is a kind of objects.
type Kind string

// The kinds. Nodes, Images, Bindings and Audit belong to the cluster; others belong to a namespace, or
// to the cluster with all namespaces.
const (
	Tasks        Kind = "tasks"
	Jobs         Kind = "jobs"
	Resources    Kind = "resources"
	Reservations Kind = "reservations"
	Policies     Kind = "policies"
	// Secrets are read by their names: no right gives their values.
	Secrets    Kind = "secrets"
	Logs       Kind = "logs"
	State      Kind = "state"
	History    Kind = "history"
	Namespaces Kind = "namespaces"
	Nodes      Kind = "nodes"
	Images     Kind = "images"
	Audit      Kind = "audit"
	// Bindings are what schedulers decide: the right to write them makes a scheduler.
	Bindings Kind = "bindings"
	// Grants are rights themselves, and Tokens the credentials of users and programs.
	Grants Kind = "rights"
	Tokens Kind = "tokens"
	// Users are the users of tasks: to write them is to submit tasks for other users.
	Users Kind = "users"
)

// Verbs and Kinds list all verbs and kinds.
func Verbs() []Verb { return []Verb{Read, Write, Enter} }

// Kinds lists all kinds.
func Kinds() []Kind {
	return append(work(), State, History, Logs, Namespaces, Nodes, Images, Bindings, Audit, Grants, Tokens, Users)
}

// work are the kinds of objects that applications make.
func work() []Kind { return []Kind{Tasks, Jobs, Resources, Reservations, Policies, Secrets} }

// Need is what an operation needs: to use objects of a kind in a way.
type Need struct {
	Verb Verb
	Kind Kind
}

// String returns the need in words, such as "write tasks".
func (n Need) String() string { return string(n.Verb) + " " + string(n.Kind) }

// ParseNeed parses what String returns. The error says which words there are.
func ParseNeed(text string) (Need, error) {
	verb, kind, _ := strings.Cut(text, " ")
	n := Need{Verb(verb), Kind(kind)}
	if !slices.Contains(Verbs(), n.Verb) || !slices.Contains(Kinds(), n.Kind) {
		return Need{}, fmt.Errorf("%.40q is no right: write a verb and a kind, such as \"read tasks\"; verbs are %s, kinds are %s", text, join(Verbs()), join(Kinds()))
	}
	return n, nil
}

// Role is a set of needs with a name.
type Role string

// The roles. Each has the rights of those before it.
const (
	// Viewer reads the objects of namespaces, with the output of tasks.
	Viewer Role = "viewer"
	// Member also makes and changes them, and enters containers.
	Member Role = "member"
	// Operator also changes nodes and images, and checks the invariants, if it is one of the cluster.
	Operator Role = "operator"
	// Administrator also gives rights and tokens, and sets quotas.
	Administrator Role = "administrator"
)

// Roles lists the roles, the least powerful first.
func Roles() []Role { return []Role{Viewer, Member, Operator, Administrator} }

// ParseRole returns the role of a name. The error says which there are.
func ParseRole(name string) (Role, error) {
	if r := Role(name); slices.Contains(Roles(), r) {
		return r, nil
	}
	return "", fmt.Errorf("%.40q is no role: use %s", name, join(Roles()))
}

// Choices returns the names of the roles.
func (Role) Choices() []string {
	names := make([]string, 0, len(Roles()))
	for _, r := range Roles() {
		names = append(names, string(r))
	}
	return names
}

// Allows reports whether the role includes a need.
func (r Role) Allows(n Need) bool {
	switch r {
	case Administrator:
		return true
	case Operator:
		return Member.Allows(n) || n.Verb == Write && (n.Kind == Nodes || n.Kind == Images) ||
			n.Verb == Read && (n.Kind == Images || n.Kind == Audit)
	case Member:
		return Viewer.Allows(n) || n.Verb == Write && slices.Contains(work(), n.Kind) || n == Need{Enter, Tasks}
	case Viewer:
		return n.Verb == Read && (slices.Contains(work(), n.Kind) || slices.Contains([]Kind{Logs, State, History, Namespaces, Nodes}, n.Kind))
	}
	return false
}

// Open reports whether a need is about facts of the cluster that every namespace may know: a right in
// any namespace includes it.
func (n Need) Open() bool { return n == Need{Read, Nodes} }

// Clusterwide reports whether objects of the kind belong to no namespace.
func (k Kind) Clusterwide() bool { return slices.Contains([]Kind{Nodes, Images, Bindings, Audit}, k) }

func join[T ~string](all []T) string {
	words := make([]string, len(all))
	for i, x := range all {
		words[i] = string(x)
	}
	return strings.Join(words, ", ")
}
