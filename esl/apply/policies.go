package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// PolicyOf returns the policy of a document or flag. A kind that is known to neither belongs to
// another program.
func PolicyOf(p manifest.Policy) esl.Policy {
	if text, foreign := p.With.(manifest.With); foreign {
		return esl.Foreign{Name: p.Name, With: string(text)}
	}
	if made, ok := reflect.ValueOf(p.With).Elem().Interface().(esl.Policy); ok {
		return made
	}
	return p.With.(esl.Policy)
}

// Expand adds the additions of policies to the decision, and writes nothing. Invalid: the error
// names all policies that cannot be satisfied, alone or together.
func (d *Decision) Expand(ctx context.Context, c *esl.Client) error {
	batch := esl.Batch{Declared: make(map[string]esl.Policy)}
	for i := range d.Changes {
		switch x := &d.Changes[i]; {
		case x.Action == Declare:
			batch.Declared[x.Name] = x.policies[0]
		case (x.Kind == manifest.KindJob || x.Kind == manifest.KindTask) && x.Blocked.IsZero():
			batch.Names = append(batch.Names, x.Name)
		}
	}
	required, err := c.Required(ctx, nil)
	if err != nil {
		return err
	}
	parts, err := esl.StoredForms(required)
	if err != nil {
		return err
	}
	var errs []error
	for i := range d.Changes {
		x := &d.Changes[i]
		takesPart := len(required) > 0 && (x.Kind == manifest.KindJob || x.Kind == manifest.KindTask)
		if len(x.policies) == 0 && !takesPart || x.Kind == manifest.KindPolicy && !x.Blocked.IsZero() {
			continue
		}
		var err error
		switch x.Action {
		case Declare:
			err = d.declare(x, x.policies[0])
		case Launch, Replace:
			if x.Kind == manifest.KindTask && takesPart {
				err = types.Errorf(types.Invalid, "jobs of namespace %s take part in %s, and a task alone does not: write it as kind Job", c.Namespace(), required[0].(esl.Use).Name)
				break
			}
			job := d.job(x)
			job.RequestDigest = RequestDigest(x.Submissions, withAdded(x.stored, parts))
			err = x.expand(ctx, c, job, batch)
		}
		if err != nil {
			errs = append(errs, types.Errorf(types.ClassOf(err), "%s: %w", x, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return types.Errorf(types.ClassOf(errs[0]), "%w", err)
	}
	return nil
}

// declare adds the initial resources of a shared policy. It refuses a policy that creates a
// resource which another document sets.
func (d *Decision) declare(x *Change, p esl.Policy) error {
	if _, foreign := p.(esl.Foreign); foreign {
		return nil // its own program creates them
	}
	shared, ok := p.(esl.Shared)
	if !ok {
		return types.Errorf(types.Invalid, "%s is of one job: write it to the policies of that", p.Kind())
	}
	var err error
	if x.sets, err = esl.Declared(x.Name, shared); err != nil {
		return err
	}
	for i := range d.Changes {
		other := &d.Changes[i]
		if other.Kind == manifest.KindResource && slices.ContainsFunc(x.sets, func(s controlplane.Resource) bool { return s.Name == other.Name }) {
			return types.Errorf(types.Invalid, "it creates resource %s, which the document in line %d sets: drop that document, or rename one of them", other.Name, other.doc.Line)
		}
	}
	return nil
}

// Policies returns the policies of a job to launch.
func (c *Change) Policies() []esl.Policy { return c.policies }

// Planned returns the policies of a job to launch, and the id used for planning, which differs from
// its later id. nil means no policies.
func (c *Change) Planned() (id string, policies []types.Policy) {
	if c.expanded == nil {
		return "", nil
	}
	return c.expanded.ID, c.expanded.Policies()
}

func (c *Change) expand(ctx context.Context, client *esl.Client, job controlplane.Job, batch esl.Batch) error {
	var err error
	if c.expanded, err = client.Expand(ctx, job, batch, c.policies...); err != nil {
		return err
	}
	c.Submissions = c.expanded.Tasks
	c.Adds, err = adds(c.expanded, job.Tasks)
	return err
}

// group returns the wanted tasks of a job that stays, with the additions of its policies. They are
// those of the present tasks as long as the policies are the same.
func (d *decider) group(c *Change, t there, wanted []controlplane.Submission) (*esl.Group, error) {
	g := &esl.Group{Namespace: d.ns, ID: t.id, Name: c.Name, Tasks: slices.Clone(wanted), Nodes: make(map[string]*types.Node)}
	for name, n := range d.view.Nodes {
		if n.Eligible() {
			g.Nodes[name] = n.Info.V
		}
	}
	return g, g.Apply(c.policies)
}

// policiesOf returns the stored policies of a job.
func (d *decider) policiesOf(t there) []types.Policy {
	if c := d.view.Policies[cluster.ID{Namespace: d.ns, ID: t.id}]; c != nil && c.V != nil {
		return c.V.Policies
	}
	return nil
}

// adds lists the additions of policies to the requested tasks. It writes <job> for the id of the
// job, which differs each time.
func adds(e *esl.Expanded, requested []controlplane.Submission) ([]string, error) {
	var out []string
	named := func(text string) string { return strings.ReplaceAll(text, e.ID+".", "<job>.") }
	for _, s := range e.Resources {
		out = append(out, named(fmt.Sprintf("resource %s: %s %s", s.Name, s.Capacity.Format(types.ResourceID(s.Name)), placeText(s.Where))))
	}
	for _, r := range e.Reservations {
		out = append(out, named(fmt.Sprintf("reservation %s: %d bundles", r.ID, len(r.Bundles))))
	}
	var texts []string
	tasks := make(map[string]int)
	for i := range requested {
		before, err := flat(manifest.FromSubmission(controlplane.Submission{Task: requested[i].Task}))
		if err != nil {
			return nil, err
		}
		after, err := flat(manifest.FromSubmission(controlplane.Submission{Task: e.Tasks[i].Task}))
		if err != nil {
			return nil, err
		}
		text := named(strings.Join(different(before, after), "; "))
		if tasks[text]++; tasks[text] == 1 && text != "" {
			texts = append(texts, text)
		}
	}
	const most = 5
	for i, text := range texts {
		if i == most {
			out = append(out, fmt.Sprintf("… and %d more kinds of tasks", len(texts)-most))
			break
		}
		out = append(out, fmt.Sprintf("of %d tasks, %s", tasks[text], text))
	}
	return out, nil
}

// placeText returns the location of a resource in words.
func placeText(w controlplane.Where) string {
	var parts []string
	if len(w.Nodes) > 0 {
		parts = append(parts, "on "+strings.Join(w.Nodes, ", "))
	}
	for _, l := range w.Labels {
		parts = append(parts, "where "+l.Name+" is "+l.Value)
	}
	switch {
	case w.Cluster:
		return "in the cluster"
	case len(parts) == 0:
		return "on every node"
	}
	return strings.Join(parts, ", ")
}

// policy decides about a shared policy.
func (d *decider) policy(c *Change) error {
	key := controlplane.PoliciesKey(d.ns, c.Name)
	d.reads[key], d.reads[controlplane.JobKey(d.ns, c.Name)] = 0, 0
	is := d.view.Policies[cluster.ID{Namespace: d.ns, ID: c.Name}]
	if job := d.view.Jobs[cluster.ID{Namespace: d.ns, ID: c.Name}]; job != nil {
		c.Action, c.Blocked = Replace, types.Textf("a job has that id: give the policy another name")
		return d.fresh(c.Name, job.Mod)
	}
	if is == nil || is.V == nil {
		c.Action = Declare
		return nil
	}
	d.reads[key], c.was = is.Mod, is.Mod
	want := c.stored[0]
	switch {
	case is.V.Job != "":
		c.Action, c.Blocked = Replace, types.Textf("the policies of job %s have that id: give it another name", is.V.Job)
	case len(is.V.Policies) != 1 || is.V.Policies[0].Kind != want.Kind:
		c.Action = Replace
		c.Blocked = types.Textf("it is %s, and cannot be changed to %s: %s, then apply again", textOf(is.V.Policies), want.Kind, action.RemovePolicy.Of(c.Name))
	case is.V.Session == "" && c.doc.Policy.Session != "":
		c.Action = Replace
		c.Blocked = types.Textf("it has no session, and cannot get one: %s, then apply again", action.RemovePolicy.Of(c.Name))
	case RequestDigest(nil, is.V.Policies) == RequestDigest(nil, c.stored) && is.V.Session == c.doc.Policy.Session:
		c.Action, c.ID = Unchanged, c.Name
	default:
		c.Action, c.ID = Declare, c.Name
		c.Differences = different(parameters(is.V.Policies[0], is.V.Session), parameters(want, c.doc.Policy.Session))
	}
	return d.fresh(c.Name, is.Mod)
}

// parameters returns the parameters of a shared policy by path.
func parameters(p types.Policy, session string) map[string]string {
	out := make(map[string]string)
	var v any
	if json.Unmarshal([]byte(p.With), &v) == nil {
		flatten(out, "with", v)
	}
	if session != "" {
		out["session"] = session
	}
	return out
}

// requestDigest returns the stored digest of a job as requested.
func (d *decider) requestDigest(id string) string {
	if j := d.view.Jobs[cluster.ID{Namespace: d.ns, ID: id}]; j != nil && j.V != nil {
		return j.V.RequestDigest
	}
	return ""
}

// otherPolicies describes how the policies of an existing job differ from the wanted ones.
func (d *decider) otherPolicies(t there, wanted []types.Policy) []string {
	is := d.policiesOf(t)
	wanted = withAdded(wanted, is)
	for i, p := range wanted {
		if u, ok := esl.UseOf(p); ok {
			if stored, err := esl.Stored(u.Charged(is)); err == nil {
				wanted[i] = stored
			}
		}
	}
	if RequestDigest(nil, is) == RequestDigest(nil, wanted) {
		return nil
	}
	return []string{fmt.Sprintf("policies: %s → %s", orNone(textOf(esl.Canonical(is))), orNone(textOf(esl.Canonical(wanted))))}
}

// withAdded returns wanted policies with those of others that the settings of the namespace add: see
// esl.Client.Required.
func withAdded(wanted, others []types.Policy) []types.Policy {
	out := slices.Clone(wanted)
	for i, w := range out {
		if use, ok := esl.UseOf(w); ok && use.Required { // only settings say so
			use.Required = false
			if stored, err := esl.Stored(use); err == nil {
				out[i] = stored
			}
		}
	}
	for _, p := range others {
		added, ok := esl.UseOf(p)
		if !ok || !added.Required {
			continue
		}
		use, at := esl.Use{Name: added.Name}, len(out)
		for i, w := range out {
			if is, ok := esl.UseOf(w); ok && is.Name == added.Name {
				use, at = is, i
			}
		}
		use.Required = true
		if stored, err := esl.Stored(use); err == nil {
			out = append(out[:at], append([]types.Policy{stored}, out[min(at+1, len(out)):]...)...)
		}
	}
	return out
}

// textOf returns policies as text.
func textOf(policies []types.Policy) string {
	texts := make([]string, len(policies))
	for i, p := range policies {
		texts[i] = strings.TrimSpace(p.Kind + " " + p.With)
	}
	return strings.Join(texts, ", ")
}

// makers returns the ids with which names of resources of a job's policies begin: the job's own,
// and those of shared policies.
func (d *decider) makers(job string) []string {
	out := []string{job}
	for id, c := range d.view.Policies {
		if id.Namespace == d.ns && c.V != nil && c.V.Job == "" {
			out = append(out, id.ID)
		}
	}
	if c := d.view.Policies[cluster.ID{Namespace: d.ns, ID: job}]; c != nil && c.V != nil {
		for _, p := range c.V.Policies {
			if u, ok := esl.UseOf(p); ok && esl.Elsewhere(p) {
				out = append(out, esl.OwnerOf(u.Name))
			}
		}
	}
	return out
}

// requestedTask returns a task without the additions of its policies, as far as they are known. It removes
// names made by policies, and OnDisconnect and Retries if the job does not set them.
func requestedTask(t, want types.Task, makers []string) types.Task {
	if want.OnDisconnect == types.Fence {
		t.OnDisconnect = types.Fence
	}
	if want.Retries == 0 {
		t.Retries = 0
	}
	made := func(name string) bool {
		return slices.ContainsFunc(makers, func(id string) bool { return strings.HasPrefix(name, id+".") })
	}
	t.Requests = requestedAmounts(t.Requests, made)
	var alternatives []types.Alternative
	for _, a := range t.Alternatives {
		a.Requests = requestedAmounts(a.Requests, made)
		same := func(b types.Alternative) bool { return slices.Equal(a.Requests, b.Requests) }
		if len(a.Requests) > 0 && !slices.ContainsFunc(alternatives, same) {
			alternatives = append(alternatives, a)
		}
	}
	t.Alternatives = alternatives
	t.Provides = slices.DeleteFunc(slices.Clone(t.Provides), func(p types.Provide) bool { return made(p.Name) })
	t.Devices = slices.Clone(t.Devices)
	for i := range t.Devices {
		t.Devices[i].Resource = unscoped(t.Devices[i].Resource, made)
	}
	return t
}

// unscoped returns the name of a resource without its reservation, if policies made that
// reservation.
func unscoped(name string, made func(string) bool) string {
	if base, reservation, ok := strings.Cut(name, "@"); ok && made(reservation) {
		return base
	}
	return name
}

func requestedAmounts(r types.Requests, made func(string) bool) types.Requests {
	amounts := make(map[string]types.Quantity, len(r))
	for _, one := range r {
		if name := unscoped(one.Name, made); !made(name) {
			amounts[name] = one.Amount
		}
	}
	return types.NewRequests(amounts)
}
