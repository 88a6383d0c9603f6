package types

import (
	"cmp"
	"slices"
	"strings"

	"github.com/escher-sched/escher/types/wire"
)

// Namespace holds an administrator's settings for all tasks of a namespace.
type Namespace struct {
	Extra
	// Requests are added to every task and every bundle of the namespace. Full ids, such as
	// admin:slots, name pools that the namespace itself cannot write.
	Requests Requests
	// Quotas draw one unit from a pool for each requested unit of a physical resource.
	Quotas []Quota
	// Budget bounds the use of its applications; nil means the built-in defaults.
	Budget *Budget
	// Defaults are the cpu, memory and disk of a task that requests none of it. A task that draws
	// on a reservation has no defaults.
	Defaults Requests
	// Pids is the limit of processes and threads of a task whose spec has none; 0 means the node's
	// default.
	Pids int
	// Policies are shared policies of other namespaces in which its jobs may take part.
	Policies []NamespacePolicy
}

func (n *Namespace) fields(w *wire.Pass) {
	wire.List(w, 2, (*[]Request)(&n.Requests), (*Request).fields)
	wire.List(w, 3, &n.Quotas, (*Quota).fields)
	wire.Optional(w, 4, &n.Budget, (*Budget).fields)
	wire.List(w, 5, (*[]Request)(&n.Defaults), (*Request).fields)
	wire.Integer(w, 6, &n.Pids)
	wire.List(w, 7, &n.Policies, (*NamespacePolicy).fields)
}

// NamespacePolicy is a shared policy of another namespace.
type NamespacePolicy struct {
	// Name has its namespace: org:lab.
	Name string
	// Required reports whether each job of the namespace takes part.
	Required bool
}

func (p *NamespacePolicy) fields(w *wire.Pass) {
	wire.Text(w, 2, &p.Name)
	w.Boolean(3, &p.Required)
}

// Quota makes requests of Resource draw on Pool, a cluster-wide resource.
type Quota struct {
	Resource ResourceID
	Pool     ResourceID
	// Amount is the capacity of the pool, if an administrator gave the quota as an amount.
	Amount Quantity
}

func (q *Quota) fields(w *wire.Pass) {
	wire.Text(w, 2, &q.Resource)
	wire.Text(w, 3, &q.Pool)
	wire.Integer(w, 4, &q.Amount)
}

// Missing returns the defaults that apply to a task with these requests. n may be nil.
func (n *Namespace) Missing(requests Requests) Requests {
	if n == nil || len(n.Defaults) == 0 || slices.ContainsFunc(requests, func(r Request) bool { return strings.Contains(r.Name, "@") }) {
		return nil
	}
	var out Requests
	for _, d := range n.Defaults {
		if requests.Get(d.Name) == 0 {
			out = append(out, d)
		}
	}
	return out
}

// Budget bounds what the applications of a namespace may use of the cluster's store. 0 means the
// built-in default.
type Budget struct {
	// Keys bounds the number of stored keys of the namespace, and Bytes their size with their
	// values.
	Keys, Bytes int64
	// Pending bounds its tasks without a node.
	Pending int64
	// Priority bounds the priority of its tasks and reservations; nil means MaxPriority.
	Priority *Ceiling
	// NoAccumulate forbids its tasks and reservations to accumulate.
	NoAccumulate bool
	// Requests bounds the requests a second through the sockets of its tasks, and Watches their
	// open watches, on each node.
	Requests, Watches int64
}

func (b *Budget) fields(w *wire.Pass) {
	wire.Integer(w, 2, &b.Keys)
	wire.Integer(w, 3, &b.Bytes)
	wire.Integer(w, 4, &b.Pending)
	wire.Optional(w, 5, &b.Priority, (*Ceiling).fields)
	w.Boolean(6, &b.NoAccumulate)
	wire.Integer(w, 7, &b.Requests)
	wire.Integer(w, 8, &b.Watches)
}

// Ceiling is the highest priority of a namespace.
type Ceiling struct{ Max int }

func (c *Ceiling) fields(w *wire.Pass) { wire.Integer(w, 2, &c.Max) }

// Allowed returns the budget of a namespace, with built-in defaults for the numbers that are not
// set. A nil Namespace has all defaults.
func (n *Namespace) Allowed() Budget {
	var b Budget
	if n != nil && n.Budget != nil {
		b = *n.Budget
	}
	b.Keys, b.Bytes, b.Pending = cmp.Or(b.Keys, DefaultKeys), cmp.Or(b.Bytes, DefaultBytes), cmp.Or(b.Pending, DefaultPending)
	b.Requests, b.Watches = cmp.Or(b.Requests, DefaultRequests), cmp.Or(b.Watches, DefaultWatches)
	if b.Priority == nil {
		b.Priority = &Ceiling{MaxPriority}
	}
	return b
}

// Validate checks the settings of a namespace.
func (n *Namespace) Validate() error {
	var p problems
	if p.count("requests", len(n.Requests), MaxRequests) {
		for _, x := range n.Requests {
			at := "requests." + shorten(x.Name)
			p.add(ResourceID(x.Name).validate(at), validateAmount(at, x))
		}
	}
	if p.count("quotas", len(n.Quotas), MaxQuotas) {
		for i, q := range n.Quotas {
			p.add(q.Resource.validate(index("quotas", i)+".resource"), q.Pool.validate(index("quotas", i)+".pool"))
			within(&p, index("quotas", i)+".amount", q.Amount, 0, MaxQuantity)
		}
	}
	if p.count("defaults", len(n.Defaults), len(defaulted())) {
		for _, x := range n.Defaults {
			at := "defaults." + shorten(x.Name)
			if !slices.Contains(defaulted(), ResourceID(x.Name)) {
				p.add(Errorf(Invalid, "%s: only cpu, memory and disk have defaults: leave it out", at))
			}
			p.add(validateAmount(at, x))
		}
	}
	within(&p, "pids", n.Pids, 0, MaxPids)
	if p.count("policies", len(n.Policies), MaxPolicies) {
		for i, x := range n.Policies {
			if id := ResourceID(x.Name); id.Physical() || id.Scoped() {
				p.add(Errorf(Invalid, "%s: %q is no shared policy with its namespace: write it like org:lab", index("policies", i), shorten(x.Name)))
			} else {
				p.add(id.validate(index("policies", i)))
			}
		}
	}
	if b := n.Budget; b != nil {
		within(&p, "budget.keys", b.Keys, 0, MaxBudget)
		within(&p, "budget.bytes", b.Bytes, 0, MaxBudget)
		within(&p, "budget.pending", b.Pending, 0, MaxBudget)
		within(&p, "budget.requests", b.Requests, 0, MaxRate)
		within(&p, "budget.watches", b.Watches, 0, MaxRate)
		if b.Priority != nil {
			within(&p, "budget.priority", b.Priority.Max, -MaxPriority, MaxPriority)
		}
	}
	return p.err()
}

// defaulted returns the resources for which a namespace may set defaults.
func defaulted() []ResourceID { return []ResourceID{CPU, Memory, Disk} }
