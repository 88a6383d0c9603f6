// Package reasons says why an object is in its state, above all why it waits: what the scheduler
// explains, with what the policies of its job say.
package reasons

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/controlplane/writers"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/scheduler/explain"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// saidAtMost is the most keys of one kind to read for explanations of policies.
const saidAtMost = 100_000

// askedAtMost is the most tasks to explain: some policies read all tasks for each.
const askedAtMost = 64

// Policies is what the policies of one job explain, and what is known about them.
type Policies struct {
	ID    cluster.ID
	Kept  *types.Policies
	Kinds esl.Kinds
	// View has the state for the policies, nil if it is too large, or if the caller may not see it.
	View *cluster.View
	// hidden reports whether the policies go by what the caller may not see, in other namespaces.
	hidden bool
	Now    time.Time
	// Voice renders what a person can do.
	Voice action.Renderer
}

// PoliciesOf reads the policies with an id, and the state for them, at a revision; nil if there are
// none. known is an explanation's view at that revision, which knows the nodes; nil means none.
func PoliciesOf(ctx context.Context, client *controlplane.Client, id string, known *cluster.View, revision int64, now time.Time, voice action.Renderer) (*Policies, error) {
	s := &Policies{ID: cluster.ID{Namespace: client.Namespace(), ID: id}, Kinds: builtin.Kinds(), Now: now, Voice: voice}
	var err error
	if s.Kept, revision, err = KeptAt(ctx, client, id, revision); s.Kept == nil || err != nil {
		return nil, err
	}
	all := s.Kept.Policies
	for _, shared := range RefersTo(s.Kept) {
		kept, _, err := KeptAt(ctx, client, shared, revision)
		if types.Is(err, types.Denied) {
			s.hidden = true
			continue
		}
		if err != nil {
			return nil, err
		}
		if kept != nil {
			all = append(all[:len(all):len(all)], kept.Policies...)
		}
	}
	wide := s.wide(all) || s.Kept.Job == "" && s.across() || slices.ContainsFunc(s.Kept.Policies, esl.Elsewhere)
	if s.View, err = readSome(ctx, client.Store(), known, revision, prefixesFor(client.Namespace(), wide && !s.hidden)); types.Is(err, types.Denied) && wide {
		s.hidden = true
		s.View, err = readSome(ctx, client.Store(), known, revision, prefixesFor(client.Namespace(), false))
	}
	return s, err
}

// KeptAt reads the policies with an id, as a job names it, at a revision, 0 meaning the newest; nil if there
// were none.
func KeptAt(ctx context.Context, client *controlplane.Client, id string, revision int64) (*types.Policies, int64, error) {
	at := esl.Named(client.Namespace(), id)
	page, err := client.Store().List(ctx, controlplane.ListOptions{Key: controlplane.PoliciesKey(at.Namespace, at.ID), Revision: revision})
	if err != nil || len(page.KVs) == 0 {
		return nil, 0, err
	}
	kept := new(types.Policies)
	if !controlplane.Read(page.KVs[0], kept) {
		return nil, 0, nil
	}
	return kept, page.Revision, nil
}

// prefixesFor returns the ranges of keys that policies need: nodes, and their namespace; everything
// if wide.
func prefixesFor(ns string, wide bool) []string {
	narrow := map[controlplane.Kind]bool{
		controlplane.Tasks: true, controlplane.Statuses: true, controlplane.Jobs: true, controlplane.Reservations: true,
		controlplane.Grants: true, controlplane.Resources: true, controlplane.Provided: true, controlplane.Policies: true,
		controlplane.Histories: true,
	}
	near := map[controlplane.Kind]bool{
		controlplane.Nodes: true, controlplane.Alive: true, controlplane.Cordons: true, controlplane.Devices: true,
		controlplane.Namespaces: true, controlplane.Allocated: true,
	}
	var out []string
	for _, a := range writers.Table() {
		switch {
		case a.Kind == controlplane.Specs:
		case wide || near[a.Kind]:
			out = append(out, controlplane.Prefix(a.Kind))
		case narrow[a.Kind]:
			out = append(out, controlplane.Prefix(a.Kind, ns))
		}
	}
	return out
}

// wide reports whether a policy needs the bindings of all namespaces.
func (s *Policies) wide(policies []types.Policy) bool {
	return slices.ContainsFunc(policies, func(p types.Policy) bool {
		made, err := s.Kinds.Read(p)
		return err == nil && esl.TriggersOf(made).Any
	})
}

// across reports whether jobs of other namespaces may take part in the shared policy.
func (s *Policies) across() bool {
	return slices.ContainsFunc(s.Kept.Policies, func(p types.Policy) bool {
		made, err := s.Kinds.Read(p)
		return err == nil && esl.IsAcross(made)
	})
}

// readSome reads ranges of keys at a revision, nil if one of them is too large.
func readSome(ctx context.Context, store controlplane.Store, known *cluster.View, revision int64, prefixes []string) (*cluster.View, error) {
	view := cluster.New()
	if known != nil {
		view = known.Fork()
	}
	for _, prefix := range prefixes {
		if known != nil && explain.Knows(prefix) {
			continue
		}
		page, err := store.List(ctx, controlplane.ListOptions{Prefix: prefix, Revision: revision, Limit: saidAtMost})
		if err != nil || page.More {
			return nil, err
		}
		for _, kv := range page.KVs {
			// Unreadable values count as absent.
			_, _, _ = view.Apply(controlplane.Event{KV: kv})
		}
	}
	view.Reached(revision)
	return view, nil
}

// Origins returns where the requests of a task come from, if a policy of its job has changed them.
func Origins(ctx context.Context, client *controlplane.Client, task cluster.ID, job string, revision int64, now time.Time) ([]string, error) {
	kept, _, err := KeptAt(ctx, client, job, revision)
	if kept == nil || err != nil || !slices.ContainsFunc(kept.Policies, func(p types.Policy) bool {
		made, err := builtin.Kinds().Read(p)
		return err == nil && esl.SetsRequests(made)
	}) {
		return nil, err // what the policies go by need not be read
	}
	s, err := PoliciesOf(ctx, client, job, nil, revision, now, nil)
	if s == nil || s.View == nil || err != nil {
		return nil, err
	}
	return esl.Origins(s.View, s.Kinds, task), nil
}

// leftOut is the text in place of explanations.
func (s *Policies) leftOut() why.Reason {
	if s.hidden && s.Kept.Job == "" {
		return why.Say(why.Unreadable, "What it says is left out, as it goes by what is in other namespaces.")
	}
	if s.hidden {
		says := types.Textf("What its policies say is left out, as they go by what is in other namespaces: %s", action.Explain.Of(s.ID.ID))
		return why.Say(why.Unreadable, "%s", says.Render(s.Voice))
	}
	return why.Say(why.Unreadable, "What its policies say is left out: they go by more than %d tasks or the like.", saidAtMost)
}

// says returns the explanations of the policies for a task.
func (s *Policies) says(task cluster.ID) []why.Reason {
	if s.View == nil || s.hidden {
		return []why.Reason{s.leftOut()}
	}
	return esl.Why(s.View, s.Kinds, task, s.Now)
}

// SaysOfAll returns the explanations for the waiting tasks in a few lines, the most frequent first.
// Texts that differ only in numbers become one. Of very many tasks it asks for some, evenly from
// the first to the last.
func (s *Policies) SaysOfAll() []string {
	if s.View == nil || s.hidden {
		return []string{s.leftOut().Summary}
	}
	waiting := s.waiting()
	asked := evenly(waiting, askedAtMost)
	var all []why.Reason
	for _, task := range asked {
		all = append(all, s.says(task)...)
	}
	lines := mergedLines(all)
	if len(lines) > 0 && len(asked) < len(waiting) {
		lines = append(lines, types.Textf("(these are of %d of the %d tasks that wait: %s)", len(asked), len(waiting), action.ExplainOne.Of()).Render(s.Voice))
	}
	return lines
}

// saidAtMostLines is the most lines of sentences.
const saidAtMostLines = 10

// mergedLines returns a line for each group of reasons that differ only in numbers, and one that
// counts the rest.
func mergedLines(reasons []why.Reason) []string {
	var out []string
	merged := why.Merge(reasons)
	for i, m := range merged {
		if i == saidAtMostLines {
			more := 0
			for _, rest := range merged[i:] {
				more += rest.Count
			}
			return append(out, fmt.Sprintf("… and %d more", more))
		}
		line := m.Summary
		if m.Count > 1 {
			line = fmt.Sprintf("%d × %s", m.Count, line)
		}
		out = append(out, line)
	}
	return out
}

// waiting returns the waiting tasks of the job, or of those that refer to a shared policy.
func (s *Policies) waiting() []cluster.ID {
	jobs := []cluster.ID{s.ID}
	if s.Kept.Job == "" {
		jobs = nil
		for id, c := range s.View.Policies {
			refers := func(name string) bool { return esl.Named(id.Namespace, name) == s.ID }
			if slices.ContainsFunc(RefersTo(c.V), refers) {
				jobs = append(jobs, id)
			}
		}
		slices.SortFunc(jobs, func(a, b cluster.ID) int { return strings.Compare(a.ID, b.ID) })
	}
	var out []cluster.ID
	for _, job := range jobs {
		for _, t := range s.View.Members(job) {
			if t.Phase() == types.Pending {
				out = append(out, t.ID)
			}
		}
	}
	return out
}

// owners maps the prefix of the names of objects that the policies create, and the shared policies
// that they refer to, to the policy.
func (s *Policies) owners() map[string]string {
	out := make(map[string]string)
	for i, name := range esl.Labels(s.Kept.Policies) {
		policy := s.Kept.Policies[i].Kind
		if u, ok := esl.UseOf(s.Kept.Policies[i]); ok {
			policy = u.Of + " " + u.Name
		}
		out[s.ID.ID+"."+name] = policy
	}
	for _, shared := range RefersTo(s.Kept) {
		owner := esl.OwnerOf(shared)
		out[owner] = shared
		if s.View == nil {
			continue
		}
		if c := s.View.Policies[esl.Named(s.ID.Namespace, shared)]; c != nil && c.V != nil {
			out[owner+"."+c.V.Policies[0].Kind] = c.V.Policies[0].Kind + " " + shared
		}
	}
	return out
}

// explain notes which policies made what an explanation is about, and replaces a suggestion to do
// what a policy does.
func (s *Policies) explain(e *why.Explanation) {
	owners := s.owners()
	of := make(map[string]string) // the closest policy of each name
	for _, prefix := range slices.Sorted(maps.Keys(owners)) {
		policy := owners[prefix]
		if MadeUnder(prefix, e.Unmet) {
			e.Suggestion = types.Textf("Policy %s does that. See how far it is: %s", policy, action.DescribePolicies.Of(s.ID.ID))
			if s.withdrawn(policy) {
				e.Suggestion = types.Textf("Policy %s has been withdrawn: declare it again, or stop what waits for it.", policy)
			}
		}
		for _, name := range namesIn(e) {
			if MadeUnder(prefix, name) {
				of[name] = policy
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		e.Notes = append(e.Notes, types.Textf("%s belongs to policy %s.", name, of[name]))
	}
}

// namesIn returns the names of the resources and reservations of its namespace that an explanation
// is about.
func namesIn(e *why.Explanation) []string {
	var out []string
	for _, m := range e.Needs {
		ns, name, reservation := m.Resource.Split()
		if name = cmp.Or(reservation, name); ns == e.Namespace && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	if e.Unmet != "" && !slices.Contains(out, e.Unmet) {
		out = append(out, e.Unmet)
	}
	return out
}

// withdrawn reports whether a policy, as named by owners, is or belongs to a shared one that does
// not exist.
func (s *Policies) withdrawn(policy string) bool {
	if s.View == nil {
		return false
	}
	for _, shared := range RefersTo(s.Kept) {
		if policy == shared || strings.HasSuffix(policy, " "+shared) {
			c := s.View.Policies[esl.Named(s.ID.Namespace, shared)]
			return c == nil || c.V == nil
		}
	}
	return false
}

// MadeUnder reports whether a policy makes a resource or reservation under a name: that name
// itself, or one below it.
func MadeUnder(prefix, name string) bool {
	return name == prefix || strings.HasPrefix(name, prefix+".")
}

// RefersTo returns the ids of the shared policies that a job refers to.
func RefersTo(kept *types.Policies) []string {
	var out []string
	if kept == nil || kept.Job == "" {
		return nil
	}
	for _, p := range kept.Policies {
		if u, ok := esl.UseOf(p); ok && !slices.Contains(out, u.Name) {
			out = append(out, u.Name)
		}
	}
	return out
}

// evenly returns at most so many of all, evenly spaced from the first to the last.
func evenly[T any](all []T, most int) []T {
	if len(all) <= most {
		return all
	}
	out := make([]T, most)
	for i := range out {
		out[i] = all[i*(len(all)-1)/(most-1)]
	}
	return out
}
