package rest

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/reasons"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// What an explanation says in place of names of another tenant.
const (
	anotherTenant = "another tenant"
	heldByAnother = "Wait, or ask an administrator: it is held by another tenant."
)

// tenants hides the names of namespaces that the caller may not read.
type tenants struct {
	hidden map[string]bool
	// names matches the names of their objects, and commands what acts on one.
	names, commands *regexp.Regexp
}

// hide returns an explanation for the caller, without names of namespaces that it may not read. view is
// the state that explains it.
func hide(ctx context.Context, own string, view *cluster.View, e reasons.Explained) (reasons.Explained, error) {
	by, read := access.From(ctx), rights.Need{Verb: rights.Read, Kind: rights.Tasks}
	if by.May(read, "") == nil {
		return e, nil
	}
	t := tenants{hidden: make(map[string]bool)}
	see := func(ns string) {
		if _, known := t.hidden[ns]; !known && ns != "" && ns != own {
			t.hidden[ns] = by.May(read, ns) != nil
		}
	}
	for id := range view.Reservations {
		see(id.Namespace)
	}
	for task := range view.Tasks() {
		see(task.ID.Namespace)
	}
	for _, n := range view.Nodes {
		for _, b := range n.Bindings {
			see(b.Task.ID.Namespace)
		}
	}
	var all []string
	for ns, hidden := range t.hidden {
		if hidden {
			all = append(all, regexp.QuoteMeta(ns))
		}
	}
	if len(all) == 0 {
		return e, nil
	}
	some := `(?:` + strings.Join(all, "|") + `)`
	t.names = regexp.MustCompile(`(^|[^A-Za-z0-9._-])` + some + `[/:][A-Za-z0-9._@-]*[A-Za-z0-9]`)
	t.commands = regexp.MustCompile(`namespace ` + some + `($|[^A-Za-z0-9_-])`)
	text, err := json.Marshal(e)
	var v any
	if err == nil {
		err = json.Unmarshal(text, &v)
	}
	if err == nil {
		text, err = json.Marshal(t.without("", v))
	}
	var out reasons.Explained
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		return out, types.Errorf(types.Internal, "hide names of other tenants: %w", err)
	}
	return out, nil
}

// without returns a value of JSON without hidden names. field is the name of its field.
func (t tenants) without(field string, v any) any {
	switch x := v.(type) {
	case map[string]any:
		if ns, ok := x["namespace"].(string); ok && t.hidden[ns] {
			x["namespace"], x["id"] = "", anotherTenant
		}
		for name, one := range x {
			x[name] = t.without(name, one)
		}
	case []any:
		for i := range x {
			x[i] = t.without(field, x[i])
		}
	case string:
		if t.commands.MatchString(x) || field == "suggestion" && t.names.MatchString(x) {
			return heldByAnother // it says how to end what the caller may not see
		}
		return t.names.ReplaceAllString(x, "${1}"+anotherTenant)
	}
	return v
}
