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
	set              *pflag.FlagSet
	keys, pending    int64
	bytes            string
	priority         int
	accumulate       bool
	requests, quotas []string
}

func (n *namespaceFlags) add(cmd *cobra.Command) {
	n.set = cmd.Flags()
	n.set.Int64Var(&n.keys, "max-keys", 0, "how many keys its tasks, jobs, resources and all else may have; 0: the built-in default")
	n.set.StringVar(&n.bytes, "max-bytes", "", "how many bytes these keys and their values may have, such as 512Mi; 0: the built-in default")
	n.set.Int64Var(&n.pending, "max-pending", 0, "how many of its tasks may wait; 0: the built-in default")
	n.set.IntVar(&n.priority, "max-priority", types.MaxPriority, "the highest priority of its tasks and reservations")
	n.set.BoolVar(&n.accumulate, "accumulate", true, "let its tasks and reservations accumulate")
	n.set.StringArrayVar(&n.requests, "request", nil, "what each of its tasks requests besides its own requests, name=amount,…; none: nothing")
	n.set.StringArrayVar(&n.quotas, "quota", nil, "the pool that requests of a resource draw on, such as cpu=admin:cpus; repeat for several; none: no quotas")
}

// settings are the names of the flags.
func (n *namespaceFlags) settings() []string {
	return []string{
		"max-keys", "max-bytes", "max-pending", "max-priority", "accumulate", "request", "quota",
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
	var b types.Budget
	if ns.Budget != nil {
		b = *ns.Budget
	}
	if n.set.Changed("max-keys") {
		b.Keys = n.keys
	}
	if n.set.Changed("max-pending") {
		b.Pending = n.pending
	}
	if n.set.Changed("max-bytes") {
		b.Bytes = 0
		if n.bytes != "0" {
			q, err := types.ParseQuantity(string(types.Memory), n.bytes)
			if err != nil {
				return types.Errorf(types.Invalid, "max-bytes: %w", err)
			}
			b.Bytes = int64(q)
		}
	}
	if n.set.Changed("max-priority") {
		b.Priority = &types.Ceiling{Max: n.priority}
	}
	if n.set.Changed("accumulate") {
		b.NoAccumulate = !n.accumulate
	}
	if ns.Budget = &b; b == (types.Budget{}) {
		ns.Budget = nil
	}
	return n.applyLists(ns)
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
