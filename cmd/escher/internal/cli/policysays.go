package cli

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/scheduler"
	"github.com/escher-sched/escher/types"
)

// saidAtMost bounds the keys of one kind that are read for what policies say.
const saidAtMost = 100_000

// askedAtMost bounds the tasks of which policies are asked: some look at all for each.
const askedAtMost = 64

// policySaying is what the policies of one job say, and what is to be known of them.
type policySaying struct {
	id    cluster.ID
	kept  *types.Policies
	kinds esl.Kinds
	// view has what the policies go by, nil if that is too much.
	view *cluster.View
	now  time.Time
}

// policiesOf reads the policies that are kept under an id, and what they go by, as it
// was at a revision; nil if there are none.
func policiesOf(ctx context.Context, client *controlplane.Client, id string, revision int64, now time.Time) (*policySaying, error) {
	s := &policySaying{id: cluster.ID{Namespace: client.Namespace(), ID: id}, kinds: esl.Builtin(), now: now}
	var err error
	if s.kept, revision, err = keptAt(ctx, client, id, revision); s.kept == nil || err != nil {
		return nil, err
	}
	all := s.kept.Policies
	for _, shared := range refersTo(s.kinds, s.kept) {
		kept, _, err := keptAt(ctx, client, shared, revision)
		if err != nil {
			return nil, err
		}
		if kept != nil {
			all = append(all[:len(all):len(all)], kept.Policies...)
		}
	}
	s.view, err = readSome(ctx, client.Store(), revision, prefixesFor(client.Namespace(), s.wide(all)))
	return s, err
}

// keptAt reads the policies that were kept under an id at a revision, 0 is the newest;
// nil if there were none.
func keptAt(ctx context.Context, client *controlplane.Client, id string, revision int64) (*types.Policies, int64, error) {
	page, err := client.Store().List(ctx, controlplane.ListOptions{Key: controlplane.PoliciesKey(client.Namespace(), id), Revision: revision})
	if err != nil || len(page.KVs) == 0 {
		return nil, 0, err
	}
	kept := new(types.Policies)
	if !controlplane.Read(page.KVs[0], kept) {
		return nil, 0, nil
	}
	return kept, page.Revision, nil
}

// prefixesFor are the ranges that policies go by: of the nodes, and of their namespace;
// everything if one of them looks that far.
func prefixesFor(ns string, wide bool) []string {
	narrow := map[controlplane.Kind]bool{
		controlplane.Tasks: true, controlplane.Statuses: true, controlplane.Jobs: true, controlplane.Reservations: true,
		controlplane.Grants: true, controlplane.Resources: true, controlplane.Provided: true, controlplane.Policies: true,
	}
	near := map[controlplane.Kind]bool{
		controlplane.Nodes: true, controlplane.Alive: true, controlplane.Cordons: true, controlplane.Devices: true,
		controlplane.Namespaces: true, controlplane.Allocated: true,
	}
	var out []string
	for _, a := range controlplane.AccessTable() {
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

// wide reports whether a policy goes by what is bound, by whomever.
func (s *policySaying) wide(policies []types.Policy) bool {
	return slices.ContainsFunc(policies, func(p types.Policy) bool {
		made, err := s.kinds.Read(p)
		_, wide := made.(esl.Wide)
		return err == nil && wide
	})
}

// readSome reads ranges of keys at a revision, nil if one of them is too large.
func readSome(ctx context.Context, store controlplane.Store, revision int64, prefixes []string) (*cluster.View, error) {
	view := cluster.New()
	for _, prefix := range prefixes {
		page, err := store.List(ctx, controlplane.ListOptions{Prefix: prefix, Revision: revision, Limit: saidAtMost})
		if err != nil || page.More {
			return nil, err
		}
		for _, kv := range page.KVs {
			// What cannot be read counts as absent.
			_, _, _ = view.Apply(controlplane.Event{KV: kv})
		}
	}
	view.Reached(revision)
	return view, nil
}

// tooMuch is said instead of what policies say.
func tooMuch() []string {
	return []string{fmt.Sprintf("What its policies say is left out: they go by more than %d tasks or the like.", saidAtMost)}
}

// says returns what the policies say of a task.
func (s *policySaying) says(task cluster.ID) []string {
	if s.view == nil {
		return tooMuch()
	}
	return esl.Why(s.view, s.kinds, task, s.now)
}

// saysOfAll returns what the policies say of the tasks that wait, the most frequent first, in
// a few lines: what is the same but for numbers is one. Of very many tasks some are asked,
// evenly from the first to the last.
func (s *policySaying) saysOfAll() []string {
	if s.view == nil {
		return tooMuch()
	}
	waiting := s.waiting()
	asked := evenly(waiting, askedAtMost)
	var all sayings
	for _, task := range asked {
		for _, text := range s.says(task) {
			all.add(text)
		}
	}
	lines := all.lines()
	if len(lines) > 0 && len(asked) < len(waiting) {
		lines = append(lines, fmt.Sprintf("(these are of %d of the %d tasks that wait: escher why TASK says it of one)", len(asked), len(waiting)))
	}
	return lines
}

// waiting are the tasks that wait, of the job, or of those that refer to a shared policy.
func (s *policySaying) waiting() []cluster.ID {
	jobs := []cluster.ID{s.id}
	if s.kept.Job == "" {
		jobs = nil
		for id, c := range s.view.Policies {
			if id.Namespace == s.id.Namespace && slices.Contains(refersTo(s.kinds, c.V), s.id.ID) {
				jobs = append(jobs, id)
			}
		}
		sortBy(jobs, func(id cluster.ID) string { return id.ID })
	}
	var out []cluster.ID
	for _, job := range jobs {
		for _, t := range s.view.Members(job) {
			if t.Phase() == types.Pending {
				out = append(out, t.ID)
			}
		}
	}
	return out
}

// owners are what the names begin with of what the policies make, and the shared ones
// that they refer to, with the policy of each.
func (s *policySaying) owners() map[string]string {
	out := make(map[string]string)
	for i, name := range esl.Labels(s.kept.Policies) {
		policy := s.kept.Policies[i].Kind
		if made, err := s.kinds.Read(s.kept.Policies[i]); err == nil {
			if r, ok := made.(esl.Refers); ok {
				policy += " of " + r.Shared()
			}
		}
		out[s.id.ID+"."+name] = policy
	}
	for _, shared := range refersTo(s.kinds, s.kept) {
		out[shared] = shared
		if s.view == nil {
			continue
		}
		if c := s.view.Policies[cluster.ID{Namespace: s.id.Namespace, ID: shared}]; c != nil && c.V != nil {
			out[shared+"."+c.V.Policies[0].Kind] = c.V.Policies[0].Kind + " " + shared
		}
	}
	return out
}

// explain has an explanation name the policies rather than only what they have made,
// and suggest nothing that is theirs to do.
func (s *policySaying) explain(e *scheduler.Explanation) {
	for _, prefix := range sortedKeys(s.owners()) {
		policy := s.owners()[prefix]
		name := pattern(prefix)
		if suggests(e, prefix) {
			e.Suggestion = fmt.Sprintf("Policy %s sees to that. See how far it is: escher policies describe %s", policy, s.id.ID)
			if s.withdrawn(policy) {
				e.Suggestion = fmt.Sprintf("Policy %s has been withdrawn: declare it again, or stop what waits for it.", policy)
			}
		}
		if at := regexp.MustCompile(`(?:^|[^\w.-])` + name).FindStringSubmatchIndex(e.Summary); at != nil && !strings.Contains(e.Summary[at[3]:], "(policy ") {
			e.Summary = e.Summary[:at[3]] + " (policy " + policy + ")" + e.Summary[at[3]:]
		}
	}
}

// withdrawn reports whether a policy, as owners call it, is or belongs to a shared one that
// is not there.
func (s *policySaying) withdrawn(policy string) bool {
	if s.view == nil {
		return false
	}
	for _, shared := range refersTo(s.kinds, s.kept) {
		if policy == shared || strings.HasSuffix(policy, " of "+shared) {
			c := s.view.Policies[cluster.ID{Namespace: s.id.Namespace, ID: shared}]
			return c == nil || c.V == nil
		}
	}
	return false
}

// suggests reports whether an explanation suggests to set, or reserve, what a policy makes
// under a name.
func suggests(e *scheduler.Explanation, prefix string) bool {
	return regexp.MustCompile(`escher (?:set-resource|reserve) ` + pattern(prefix)).MatchString(e.Suggestion)
}

// pattern matches what a policy makes under a name: that itself, and what is named after it;
// not other names that begin alike.
func pattern(prefix string) string {
	return `(` + regexp.QuoteMeta(prefix) + `(?:\.[\w.-]*\w)?)(?:[^\w-]|$)`
}

// explained is an explanation with what policies say.
type explained struct {
	scheduler.Explanation
	// Policies are what the policies of the job say, a sentence each.
	Policies []string `json:"policies,omitempty"`
	// Closed says which budget of its namespace is used up: the job and its policies cannot add
	// anything then.
	Closed string `json:"closed,omitempty"`
}

// lines are what is shown: what policies say comes first, as the rest follows from it, and last
// what holds up what is not there yet.
func (e explained) lines(wide bool) []string {
	lines := append(slices.Clone(e.Policies), e.Lines(wide)...)
	if e.Closed != "" {
		lines = append(lines, e.Closed)
	}
	return lines
}

// closedText says why nothing can be added to a namespace. It is empty for one within its budget.
func closedText(ctx context.Context, client *controlplane.Client) (string, error) {
	reason, err := client.Closed(ctx, client.Namespace())
	if reason == "" || err != nil {
		return "", err
	}
	return "nothing can be added: " + controlplane.OverBudget(client.Namespace(), reason).Error(), nil
}

// explain adds to an explanation what the policies of its job say.
func explain(ctx context.Context, client *controlplane.Client, e scheduler.Explanation, view *cluster.View, now time.Time) (explained, error) {
	out := explained{Explanation: e}
	job := jobOf(view, e)
	if job == "" {
		return out, nil
	}
	s, err := policiesOf(ctx, client, job, view.Revision, now)
	if s == nil || err != nil {
		return out, err
	}
	s.explain(&out.Explanation)
	switch {
	case e.Kind != scheduler.KindTask:
		out.Policies = s.saysOfAll()
	case e.Phase == string(types.Pending):
		out.Policies = s.says(cluster.ID{Namespace: e.Namespace, ID: e.ID})
	}
	return out, nil
}

// jobOf returns the job that an explanation is about, or is of; empty for none.
func jobOf(view *cluster.View, e scheduler.Explanation) string {
	id := cluster.ID{Namespace: e.Namespace, ID: e.ID}
	switch e.Kind {
	case scheduler.KindJob:
		return e.ID
	case scheduler.KindTask:
		if t := view.Task(id); t != nil && t.Info.V != nil {
			return t.Info.V.Job
		}
	case scheduler.KindReservation:
		if r := view.Reservations[id]; r != nil && r.Info.V != nil {
			return r.Info.V.Job
		}
	}
	return ""
}
