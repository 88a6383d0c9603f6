package esl

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/submitter"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/types"
)

// Use makes the tasks of a job take part in a shared policy: they wait in a queue, hold some of a
// semaphore, or draw on a share, depending on its kind. For a policy of another program, each task
// requests one of <job>.<kind>, which that program creates: see Foreign.
type Use struct {
	// Name is the id of the shared policy. That of one of another namespace begins with the namespace:
	// org:lab.
	Name string `json:"name" desc:"the shared policy, by its name; one of another namespace as NAMESPACE:NAME" is:"shared-policy"`
	// As is the flow of a fair-queue, or the user of a fair-share with its teams before it: a/alice.
	As string `json:"as,omitempty" desc:"the flow of a fair-queue, or the user of a fair-share with the teams before it: a/alice" is:"text"`
	// Amount is how much of a semaphore each task holds; 0 means 1.
	Amount int `json:"amount,omitempty" desc:"how much of a semaphore each task holds; 1 if it is left out" zero:"is nothing: leave the policy out, or leave amount out for 1"`
	// Required reports whether the settings of the namespace have added it. Submission sets it.
	Required bool `json:"required,omitempty" desc:"whether the settings of the namespace have added it; leave it out"`
	// Of is the kind of the shared policy. Submission sets it.
	Of string `json:"of,omitempty" desc:"the kind that the shared policy must have; any if it is left out" is:"text"`
}

// usable is a Shared policy with a method Use.
type usable interface {
	Shared
	// Use adds what the tasks of a job need to take part. Invalid: the error names a field of u.
	Use(g *Group, u Use) error
}

// usedOpener is a usable policy with a resource that it places where a task fits: see opener.
type usedOpener interface {
	OpensFor(s *State, u Use) Limit
}

// usedExplainer is a usable policy whose reason depends on the use. s is the state of the shared
// policy. Others explain as an Explainer.
type usedExplainer interface {
	WhyUsed(s *State, u Use, task string) why.Reason
}

const kindUse = "use"

// Kind returns use.
func (Use) Kind() string { return kindUse }

// Describe says what the policy does.
func (Use) Describe() Description {
	return Description{Does: "the tasks take part in a declared policy, such as a queue, semaphore or fair-share"}
}

// Validate checks the parameters without the shared policy.
func (u Use) Validate() error {
	if u.Amount < 0 {
		return Invalid("amount: %d is negative: give how much each task holds, or leave it out for 1", u.Amount)
	}
	return nil
}

// Apply adds what the shared policy asks of tasks that take part.
func (u Use) Apply(g *Group) error {
	if err := u.Validate(); err != nil {
		return err
	}
	p := g.Shared[u.Name]
	made, ok := p.(usable)
	switch {
	case p == nil:
		return Invalid("name: there is no shared policy %q: declare it first, or correct the name", u.Name)
	case u.Of != "" && u.Of != p.Kind():
		return Invalid("name: %s is of kind %s, not %s: name one of that kind, or correct the kind", u.Name, p.Kind(), u.Of)
	case ok:
		if err := across(u, g.Namespace, p); err != nil {
			return err
		}
		_, g.opens = p.(usedOpener)
		return made.Use(g, u)
	case foreign(p.Kind()):
		if err := across(u, g.Namespace, p); err != nil {
			return err
		}
		g.AskAll(g.Own(""), One)
		return nil
	}
	return Invalid("name: jobs take no part in %s, which is of kind %s: name another shared policy", u.Name, p.Kind())
}

// Only returns an error if a field is given that is not among fields: those that mean something to
// a kind of policies. Invalid: the error names the field.
func (u Use) Only(kind string, fields ...string) error {
	switch {
	case u.As != "" && !slices.Contains(fields, "as"):
		return Invalid("as: %q: %s is of kind %s, which has no flows or users: leave as out", u.As, u.Name, kind)
	case u.Amount != 0 && !slices.Contains(fields, "amount"):
		return Invalid("amount: %d: %s is of kind %s, of which tasks hold no amounts: leave amount out", u.Amount, u.Name, kind)
	}
	return nil
}

// Opens returns the limit of the shared policy.
func (u Use) Opens(s *State) Limit {
	if p, _ := s.SharedPolicy(u.Name); p != nil {
		if o, ok := p.(usedOpener); ok {
			return o.OpensFor(s, u)
		}
	}
	return Limit{}
}

// Why returns the reason of the shared policy.
func (u Use) Why(s *State, task string) why.Reason {
	p, shared := s.SharedPolicy(u.Name)
	t := s.View.Task(cluster.ID{Namespace: s.Namespace, ID: task})
	switch {
	case t == nil || t.Phase() != types.Pending:
		return why.Reason{}
	case !allowed(s.View, s.Namespace, s.At(u.Name)):
		return why.Say(why.NoKeeper, "Jobs of namespace %s may not take part in %s any more: have an administrator allow it, or submit the job without.", s.Namespace, u.Name)
	case p == nil:
		return why.Say(why.NoKeeper, "There is no %s %q any more: declare it again, or submit the job without.", cmp.Or(u.Of, "policy"), u.Name)
	case u.Of != "" && p.Kind() != u.Of:
		return why.Say(why.NoKeeper, "Policy %q is of kind %s now, and was of kind %s when the job was submitted: submit the job again.", u.Name, p.Kind(), u.Of)
	}
	ref := shared.Ref(cluster.ID{Namespace: s.Namespace, ID: task})
	switch p := p.(type) {
	case usedExplainer:
		return p.WhyUsed(shared, u, ref)
	case Explainer:
		return p.Why(shared, ref)
	}
	return why.Reason{}
}

// acrossNamespaces is a Shared policy in which jobs of other namespaces may take part.
type acrossNamespaces interface{ AcrossNamespaces() }

// IsAcross reports whether jobs of other namespaces may take part in a policy.
func IsAcross(p Policy) bool {
	_, ok := p.(acrossNamespaces)
	return ok
}

// across refuses to take part in a shared policy of another namespace if that does not work across
// namespaces. Invalid: the error names the field.
func across(u Use, ns string, p Policy) error {
	if Named(ns, u.Name).Namespace == ns {
		return nil
	}
	return InvalidIf(!IsAcross(p), "name: %s is of kind %s, in which only jobs of its own namespace take part: declare one in namespace %s", u.Name, p.Kind(), ns)
}

// perUser is a Shared policy that counts what each user takes.
type perUser interface {
	// AsUser returns the path of a user of the team that a use of a job of a namespace names. A path that
	// names a user already is returned as it is.
	AsUser(u Use, ns, user string) string
}

// required returns policies with a Use of each that the settings of the namespace require, unless they have one.
// A Use that says of itself that it is required, and is not, is as any other.
func required(n *types.Namespace, policies []Policy) []Policy {
	out := slices.Clone(policies)
	for i, p := range out {
		if u, ok := p.(Use); ok && u.Required {
			u.Required = slices.ContainsFunc(n.Policies, func(p types.NamespacePolicy) bool { return p.Required && p.Name == u.Name })
			out[i] = u
		}
	}
	for _, p := range n.Policies {
		if p.Required && !uses(policies, p.Name) {
			out = append(out, Use{Name: p.Name, Required: true})
		}
	}
	return out
}

// uses reports whether policies have a Use of a shared policy.
func uses(policies []Policy, name string) bool {
	for _, p := range policies {
		if u, ok := p.(Use); ok && u.Name == name {
			return true
		}
	}
	return false
}

// Elsewhere reports whether a stored policy is a use of a shared policy of another namespace.
func Elsewhere(p types.Policy) bool {
	u, ok := UseOf(p)
	return ok && strings.Contains(u.Name, ":")
}

// charged returns policies whose uses count for the user of the job: its label or, without one, the
// submitter. A use for another user needs a right. Denied: the submitter lacks it.
func charged(by submitter.Submitter, ns string, labels []types.Label, policies []Policy, shared map[string]Policy) ([]Policy, error) {
	user := cmp.Or(types.LabelMap(labels)[submitter.Label], by.User)
	if user == "" {
		return policies, nil
	}
	out := slices.Clone(policies)
	for i, p := range out {
		u, ok := p.(Use)
		per, counts := shared[u.Name].(perUser)
		if !ok || !counts {
			continue
		}
		u.As = per.AsUser(u, ns, user)
		out[i] = u
		if err := by.Act("as", ns, u.As[strings.LastIndexByte(u.As, '/')+1:], "leave the last part out"); err != nil {
			return nil, types.Errorf(types.Denied, "policies[%d] (%s): %w", i, p.Kind(), err)
		}
	}
	return out, nil
}

// Charged returns the use with the user of a stored use of the same policy, which the submission filled
// in, unless it names one itself.
func (u Use) Charged(stored []types.Policy) Use {
	for _, p := range stored {
		if is, ok := UseOf(p); ok && is.Name == u.Name && (u.As == "" || strings.HasPrefix(is.As, u.As+"/")) {
			u.As = is.As
		}
	}
	return u
}

// resolved returns policies with the kinds of the shared policies that they use.
func resolved(policies []Policy, shared map[string]Policy) []Policy {
	out := make([]Policy, len(policies))
	for i, p := range policies {
		if u, ok := p.(Use); ok && u.Of == "" && shared[u.Name] != nil {
			u.Of = shared[u.Name].Kind()
			p = u
		}
		out[i] = p
	}
	return out
}

// labelKind returns the kind that is in the names of what a policy of a job creates: that of the
// shared policy for one that uses it.
func labelKind(p Policy) string {
	if u, ok := p.(Use); ok && u.Of != "" {
		return u.Of
	}
	return p.Kind()
}

// A Renaming is the former name of a use of a kind of shared policies. Files may have it until the
// next release. Jobs that were submitted with it have it as long as they exist.
type Renaming struct {
	// Kind is the former name, Of the kind of shared policies, and Name the former name of the
	// field with the id of the shared policy.
	Kind, Of, Name string
}

// Renamings returns all of them.
func Renamings() []Renaming {
	return []Renaming{
		{"queued", "queue", "in"},
		{"holds", "semaphore", "semaphore"},
		{"flow", "fair-queue", "in"},
		{"share", "fair-share", "in"},
		{"placed", "objective", "by"},
		{"packed", "pack", "in"},
		{"balanced", "elastic-balance", "in"},
	}
}

// FormerKinds returns the former names of kinds, by present name. They work as those of Renamings.
func FormerKinds() map[string]string { return map[string]string{"aging": "ageing"} }

// presentKind returns a stored policy with the present name of its kind.
func presentKind(p types.Policy) types.Policy {
	for now, was := range FormerKinds() {
		if p.Kind == was {
			p.Kind = now
		}
	}
	return p
}

// FormerLabel returns the former label, in the names of what is created for a job, of uses of a kind
// of shared policies; "" if it has none.
func FormerLabel(kind string) string {
	for _, r := range Renamings() {
		if r.Of == kind {
			return r.Kind
		}
	}
	return ""
}

// renamed reads a policy under its former name; ok is false if it is none.
func renamed(p types.Policy) (u Use, ok bool) {
	for _, r := range Renamings() {
		var with map[string]json.RawMessage
		if r.Kind != p.Kind || json.Unmarshal([]byte(p.With), &with) != nil {
			continue
		}
		u = Use{Of: r.Of}
		for name, into := range map[string]any{r.Name: &u.Name, "as": &u.As, "amount": &u.Amount} {
			if text, given := with[name]; given && json.Unmarshal(text, into) != nil {
				return u, false
			}
		}
		return u, u.Name != ""
	}
	return u, false
}

// Canonical returns stored policies with one form for what means the same: kinds under their present
// name, uses without the kind of the shared policy, and without an amount of 1.
func Canonical(stored []types.Policy) []types.Policy {
	out := slices.Clone(stored)
	for i, p := range out {
		out[i] = presentKind(p)
		if u, ok := UseOf(p); ok {
			if u.Of = ""; u.Amount == 1 {
				u.Amount = 0
			}
			out[i] = u.spelled(kindUse, "name")
		}
	}
	return out
}

// Former returns stored policies as former versions wrote them, with former names. kindOf returns the
// kind of a shared policy; "" if it is not known.
func Former(stored []types.Policy, kindOf func(name string) string) []types.Policy {
	out := slices.Clone(stored)
	for i, p := range out {
		u, ok := UseOf(p)
		if !ok {
			out[i].Kind = cmp.Or(FormerKinds()[p.Kind], p.Kind)
			continue
		}
		kind := cmp.Or(u.Of, kindOf(u.Name))
		for _, r := range Renamings() {
			if u.Of = ""; r.Of == kind {
				out[i] = u.spelled(r.Kind, r.Name)
			}
		}
	}
	return out
}

// UseOf returns the use that a stored policy is, by its present name or a former one. ok is false if
// it is none.
func UseOf(p types.Policy) (u Use, ok bool) {
	if p.Kind == kindUse {
		err := json.Unmarshal([]byte(p.With), &u)
		return u, err == nil
	}
	return renamed(p)
}

// spelled returns the stored form under a kind, with the name of the shared policy in a field.
func (u Use) spelled(kind, field string) types.Policy {
	with := fmt.Sprintf(`{%q:%q`, field, u.Name)
	if u.As != "" {
		with += fmt.Sprintf(`,"as":%q`, u.As)
	}
	if u.Amount != 0 {
		with += fmt.Sprintf(`,"amount":%d`, u.Amount)
	}
	if u.Required {
		with += `,"required":true`
	}
	return types.Policy{Kind: kind, With: with + "}"}
}
