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

// rule says what it takes to use the keys of a kind. In reads and writes of keys with a namespace, the
// need is one in that namespace; the cluster includes all.
type rule struct {
	// read is the need to read them; nil: only an agent reads its own, or nobody.
	read *rights.Need
	// write is the need to be the application or administrator that package writers names.
	write *rights.Need
}

// rules returns the rule of each kind of keys. A kind without one is served to nobody: servers alone
// read the rights, and whoever manages those uses the HTTP API.
func rules() map[controlplane.Kind]rule {
	reads := func(k rights.Kind) *rights.Need { return &rights.Need{Verb: rights.Read, Kind: k} }
	writes := func(k rights.Kind) *rights.Need { return &rights.Need{Verb: rights.Write, Kind: k} }
	work := func(k rights.Kind) rule { return rule{reads(k), writes(k)} }
	return map[controlplane.Kind]rule{
		controlplane.Nodes:        work(rights.Nodes),
		controlplane.Devices:      work(rights.Nodes),
		controlplane.Alive:        {read: reads(rights.Nodes)},
		controlplane.Cordons:      work(rights.Nodes),
		controlplane.Allocated:    work(rights.Nodes), // without what others hold: see redact
		controlplane.Tokens:       {},
		controlplane.Namespaces:   work(rights.Namespaces),
		controlplane.Admissions:   {read: reads(rights.Namespaces)},
		controlplane.Resources:    work(rights.Resources),
		controlplane.Sessions:     work(rights.Resources),
		controlplane.Provided:     work(rights.Resources),
		controlplane.Specs:        work(rights.Tasks),
		controlplane.Tasks:        work(rights.Tasks),
		controlplane.Statuses:     work(rights.Tasks),
		controlplane.Jobs:         work(rights.Jobs),
		controlplane.Reservations: work(rights.Reservations),
		controlplane.Grants:       {read: reads(rights.Reservations)},
		controlplane.Policies:     work(rights.Policies),
		controlplane.Histories:    {read: reads(rights.History)},
		controlplane.Bindings:     {read: reads(rights.Tasks)},
		controlplane.Reports:      {read: reads(rights.Tasks)},
		controlplane.Schedulers:   {read: reads(rights.Bindings)},
		controlplane.Leaders:      {read: reads(rights.Bindings)},
		controlplane.System:       {read: reads(rights.Nodes)},
	}
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
	bound func(ctx context.Context, node, ns string) bool
	rules map[controlplane.Kind]rule
	table map[controlplane.Kind]writers.Access
}

// reads returns nil if the user may read a key. Denied: it may not.
func (u user) reads(ctx context.Context, k controlplane.Key) error {
	if k.Kind == controlplane.Leaders && k.ID != grantRole {
		return u.denied("read", k.String())
	}
	return u.sees(ctx, k.Kind, k.Namespace, k.Node, k.String())
}

// sees returns nil if the user may read the keys of a kind in a namespace, or of a node; empty means all.
func (u user) sees(ctx context.Context, kind controlplane.Kind, ns, node, what string) error {
	if kind == controlplane.Allocated && ns != "" {
		kind = controlplane.Resources // a pool is a resource of its namespace
	}
	r, known := u.rules[kind]
	switch {
	case known && u.node != "":
		if u.agentSees(ctx, kind, ns, node) {
			return nil
		}
	case known && r.read != nil:
		return u.May(*r.read, ns)
	}
	return u.denied("read", what)
}

// agentSees reports whether the agent of a node may read keys: those of its node, facts of the cluster,
// and those of the namespaces whose tasks are bound to it.
func (u user) agentSees(ctx context.Context, kind controlplane.Kind, ns, node string) bool {
	switch kind {
	case controlplane.Nodes, controlplane.Devices, controlplane.Alive, controlplane.Cordons, controlplane.System:
		return true
	case controlplane.Allocated:
		if ns == "" {
			return node != ""
		}
	case controlplane.Tokens:
		return node == u.node
	case controlplane.Bindings, controlplane.Reports:
		if node == u.node {
			return true
		}
	case controlplane.Schedulers, controlplane.Leaders:
		return false
	}
	return ns != "" && u.bound(ctx, u.node, ns)
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
		if err := u.writes(ctx, w, k); err == nil {
			return nil
		} else if why == nil && u.node == "" {
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
	need := u.rules[k.Kind].write
	switch w {
	case writers.Agent:
		if u.node != "" && k.Node == u.node {
			return nil
		}
	case writers.Application:
		switch {
		case u.node != "":
			if k.Namespace != "" && u.bound(ctx, u.node, k.Namespace) {
				return nil
			}
		case need != nil:
			return u.May(*need, k.Namespace)
		}
	case writers.Scheduler:
		if u.node == "" && (k.Kind != controlplane.Leaders || k.ID == grantRole) {
			return u.May(rights.Need{Verb: rights.Write, Kind: rights.Bindings}, "")
		}
	case writers.Administrator:
		if u.node == "" && need != nil {
			return u.May(*need, "")
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
	// redacts reports whether values lose what belongs to namespaces that the user may not read.
	redacts bool
}

// whole reports whether the user sees everything.
func (v view) whole() bool { return v.visible == nil && !v.redacts }

// views returns what the user sees of a span. Denied: it sees nothing of it.
func (u user) views(ctx context.Context, s span, what string) (view, error) {
	everything := u.node == "" && u.May(rights.Need{Verb: rights.Read, Kind: rights.Resources}, "") == nil
	v := view{redacts: (s.kind == controlplane.Allocated || s.kind == "") && !everything}
	switch {
	case s.single():
		return v, u.reads(ctx, s.key)
	case s.kind == "":
		return u.all(ctx, v)
	}
	ns, node := s.where()
	err := u.sees(ctx, s.kind, ns, node, what)
	switch {
	case err != nil && (ns != "" || !u.somewhere(s.kind)):
		return v, err
	case err == nil && s.kind != controlplane.Leaders && (s.kind != controlplane.Allocated || everything || ns != ""):
		return v, nil
	}
	// Of some keys more is asked than of the range.
	v.visible = func(k controlplane.Key) bool { return u.reads(ctx, k) == nil }
	return v, nil
}

// all returns what the user sees of all keys. Denied: it has no right at all.
func (u user) all(ctx context.Context, v view) (view, error) {
	if !u.Somewhere(rights.Need{Verb: rights.Read, Kind: rights.Nodes}) && u.node == "" {
		return v, u.denied("read", controlplane.Root)
	}
	v.visible = func(k controlplane.Key) bool { return u.reads(ctx, k) == nil }
	v.kinds = make(map[controlplane.Kind]bool)
	for kind := range u.rules {
		if kind != controlplane.Leaders && (kind != controlplane.Allocated || !v.redacts) {
			v.kinds[kind] = u.sees(ctx, kind, "", "", "") == nil
		}
	}
	return v, nil
}

// somewhere reports whether the user may read keys of a kind with a namespace in one namespace at least.
func (u user) somewhere(kind controlplane.Kind) bool {
	if !slices.Contains(namespaced(), kind) {
		return false
	}
	return u.node != "" || u.rules[kind].read != nil && u.Somewhere(*u.rules[kind].read)
}

// namespaced lists the kinds whose keys have a namespace.
func namespaced() []controlplane.Kind {
	return []controlplane.Kind{
		controlplane.Admissions, controlplane.Bindings, controlplane.Grants, controlplane.Histories, controlplane.Jobs, controlplane.Namespaces, controlplane.Policies, controlplane.Provided,
		controlplane.Reports, controlplane.Reservations, controlplane.Resources, controlplane.Sessions, controlplane.Specs, controlplane.Statuses, controlplane.Tasks,
	}
}

// redact returns the value of a key without what belongs to namespaces that the user may not read; nil
// if it is unreadable.
func (u user) redact(ctx context.Context, value []byte) []byte {
	var a types.Allocated
	if types.Decode(value, &a) != nil {
		return nil
	}
	kept := slices.DeleteFunc(slices.Clone(a.Holds), func(h types.Holding) bool {
		ns, _, _ := h.Resource.Split()
		return ns != "" && u.sees(ctx, controlplane.Resources, ns, "", "") != nil
	})
	if len(kept) == len(a.Holds) {
		return value
	}
	a.Holds = kept
	return types.Encode(types.Batch(value), &a)
}
