package controlplane

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/spelling"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// candidates bounds the ids that an error lists.
const candidates = 10

// Resolve returns the id of the only task whose id is prefix or begins with it.
// NotFound: there is none; Invalid: there are several. The error lists candidates.
func (c *Client) Resolve(ctx context.Context, prefix string) (string, error) {
	return c.ResolveKind(ctx, Tasks, prefix)
}

// ResolveKind is Resolve for a task, job, reservation, node or policy id.
func (c *Client) ResolveKind(ctx context.Context, kind Kind, prefix string) (string, error) {
	what := c.named(kind)
	if prefix == "" || len(prefix) > types.MaxName || strings.ContainsAny(prefix, "/ \t\n") {
		return "", types.Errorf(types.Invalid, "%s: %q is not an id: give the id of a %s, or its beginning", what.kind, prefix, what.kind)
	}
	ids, err := c.ids(ctx, what, prefix, candidates+1)
	if err != nil {
		return "", err
	}
	switch {
	case len(ids) == 1, len(ids) > 1 && ids[0] == prefix:
		return ids[0], nil
	case len(ids) > 1:
		return "", types.Errorf(types.Invalid, "%s: %q is ambiguous%s: write more of the name of one of %s", what.kind, prefix, what.where, listing(ids))
	}
	return "", c.missing(ctx, kind, prefix)
}

// FindKind checks that a task, job, reservation or node has exactly that id. It serves actions that
// cannot be undone. NotFound: there is none; the error lists similar ids.
func (c *Client) FindKind(ctx context.Context, kind Kind, id string) error {
	what := c.named(kind)
	if ids, err := c.ids(ctx, what, id, 1); err != nil || len(ids) == 1 && ids[0] == id {
		return err
	}
	return c.missing(ctx, kind, id)
}

// missing returns the error for an unknown id, with similar ones.
func (c *Client) missing(ctx context.Context, kind Kind, id string) error {
	what := c.named(kind)
	near, err := c.Near(ctx, kind, id)
	if err != nil {
		return err
	}
	remedy := types.Textf("%s", what.list.Of())
	if len(near) > 0 {
		remedy = types.Textf("did you mean %s?", strings.Join(near, " or "))
	}
	return types.Errorf(types.NotFound, "there is no %s %q%s: %s", what.kind, id, what.where, remedy)
}

// IDs returns the ids of a kind in the namespace, or of the nodes, that begin with prefix: at most
// limit, in order.
func (c *Client) IDs(ctx context.Context, kind Kind, prefix string, limit int) ([]string, error) {
	return c.ids(ctx, c.named(kind), prefix, limit)
}

// Near returns the few ids of a kind that are most similar to typed, as a whole or by their
// beginning.
func (c *Client) Near(ctx context.Context, kind Kind, typed string) ([]string, error) {
	// Names are few or share their beginnings, so the first ids include similar ones.
	const first = 1000
	ids, err := c.IDs(ctx, kind, "", first)
	return nearest(ids, typed), err
}

// named describes a kind of key whose last segment is a name that people type.
type named struct {
	// kind is the singular noun, where the scope in words, and list the action that lists them.
	kind, where string
	list        action.Verb
	prefix      string
}

func (c *Client) named(kind Kind) named {
	n := named{where: " in namespace " + c.ns, prefix: Prefix(kind, c.ns)}
	switch kind {
	case Nodes:
		n = named{kind: "node", list: action.ListNodes, prefix: Prefix(Nodes)}
	case Jobs:
		n.kind, n.list = "job", action.ListJobs
	case Reservations:
		n.kind, n.list = "reservation", action.ListReservations
	case Policies:
		n.kind, n.list = "policy", action.ListPolicies
	default:
		n.kind, n.list = "task", action.ListTasks
	}
	return n
}

func (c *Client) ids(ctx context.Context, n named, prefix string, limit int) ([]string, error) {
	page, err := c.store.List(ctx, ListOptions{Prefix: n.prefix + prefix, Limit: limit, KeysOnly: true})
	ids := make([]string, 0, len(page.KVs))
	for _, kv := range page.KVs {
		ids = append(ids, strings.TrimPrefix(kv.Key, n.prefix))
	}
	return ids, err
}

func listing(ids []string) string {
	if len(ids) > candidates {
		return fmt.Sprintf("%s, …", strings.Join(ids[:candidates], ", "))
	}
	return strings.Join(ids, ", ")
}

// nearest returns the few ids most similar to typed.
func nearest(ids []string, typed string) []string {
	const most = 3
	type near struct {
		id string
		// away is the distance of the most similar part, whole that of the id.
		away, whole int
	}
	var all []near
	for _, id := range ids {
		// Ids of tasks end in random letters and those of nodes in numbers; people type neither.
		whole, isNear := spelling.Distance(typed, id)
		least := whole
		for _, part := range []string{id[:min(len(id), len(typed))], stem(id)} {
			away, near := spelling.Distance(typed, part)
			least, isNear = min(least, away), isNear || near
		}
		if _, near := spelling.Distance(stem(typed), stem(id)); near {
			isNear = true
		}
		if isNear {
			all = append(all, near{id, least, whole})
		}
	}
	slices.SortStableFunc(all, func(a, b near) int { return cmp.Or(cmp.Compare(a.away, b.away), cmp.Compare(a.whole, b.whole)) })
	var out []string
	for _, n := range all[:min(len(all), most)] {
		out = append(out, n.id)
	}
	return out
}

// stem returns a name without its part after the last hyphen.
func stem(id string) string {
	if i := strings.LastIndexByte(id, '-'); i > 0 {
		return id[:i]
	}
	return id
}
