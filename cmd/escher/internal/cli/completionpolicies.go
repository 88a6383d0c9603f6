package cli

import (
	"context"
	"slices"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/types"
)

// policyCompleters returns the completers of flags that make policies.
func (f completions) policyCompleters() map[string]completer {
	var kinds []string
	all := make(map[string]completer)
	for _, kind := range builtin.Policies() {
		d := esl.Describe(kind)
		if !d.OnlyDeclared {
			kinds = append(kinds, kind.Kind())
		}
		for flag := range d.AllFlags() {
			values := flag.Values
			if d.OnlyDeclared {
				values.Shared = kind.Kind()
			}
			switch c := f.values(values); {
			case c == nil:
			case all[flag.Name] == nil:
				all[flag.Name] = c
			default:
				all[flag.Name] = both(all[flag.Name], c)
			}
		}
	}
	slices.Sort(kinds)
	all["policy"] = words(kinds...)
	return all
}

// values returns the completer of values of a flag; nil means that there is none.
func (f completions) values(v esl.Values) completer {
	switch {
	case v.Jobs:
		return both(f.ids(controlplane.Jobs), f.ids(controlplane.Tasks))
	case v.Resources:
		return f.resourceNames
	case v.Shared != "":
		return f.declared(v.Shared, v.Then)
	case len(v.Words) > 0:
		return words(v.Words...)
	}
	return nil
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
