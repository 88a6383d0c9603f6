package access

import (
	"context"
	"crypto/x509"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane/submitter"
	"github.com/escher-sched/escher/nodeagent/serve/tasksocket"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// Identity is a user or a program, as a server has authenticated it.
type Identity struct {
	// Subject has the form user:NAME, service:NAME or node:NAME, and Groups are names of groups.
	Subject string
	Groups  []string
	// Token is the id of its credential; empty without one.
	Token string
	// key is the hash of the key of its certificate; empty without one.
	key string
	// Role and Namespaces bound its rights; empty means no bound.
	Role       rights.Role
	Namespaces []string
	// Expires is when it ends; zero means never.
	Expires time.Time
	// Task is the task that it is; nil if it is none.
	Task *tasksocket.Caller
	// Root reports whether it administers the machine of the server, and so has every right.
	Root bool
}

// Root returns the identity of an administrator of the machine of the server.
func Root(name string) Identity { return Identity{Subject: types.UserSubject + ":" + name, Root: true} }

// Owner names what the identity owns, such as its leases: a token with bounds has none of its subject's.
func (id Identity) Owner() string {
	if id.Role == "" && len(id.Namespaces) == 0 {
		return id.Subject
	}
	return id.Subject + " as " + string(id.Role) + " in " + strings.Join(id.Namespaces, ",")
}

// within reports whether the bounds of the identity include a need in a namespace; empty means the
// cluster.
func (id Identity) within(n rights.Need, ns string) bool {
	return (id.Role == "" || id.Role.Allows(n)) && (len(id.Namespaces) == 0 || covers(id.Namespaces, n, ns))
}

// subjects lists the subjects that the identity is: itself and its groups.
func (id Identity) subjects() []string {
	all := []string{id.Subject}
	for _, g := range id.Groups {
		all = append(all, types.GroupSubject+":"+g)
	}
	return all
}

// is reports whether the identity is one of some subjects.
func (id Identity) is(subjects []string) bool {
	return slices.ContainsFunc(id.subjects(), func(s string) bool { return slices.Contains(subjects, s) })
}

// covers reports whether a list of namespaces includes a need in a namespace; empty means the cluster.
func covers(namespaces []string, n rights.Need, ns string) bool {
	return n.Open() || slices.Contains(namespaces, types.Everywhere) || ns != "" && slices.Contains(namespaces, ns)
}

// shown is the key of the certificate in the context of a connection.
type shown struct{}

// Shows returns a context of requests on a connection whose client has shown a certificate of the
// cluster's authority.
func Shows(ctx context.Context, cert *x509.Certificate) context.Context {
	return context.WithValue(ctx, shown{}, cert)
}

// Shown returns the certificate that a client has shown; nil if it has none.
func Shown(ctx context.Context) *x509.Certificate {
	cert, _ := ctx.Value(shown{}).(*x509.Certificate)
	return cert
}

// caller is the key of the caller in a context.
type caller struct{}

// Caller is the identity of the sender of a request, with the function that decides about its rights.
type Caller struct {
	Identity
	// May returns nil if the caller may do something in a namespace; empty means the cluster. Denied:
	// it may not.
	May func(need rights.Need, ns string) error
	// Somewhere reports whether the caller may do something in some namespace or in the cluster.
	Somewhere func(need rights.Need) bool
}

// With returns a context of a request by a caller. What it submits counts for its name, unless it
// administers the machine of the server.
func With(ctx context.Context, c Caller) context.Context {
	switch _, name, _ := strings.Cut(c.Subject, ":"); {
	case c.Task != nil && c.Task.User == "":
	case c.Task != nil:
		ctx = submitter.With(ctx, submitter.Submitter{User: c.Task.User, ForOthers: func(string) error {
			return types.Errorf(types.Denied, "a task submits for its own user alone")
		}})
	case !c.Root:
		ctx = submitter.With(ctx, submitter.Submitter{User: name, ForOthers: func(ns string) error {
			return c.May(rights.Need{Verb: rights.Write, Kind: rights.Users}, ns)
		}})
	}
	return context.WithValue(ctx, caller{}, c)
}

// From returns the caller of a request. Without one, in tests and tools, it has every right.
func From(ctx context.Context) Caller {
	if c, ok := ctx.Value(caller{}).(Caller); ok {
		return c
	}
	return Caller{Identity: Root("root"), May: func(rights.Need, string) error { return nil }, Somewhere: func(rights.Need) bool { return true }}
}
