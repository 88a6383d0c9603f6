package manifest

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/quotas"
	"github.com/escher-sched/escher/types"
)

// Namespace has an administrator's settings for a namespace. A missing one means the built-in
// default.
type Namespace struct {
	Name     string           `json:"name" desc:"the namespace" is:"name"`
	Budget   *Budget          `json:"budget,omitempty" desc:"what its applications may use"`
	Defaults types.Requests   `json:"defaults,omitempty" desc:"cpu, memory and disk of each task that requests none of it"`
	Pids     int              `json:"pids,omitempty" desc:"how many processes and threads a task without its own limit may have; the node's default if it is left out" min:"0"`
	Requests types.Requests   `json:"requests,omitempty" desc:"what is added to the requests of each task" keys:"full-request"`
	Quotas   map[string]Quota `json:"quotas,omitempty" desc:"by resource, the most of it that its tasks may request together, such as 16; or the pool that requests of it draw on, with its namespace"`
	Policies map[string]Part  `json:"policies,omitempty" desc:"shared policies of other namespaces, as NAMESPACE:NAME: allowed, if its jobs may take part, or required, if each does" keys:"full-policy"`
}

// Part says whether jobs may take part in a shared policy of another namespace, or each does.
type Part string

const (
	PartAllowed  Part = "allowed"
	PartRequired Part = "required"
)

// Choices returns the parts.
func (Part) Choices() []string { return []string{string(PartAllowed), string(PartRequired)} }

// ValidateShared checks the name of a shared policy with its namespace, such as org:lab. Invalid: the
// error begins with the field.
func ValidateShared(field, name string) error {
	ns, id, ok := strings.Cut(name, ":")
	if !ok {
		return types.Errorf(types.Invalid, "%s: %q has no namespace: write it before the name, such as org:lab", field, types.Cut(name, types.MaxName))
	}
	if strings.Contains(name, "..") {
		return types.Errorf(types.Invalid, "%s: %q has two dots in a row: name another policy", field, types.Cut(name, types.MaxName))
	}
	return cmp.Or(types.ValidateName(field, ns), types.ValidateName(field, id))
}

// NewPolicies returns the stored form of parts by policy. Invalid: one is no part.
func NewPolicies(parts map[string]Part) (out []types.NamespacePolicy, err error) {
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		part := parts[name]
		if err := ValidateShared("policies."+types.Cut(name, types.MaxName), name); err != nil {
			return nil, err
		}
		if !slices.Contains(part.Choices(), string(part)) {
			return nil, types.Errorf(types.Invalid, "policies.%s: %q is unknown: write allowed, or required", types.Cut(name, types.MaxName), types.Cut(string(part), types.MaxName))
		}
		out = append(out, types.NamespacePolicy{Name: name, Required: part == PartRequired})
	}
	return out, nil
}

// PartsOf returns parts by policy; nil if there are none.
func PartsOf(policies []types.NamespacePolicy) map[string]Part {
	var out map[string]Part
	for _, p := range policies {
		if out == nil {
			out = make(map[string]Part)
		}
		if out[p.Name] = PartAllowed; p.Required {
			out[p.Name] = PartRequired
		}
	}
	return out
}

// Quota is an amount of a resource, or a pool with its namespace, as text.
type Quota string

// UnmarshalJSON decodes a text or a number.
func (q *Quota) UnmarshalJSON(text []byte) error { return (*types.Amount)(q).UnmarshalJSON(text) }

// Budget bounds the use of a namespace's applications. A missing or zero number means the built-in
// budget.
type Budget struct {
	Keys       int64        `json:"keys,omitempty" desc:"how many keys its tasks, jobs, resources and other objects may have" min:"0"`
	Bytes      types.Amount `json:"bytes,omitempty" desc:"how many bytes these keys and their values may have"`
	Pending    int64        `json:"pending,omitempty" desc:"how many of its tasks may wait" min:"0"`
	Requests   int64        `json:"requests,omitempty" desc:"how many requests a second its tasks may make through their sockets, on each node" min:"0"`
	Watches    int64        `json:"watches,omitempty" desc:"how many watches its tasks may have open, on each node" min:"0"`
	Priority   *int         `json:"priority,omitempty" desc:"the highest priority of its tasks and reservations"`
	Accumulate *bool        `json:"accumulate,omitempty" desc:"whether its tasks and reservations may accumulate"`
}

// Settings converts it to its stored form. Invalid: it cannot be set.
func (n *Namespace) Settings() (types.Namespace, error) {
	out := types.Namespace{Defaults: n.Defaults, Pids: n.Pids, Requests: n.Requests}
	var err error
	if out.Policies, err = NewPolicies(n.Policies); err != nil {
		return out, err
	}
	for _, resource := range slices.Sorted(maps.Keys(n.Quotas)) {
		q, err := quotas.Parse(n.Name, resource, string(n.Quotas[resource]))
		if err != nil {
			return out, err
		}
		out.Quotas = append(out.Quotas, q)
	}
	if b := n.Budget; b != nil {
		set := types.Budget{Keys: b.Keys, Pending: b.Pending, Requests: b.Requests, Watches: b.Watches}
		if b.Bytes != "" && b.Bytes != "0" {
			bytes, err := types.ParseQuantity(string(types.Memory), string(b.Bytes))
			if err != nil {
				return out, types.Errorf(types.Invalid, "budget.bytes: %w", err)
			}
			set.Bytes = int64(bytes)
		}
		if b.Priority != nil {
			set.Priority = &types.Ceiling{Max: *b.Priority}
		}
		if set.NoAccumulate = b.Accumulate != nil && !*b.Accumulate; set != (types.Budget{}) {
			out.Budget = &set
		}
	}
	return out, out.Validate()
}

// FromNamespace converts stored settings to a document, without its name.
func FromNamespace(n *types.Namespace) Namespace {
	out := Namespace{Defaults: n.Defaults, Pids: n.Pids, Requests: n.Requests, Policies: PartsOf(n.Policies)}
	for _, q := range n.Quotas {
		if out.Quotas == nil {
			out.Quotas = make(map[string]Quota)
		}
		out.Quotas[string(q.Resource)] = Quota(quotas.Text(q))
	}
	if n.Budget == nil {
		return out
	}
	out.Budget = &Budget{Keys: n.Budget.Keys, Pending: n.Budget.Pending, Requests: n.Budget.Requests, Watches: n.Budget.Watches}
	if n.Budget.Bytes != 0 {
		out.Budget.Bytes = types.Amount(types.Quantity(n.Budget.Bytes).Format(types.Memory))
	}
	if n.Budget.Priority != nil {
		out.Budget.Priority = &n.Budget.Priority.Max
	}
	if n.Budget.NoAccumulate {
		out.Budget.Accumulate = new(bool)
	}
	return out
}
