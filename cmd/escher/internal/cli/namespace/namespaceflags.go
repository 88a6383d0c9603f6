package namespace

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/cmdutil"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/controlplane/quotas"
	"github.com/escher-sched/escher/types"
)

// namespaceFlags are the settings of a namespace as flags. A flag that is not given changes
// nothing.
type namespaceFlags struct {
	set *pflag.FlagSet
	// namespace is the name of the namespace.
	namespace        string
	keys, pending    int64
	rate, watches    int64
	bytes            string
	priority, pids   int
	accumulate       bool
	requests, quotas []string
	policies         []string
	defaults         []string
}

func (n *namespaceFlags) Add(cmd *cobra.Command) {
	n.set = cmd.Flags()
	n.set.Int64Var(&n.keys, "max-keys", 0, "most keys of its tasks, jobs, resources and other objects; 0: the built-in default")
	n.set.StringVar(&n.bytes, "max-bytes", "", "most bytes of its keys and their values, such as 512Mi; 0: the built-in default")
	n.set.Int64Var(&n.pending, "max-pending", 0, "most waiting tasks; 0: the built-in default")
	n.set.Int64Var(&n.rate, "max-requests", 0, "most requests a second of its tasks through their sockets, per node; 0: the built-in default")
	n.set.Int64Var(&n.watches, "max-watches", 0, "most open watches of its tasks, per node; 0: the built-in default")
	n.set.IntVar(&n.priority, "max-priority", types.MaxPriority, "the highest priority of its tasks and reservations")
	n.set.BoolVar(&n.accumulate, "accumulate", true, "let its tasks and reservations accumulate")
	n.set.StringArrayVar(&n.defaults, "default", nil, "requests of cpu, memory and disk for tasks without them, name=amount,…; none: no defaults")
	n.set.IntVar(&n.pids, "default-pids", 0, "most processes and threads of a task that does not say; 0: the default of its node")
	n.set.StringArrayVar(&n.requests, "request", nil, "requests added to each of its tasks, name=amount,…; none: no requests")
	n.set.StringArrayVar(&n.quotas, "quota", nil, "the most of a resource that its tasks may request together, such as gpu=16, or the pool that requests draw on, such as cpu=admin:cpus; repeat for several; none: no quotas")
	n.set.StringArrayVar(&n.policies, "policy", nil, "a shared policy of another namespace, such as org:lab=allowed, in which its jobs may take part, or org:lab=required, in which each does; repeat for several; none: no policies")
}

// settings are the names of the flags.
func (n *namespaceFlags) settings() []string {
	return []string{
		"max-keys", "max-bytes", "max-pending", "max-requests", "max-watches", "max-priority", "accumulate", "default", "default-pids", "request", "quota", "policy",
	}
}

// Given reports whether any setting is given.
func (n *namespaceFlags) Given() bool {
	for _, name := range n.settings() {
		if n.set.Changed(name) {
			return true
		}
	}
	return false
}

// apply changes the given settings.
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
	if n.set.Changed("max-requests") {
		b.Requests = n.rate
	}
	if n.set.Changed("max-watches") {
		b.Watches = n.watches
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

// applyLists changes defaults, requests and quotas, if they are given.
func (n *namespaceFlags) applyLists(ns *types.Namespace) error {
	if n.set.Changed("default-pids") {
		ns.Pids = n.pids
	}
	if err := n.vector("default", n.defaults, &ns.Defaults); err != nil {
		return err
	}
	if err := n.vector("request", n.requests, &ns.Requests); err != nil {
		return err
	}
	if n.set.Changed("policy") {
		if err := n.applyPolicies(ns); err != nil {
			return err
		}
	}
	if n.set.Changed("quota") {
		return n.applyQuotas(ns)
	}
	return nil
}

// isNone reports whether the values of a flag are the word none alone.
func isNone(texts []string) bool { return len(texts) == 1 && texts[0] == "none" }

// applyPolicies changes the shared policies of other namespaces.
func (n *namespaceFlags) applyPolicies(ns *types.Namespace) (err error) {
	ns.Policies = nil
	if isNone(n.policies) {
		return nil
	}
	parts := make(map[string]manifest.Part)
	for _, text := range n.policies {
		name, part, ok := strings.Cut(text, "=")
		if !ok {
			return types.Errorf(types.Invalid, "policy: %q is not namespace:name=allowed, nor =required: write it like org:lab=required", text)
		}
		if err := manifest.ValidateShared("policy", name); err != nil {
			return err
		}
		parts[name] = manifest.Part(part)
	}
	ns.Policies, err = manifest.NewPolicies(parts)
	return err
}

// applyQuotas changes the quotas.
func (n *namespaceFlags) applyQuotas(ns *types.Namespace) error {
	ns.Quotas = nil
	if isNone(n.quotas) {
		return nil
	}
	for _, text := range n.quotas {
		resource, pool, ok := strings.Cut(text, "=")
		if !ok {
			return types.Errorf(types.Invalid, "quota: %q is not resource=amount: write it like gpu=16, or with a pool like cpu=admin:cpus", text)
		}
		q, err := quotas.Parse(n.namespace, resource, pool)
		if err != nil {
			return err
		}
		ns.Quotas = append(ns.Quotas, q)
	}
	return nil
}

// vector changes amounts by name, if the flag is given.
func (n *namespaceFlags) vector(flag string, texts []string, to *types.Requests) error {
	if !n.set.Changed(flag) {
		return nil
	}
	*to = nil
	if isNone(texts) {
		return nil
	}
	requests, err := cmdutil.ParseRequests(flag, texts)
	if err == nil {
		*to = requests
	}
	return err
}
