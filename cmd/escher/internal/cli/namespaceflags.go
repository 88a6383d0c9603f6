package cli

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/types"
)

// namespaceFlags are the settings of a namespace as flags. Those that are not given change
// nothing.
type namespaceFlags struct {
	set                                     *pflag.FlagSet
	keys, pending, requestsASecond, watches int64
	bytes, cpu, memory                      string
	priority, pids                          int
	accumulate                              bool
	requests, quotas                        []string
}

func (n *namespaceFlags) add(cmd *cobra.Command) {
	n.set = cmd.Flags()
	n.set.Int64Var(&n.keys, "max-keys", 0, "how many keys its tasks, jobs, resources and all else may have; 0: the built-in default")
	n.set.StringVar(&n.bytes, "max-bytes", "", "how many bytes these keys and their values may have, such as 512Mi; 0: the built-in default")
	n.set.Int64Var(&n.pending, "max-pending", 0, "how many of its tasks may wait; 0: the built-in default")
	n.set.Int64Var(&n.requestsASecond, "max-requests", 0, "how many requests a second its task sockets on one node may make; 0: the built-in default")
	n.set.Int64Var(&n.watches, "max-watches", 0, "how many watches its task sockets on one node may have; 0: the built-in default")
	n.set.IntVar(&n.priority, "max-priority", types.MaxPriority, "the highest priority of its tasks and reservations")
	n.set.BoolVar(&n.accumulate, "accumulate", true, "let its tasks and reservations accumulate")
	n.set.StringVar(&n.cpu, "default-cpu", "", "cpu of tasks that request none, such as 500m; 0: none")
	n.set.StringVar(&n.memory, "default-memory", "", "memory of tasks that request none, such as 256Mi; 0: none")
	n.set.IntVar(&n.pids, "default-pids", 0, "processes of a task whose spec does not say; 0: what its node gives")
	n.set.StringArrayVar(&n.requests, "request", nil, "what each of its tasks requests besides its own requests, name=amount,…; none: nothing")
	n.set.StringArrayVar(&n.quotas, "quota", nil, "the pool that requests of a resource draw on, such as cpu=admin:cpus; repeat for several; none: no quotas")
}

// settings are the names of the flags.
func (n *namespaceFlags) settings() []string {
	return []string{
		"max-keys", "max-bytes", "max-pending", "max-requests", "max-watches", "max-priority", "accumulate",
		"default-cpu", "default-memory", "default-pids", "request", "quota",
	}
}

// given reports whether any setting is given.
func (n *namespaceFlags) given() bool {
	for _, name := range n.settings() {
		if n.set.Changed(name) {
			return true
		}
	}
	return false
}

// apply changes the settings that are given.
func (n *namespaceFlags) apply(ns *types.Namespace) error {
	b, d := new(types.Budget), new(types.Defaults)
	if ns.Budget != nil {
		*b = *ns.Budget
	}
	if ns.Defaults != nil {
		*d = *ns.Defaults
	}
	for name, to := range map[string]struct{ from, to *int64 }{
		"max-keys": {&n.keys, &b.Keys}, "max-pending": {&n.pending, &b.Pending},
		"max-requests": {&n.requestsASecond, &b.Requests}, "max-watches": {&n.watches, &b.Watches},
	} {
		if n.set.Changed(name) {
			*to.to = *to.from
		}
	}
	if n.set.Changed("max-priority") {
		b.Priority = &types.Ceiling{Max: n.priority}
	}
	if n.set.Changed("accumulate") {
		b.NoAccumulate = !n.accumulate
	}
	if n.set.Changed("default-pids") {
		d.Pids = n.pids
	}
	bytes := types.Quantity(b.Bytes)
	for _, a := range []struct {
		flag, text string
		of         types.ResourceID
		to         *types.Quantity
	}{
		{"max-bytes", n.bytes, types.Memory, &bytes},
		{"default-cpu", n.cpu, types.CPU, &d.CPU},
		{"default-memory", n.memory, types.Memory, &d.Memory},
	} {
		if err := n.amount(a.flag, a.text, a.of, a.to); err != nil {
			return err
		}
	}
	b.Bytes = int64(bytes)
	if ns.Budget = b; *b == (types.Budget{}) {
		ns.Budget = nil
	}
	if ns.Defaults = d; *d == (types.Defaults{}) {
		ns.Defaults = nil
	}
	return n.applyLists(ns)
}

// amount reads a flag that is an amount; 0 needs no unit.
func (n *namespaceFlags) amount(flag, text string, of types.ResourceID, to *types.Quantity) error {
	if !n.set.Changed(flag) {
		return nil
	}
	if text == "0" {
		*to = 0
		return nil
	}
	q, err := types.ParseQuantity(string(of), text)
	if err != nil {
		return types.Errorf(types.Invalid, "%s: %w", flag, err)
	}
	*to = q
	return nil
}

// applyLists changes requests and quotas, if they are given.
func (n *namespaceFlags) applyLists(ns *types.Namespace) error {
	if n.set.Changed("request") {
		ns.Requests = nil
		if len(n.requests) != 1 || n.requests[0] != "none" {
			requests, err := parseRequests("request", n.requests)
			if err != nil {
				return err
			}
			ns.Requests = requests
		}
	}
	if !n.set.Changed("quota") {
		return nil
	}
	ns.Quotas = nil
	if len(n.quotas) == 1 && n.quotas[0] == "none" {
		return nil
	}
	for _, text := range n.quotas {
		resource, pool, ok := strings.Cut(text, "=")
		if !ok {
			return types.Errorf(types.Invalid, "quota: %q is not resource=pool: write it like cpu=admin:cpus", text)
		}
		ns.Quotas = append(ns.Quotas, types.Quota{Resource: types.ResourceID(resource), Pool: types.ResourceID(pool)})
	}
	return nil
}
