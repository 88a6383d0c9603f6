package access

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// readable returns the kind of objects that the keys of each kind are about. No right gives keys of another
// kind: they hold secrets, or are of servers alone.
func readable() map[controlplane.Kind]rights.Kind {
	return map[controlplane.Kind]rights.Kind{
		controlplane.Nodes: rights.Nodes, controlplane.Devices: rights.Nodes, controlplane.Alive: rights.Nodes,
		controlplane.Cordons: rights.Nodes, controlplane.System: rights.Nodes, controlplane.Allocated: rights.State,
		controlplane.Schedulers: rights.Nodes, controlplane.Leaders: rights.Nodes,
		controlplane.Namespaces: rights.Namespaces, controlplane.Admissions: rights.Namespaces,
		controlplane.Resources: rights.Resources, controlplane.Provided: rights.Resources, controlplane.Sessions: rights.Resources,
		controlplane.Specs: rights.Tasks, controlplane.Tasks: rights.Tasks, controlplane.Statuses: rights.Tasks,
		controlplane.Bindings: rights.Tasks, controlplane.Reports: rights.Tasks,
		controlplane.Jobs: rights.Jobs, controlplane.Histories: rights.Jobs, controlplane.Policies: rights.Policies,
		controlplane.Reservations: rights.Reservations, controlplane.Grants: rights.Reservations,
	}
}

// Readable returns what it takes to read keys of each kind: in the namespace of the key or, without one, in
// any.
func Readable() map[controlplane.Kind]rights.Need {
	all := make(map[controlplane.Kind]rights.Need)
	for kind, of := range readable() {
		all[kind] = rights.Need{Verb: rights.Read, Kind: of}
	}
	return all
}

// Keys decides which stored keys a caller may read in a namespace: those of the namespace, those of the
// cluster that every namespace sees, and what is bound to nodes, for namespaces whose tasks it may read.
type Keys struct {
	caller Caller
	ns     string
	needs  map[controlplane.Kind]rights.Kind
}

// KeysOf returns what decides about the keys of a caller in a namespace.
func KeysOf(caller Caller, ns string) Keys { return Keys{caller, ns, readable()} }

// may returns nil if the caller may read keys of a kind. Denied: it may not.
func (k Keys) may(kind controlplane.Kind) error {
	need, known := k.needs[kind]
	if !known {
		return types.Errorf(types.Denied, "keys: no right gives %s: read another kind", types.Cut(string(kind), types.MaxName))
	}
	return k.caller.May(rights.Need{Verb: rights.Read, Kind: need}, k.ns)
}

// rangeOf returns the prefix of the keys of a kind that the namespace sees; some of them may be of others.
func (k Keys) rangeOf(kind controlplane.Kind) string {
	switch kind {
	case controlplane.Nodes, controlplane.Devices, controlplane.Alive, controlplane.Cordons, controlplane.System,
		controlplane.Schedulers, controlplane.Leaders, controlplane.Allocated, controlplane.Bindings, controlplane.Reports:
		return controlplane.Prefix(kind)
	case controlplane.Namespaces, controlplane.Admissions:
		return controlplane.Prefix(kind) + k.ns
	}
	return controlplane.Prefix(kind, k.ns)
}

// Ranges returns the prefixes, sorted, below which the caller may read keys that begin with prefix. Denied:
// there are none.
func (k Keys) Ranges(prefix string) ([]string, error) {
	var out []string
	err := types.Errorf(types.Denied, "prefix: %q has no keys of namespace %s: begin with %s", types.Cut(prefix, types.MaxName), k.ns, controlplane.Root)
	for kind := range k.needs {
		within := k.rangeOf(kind)
		switch {
		case strings.HasPrefix(prefix, within):
			within = prefix
		case !strings.HasPrefix(within, prefix):
			continue
		}
		if denied := k.may(kind); denied != nil {
			err = denied
			continue
		}
		out = append(out, within)
	}
	if len(out) > 0 {
		err = nil
	}
	slices.Sort(out)
	return out, err
}

// May returns nil if the caller may read a key. Denied: it may not.
func (k Keys) May(key string) error {
	parsed, ok := controlplane.Parse(key)
	if parsed.Kind == controlplane.Bindings || parsed.Kind == controlplane.Reports {
		return k.caller.May(rights.Need{Verb: rights.Read, Kind: rights.Tasks}, parsed.Namespace) // those of a node are of many namespaces
	}
	if !ok || parsed.Namespace != "" && parsed.Namespace != k.ns {
		return types.Errorf(types.Denied, "key: %q is none of namespace %s: read it with the namespace that it belongs to", types.Cut(key, types.MaxName), k.ns)
	}
	return k.may(parsed.Kind)
}

// Value returns the value of a readable key as the caller may see it: see Redacted.
func (k Keys) Value(key string, value []byte) []byte {
	parsed, _ := controlplane.Parse(key)
	makes := k.caller.May(rights.Need{Verb: rights.Write, Kind: rights.Tasks}, k.ns) == nil
	return Redacted(parsed.Kind, value, func(ns string) bool { return ns == k.ns }, makes)
}

// Redacted returns the value of a key of a kind without the secrets of agents and servers and, for callers
// that do not make tasks, without the values of environment variables. What namespaces hold that the
// caller does not see is left out, too.
func Redacted(kind controlplane.Kind, value []byte, sees func(ns string) bool, makes bool) []byte {
	switch kind {
	case controlplane.Schedulers, controlplane.Leaders:
		return changed(value, func(l *types.Leader) { l.Address, l.Token = "", "" })
	case controlplane.Alive:
		return changed(value, func(a *types.Alive) { a.Token = "" })
	case controlplane.Allocated:
		return changed(value, func(a *types.Allocated) {
			a.Holds = slices.DeleteFunc(a.Holds, func(h types.Holding) bool {
				ns, _, _ := h.Resource.Split()
				return ns != "" && !sees(ns)
			})
		})
	case controlplane.Specs:
		if makes {
			return value
		}
		return changed(value, func(s *types.Spec) {
			for i, v := range s.Env {
				name, _, _ := strings.Cut(v, "=")
				s.Env[i] = name + "="
			}
		})
	}
	return value
}

// changed returns a value after a change; an unreadable one is empty, which no reader takes either.
func changed[T any, M interface {
	*T
	types.Message
}](value []byte, change func(M),
) []byte {
	m := M(new(T))
	if len(value) == 0 || types.Decode(value, m) != nil {
		return nil
	}
	change(m)
	return types.Encode(types.Batch(value), m)
}
