package cli

import (
	"context"
	"slices"

	"github.com/escher-sched/escher/cmd/escher/internal/cli/policy"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// policyCompleters returns the completers of flags that make policies.
func (f completions) policyCompleters() map[string]completer {
	domains := words(esl.Domain("").Choices()...)
	var kinds []string
	for name, kind := range policy.KnownPolicies() {
		if kind.Job {
			kinds = append(kinds, name)
		}
	}
	slices.Sort(kinds)
	others := both(f.ids(controlplane.Jobs), f.ids(controlplane.Tasks))
	return map[string]completer{
		"spread": domains, "together": domains, "on-loss": words(esl.Loss("").Choices()...), "policy": words(kinds...),
		"prefer": words("node/", "rack/", "zone/", "label/", "anywhere"), "near": f.resourceNames,
		"after": others, "colocate-with": others,
		"queue":     both(f.declared("queue", ""), f.declared("fair-queue", "/")),
		"share":     f.declared("fair-share", "/"),
		"semaphore": f.declared("semaphore", ""),
	}
}

// both combines two completers.
func both(a, b completer) completer {
	return func(ctx context.Context, word string) []string { return append(a(ctx, word), b(ctx, word)...) }
}

// declared completes to the ids of shared policies of a kind, of any if it is empty, and the text
// then.
func (f completions) declared(kind, then string) completer {
	return func(ctx context.Context, _ string) []string {
		client, err := f.Client(ctx)
		if err != nil {
			return nil // no errors while typing
		}
		kvs, _, err := controlplane.ListAll(ctx, client.Store(), controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Policies, client.Namespace())})
		if err != nil {
			return nil
		}
		var ids []string
		for _, kv := range kvs {
			var p types.Policies
			k, ok := controlplane.Parse(kv.Key)
			if !ok || types.Decode(kv.Value, &p) != nil || p.Job != "" {
				continue
			}
			if kind == "" || slices.ContainsFunc(p.Policies, func(p types.Policy) bool { return p.Kind == kind }) {
				ids = append(ids, k.ID+then)
			}
		}
		return ids
	}
}
