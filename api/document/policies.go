package document

import (
	"cmp"
	"slices"
	"strings"

	"github.com/escher-sched/escher/api/reasons"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// Policies are the policies of a job, or a shared policy.
type Policies struct {
	ID string `json:"id"`
	// Namespace is theirs.
	Namespace string `json:"-"`
	// Shared reports whether they are shared. Otherwise Job is the name of their job.
	Shared   bool              `json:"shared,omitempty"`
	Job      string            `json:"job,omitempty"`
	Session  string            `json:"session,omitempty"`
	Policies []manifest.Policy `json:"policies"`
	// Jobs are those that refer to a shared policy.
	Jobs []string `json:"jobs,omitempty"`
	// Wrong holds the errors in the parameters that the running programs report.
	Wrong []string `json:"wrong,omitempty"`
}

// PoliciesOf returns the policies of a view, by id. The jobs of shared policies that are of other namespaces
// have those before their ids.
func PoliciesOf(view *cluster.View) []Policies {
	jobs := make(map[cluster.ID][]string)
	for id, c := range view.Policies {
		for _, name := range reasons.RefersTo(c.V) {
			shared := esl.Named(id.Namespace, name)
			jobs[shared] = append(jobs[shared], (&esl.State{Namespace: shared.Namespace}).Ref(id))
		}
	}
	var all []Policies
	for id, c := range view.Policies {
		if c.V == nil {
			continue
		}
		one := Policies{ID: id.ID, Namespace: id.Namespace, Shared: c.V.Job == "", Session: c.V.Session, Policies: Written(c.V.Policies)}
		if j := view.Jobs[cluster.ID{Namespace: id.Namespace, ID: c.V.Job}]; j != nil && j.V != nil {
			one.Job = j.V.Name
		}
		for _, p := range c.V.Policies {
			if p.Wrong != "" {
				one.Wrong = append(one.Wrong, p.Kind+": "+p.Wrong)
			}
		}
		if one.Shared {
			one.Jobs = slices.Sorted(slices.Values(jobs[id]))
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b Policies) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.ID, b.ID))
	})
	return all
}

// Written returns policies in the form of files.
func Written(stored []types.Policy) []manifest.Policy {
	out := make([]manifest.Policy, len(stored))
	for i, p := range stored {
		out[i].Name = p.Kind
		if p.With != "" {
			out[i].With = manifest.With(p.With)
		}
	}
	return out
}
