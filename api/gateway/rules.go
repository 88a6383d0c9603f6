package gateway

import (
	"context"
	"slices"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/writers"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// writable returns what it takes to write keys of each kind: as an application in the namespace of the key,
// or as an administrator in the cluster. Package writers has the roles that write each kind.
func writable() map[controlplane.Kind]rights.Need {
	all := make(map[controlplane.Kind]rights.Need)
	for kind, of := range map[controlplane.Kind]rights.Kind{
		controlplane.Nodes: rights.Nodes, controlplane.Devices: rights.Nodes, controlplane.Cordons: rights.Nodes, controlplane.Allocated: rights.Nodes,
		controlplane.Namespaces: rights.Namespaces,
		controlplane.Resources:  rights.Resources, controlplane.Sessions: rights.Resources, controlplane.Provided: rights.Resources,
		controlplane.Specs: rights.Tasks, controlplane.Tasks: rights.Tasks, controlplane.Statuses: rights.Tasks, controlplane.Jobs: rights.Jobs,
		controlplane.Reservations: rights.Reservations, controlplane.Policies: rights.Policies,
	} {
		all[kind] = rights.Need{Verb: rights.Write, Kind: of}
	}
	return all
}

// grantRole is the role that schedulers share; other leaders are servers.
const grantRole = "grant"

// user decides for the sender of a request.
type user struct {
	access.Caller
	// node is the node whose agent it is; empty if it is none.
	node string
	// bound reports whether a task of a namespace is bound to the node. Its agent then acts for the
	// applications of the namespace, by the sockets of the tasks.
	bound func(ctx context.Context, node, ns string) (bool, error)
	// namedBy returns the namespaces whose settings name a shared policy of another one; nil finds none.
	namedBy func(ctx context.Context, policy string) ([]string, error)
	// reading and writing are the needs for keys of each kind, and table has the roles that write them.
	reading, writing map[controlplane.Kind]rights.Need
	table            map[controlplane.Kind]writers.Access
}

// reads returns nil if the user may read a key. Denied: it may not.
func (u user) reads(ctx context.Context, k controlplane.Key) error {
	denied := u.sees(ctx, k.Kind, k.Namespace, k.Node, k.String())
	if !types.Is(denied, types.Denied) {
		return denied
	}
	takesPart, err := u.takesPart(ctx, k)
	if takesPart || err != nil {
		return err
	}
	return denied
}

// sees returns nil if the user may read the keys of a kind in a namespace, or of a node; empty means all.
func (u user) sees(ctx context.Context, kind controlplane.Kind, ns, node, what string) error {
	if kind == controlplane.Allocated && ns != "" {
		kind = controlplane.Resources // a pool is a resource of its namespace
	}
	need, known := u.reading[kind]
	switch {
	case u.node != "":
		sees, err := u.agentSees(ctx, kind, ns, node)
		if sees || err != nil {
			return err
		}
	case known && !namespaced(kind) && u.Somewhere(need):
		return nil // facts of the cluster
	case known:
		return u.May(need, ns)
	}
	return u.denied("read", what)
}

// agentSees reports whether the agent of a node may read keys: those of its node, facts of the cluster,
// and those of the namespaces whose tasks are bound to it.
func (u user) agentSees(ctx context.Context, kind controlplane.Kind, ns, node string) (bool, error) {
	switch kind {
	case controlplane.Nodes, controlplane.Devices, controlplane.Alive, controlplane.Cordons, controlplane.System:
		return true, nil
	case controlplane.Allocated:
		if ns == "" {
			return node != "", nil
		}
	case controlplane.Tokens:
		return node == u.node, nil
	case controlplane.Bindings, controlplane.Reports:
		if node == u.node {
			return true, nil
		}
	case controlplane.Schedulers, controlplane.Leaders, controlplane.Secrets:
		return false, nil
	}
	if ns == "" {
		return false, nil
	}
	return u.bound(ctx, u.node, ns)
}

// changes returns nil if the user may put or delete a key. Denied: it may not.
func (u user) changes(ctx context.Context, k controlplane.Key, deletes bool) error {
	a := u.table[k.Kind]
	by, verb := a.Put, "put"
	if deletes {
		by, verb = a.Delete, "delete"
	}
	var why error
	for _, w := range by {
		err := u.writes(ctx, w, k)
		if err == nil || !types.Is(err, types.Denied) {
			return err
		}
		if why == nil && u.node == "" {
			why = err
		}
	}
	if why == nil {
		why = u.denied(verb, k.String())
	}
	return why
}

// writes returns nil if the user is a writer of a key.
func (u user) writes(ctx context.Context, w writers.Writer, k controlplane.Key) error {
	need, known := u.writing[k.Kind]
	switch w {
	case writers.Agent:
		if u.node != "" && k.Node == u.node {
			return nil
		}
	case writers.Application:
		switch {
		case u.node != "":
			if k.Namespace == "" {
				break
			}
			if bound, err := u.bound(ctx, u.node, k.Namespace); bound || err != nil {
				return err
			}
		case known:
			return u.May(need, k.Namespace)
		}
	case writers.Scheduler:
		if u.node == "" && (k.Kind != controlplane.Leaders || k.ID == grantRole) {
			return u.May(rights.Need{Verb: rights.Write, Kind: rights.Bindings}, "")
		}
	case writers.Administrator:
		if u.node == "" && known {
			return u.May(need, "")
		}
	case writers.Server: // servers use etcd
	}
	return u.denied("change", k.String())
}

// denied is the error about keys that no right gives.
func (u user) denied(verb, what string) error {
	return types.Errorf(types.Denied, "%s: may not %s %s: connect as another subject, or use the HTTP API", u.Subject, verb, what)
}

// view decides which keys of a span the user sees, and what of them.
type view struct {
	// visible reports whether the user sees a key; nil means all. kinds are those of which it sees all.
	visible func(k controlplane.Key) bool
	kinds   map[controlplane.Kind]bool
	// redacts reports whether values may lose what the user may not see: see access.Redacted.
	redacts bool
}

// whole reports whether the user sees everything.
func (v view) whole() bool { return v.visible == nil && !v.redacts }

// redacts reports whether values of a kind may lose something.
func (u user) redacts(kind controlplane.Kind) bool {
	switch kind {
	case controlplane.Alive, controlplane.Leaders:
		return true
	case controlplane.Schedulers:
		return u.May(rights.Need{Verb: rights.Write, Kind: rights.Bindings}, "") != nil
	case controlplane.Allocated:
		return u.node != "" || u.May(u.reading[controlplane.Resources], "") != nil
	case controlplane.Specs:
		return u.node == "" && u.May(u.writing[controlplane.Specs], "") != nil
	}
	return false
}

// views returns what the user sees of a span. Denied: it sees nothing of it.
func (u user) views(ctx context.Context, s span, what string) (view, error) {
	v := view{redacts: s.kind == "" || u.redacts(s.kind)}
	switch {
	case s.single():
		own := u.node != "" && s.key.Node == u.node
		own = own || s.kind == controlplane.Leaders && s.key.ID == grantRole && !u.redacts(controlplane.Schedulers)
		v.redacts = v.redacts && !own
		return v, u.reads(ctx, s.key)
	case s.kind == "":
		return u.all(ctx, v)
	}
	ns, node := s.where()
	err := u.sees(ctx, s.kind, ns, node, what)
	switch {
	case err != nil && (ns != "" || !u.somewhere(s.kind) || !types.Is(err, types.Denied)):
		return v, err
	case err == nil && (s.kind != controlplane.Allocated || !v.redacts || ns != ""):
		return v, nil
	}
	// Of some keys more is asked than of the range.
	v.visible = func(k controlplane.Key) bool { return u.reads(ctx, k) == nil }
	return v, nil
}

// all returns what the user sees of all keys. Denied: it has no right at all.
func (u user) all(ctx context.Context, v view) (view, error) {
	if u.node == "" && !u.Somewhere(u.reading[controlplane.Nodes]) {
		return v, u.denied("read", controlplane.Root)
	}
	v.visible = func(k controlplane.Key) bool { return u.reads(ctx, k) == nil }
	v.kinds = make(map[controlplane.Kind]bool)
	for kind := range u.reading {
		v.kinds[kind] = !u.redacts(kind) && u.sees(ctx, kind, "", "", "") == nil
	}
	return v, nil
}

// somewhere reports whether the user may read keys of a kind with a namespace in one namespace at least.
func (u user) somewhere(kind controlplane.Kind) bool {
	need, known := u.reading[kind]
	return namespaced(kind) && (u.node != "" || known && u.Somewhere(need))
}

// namespaced reports whether each key of a kind has a namespace.
func namespaced(kind controlplane.Kind) bool {
	return slices.Contains([]controlplane.Kind{
		controlplane.Admissions, controlplane.Bindings, controlplane.Grants, controlplane.Histories, controlplane.Jobs, controlplane.Namespaces, controlplane.Policies, controlplane.Provided,
		controlplane.Reports, controlplane.Reservations, controlplane.Resources, controlplane.Sessions, controlplane.Specs, controlplane.Statuses, controlplane.Tasks,
	}, kind)
}

// redact returns the value of a key as the user may see it.
func (u user) redact(ctx context.Context, key, value []byte) []byte {
	k, _ := controlplane.Parse(string(key))
	makes := u.node != "" || u.May(u.writing[controlplane.Specs], k.Namespace) == nil
	return access.Redacted(k.Kind, value, func(ns string) bool { return u.sees(ctx, controlplane.Resources, ns, "", "") == nil }, makes)
}
