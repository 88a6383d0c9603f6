package manifest

import (
	"errors"
	"strings"

	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/issued"
	"github.com/escher-sched/escher/types/rights"
)

// Right gives subjects a role, or parts of one, in namespaces.
type Right struct {
	Name       string      `json:"name" desc:"the name, by which it is changed and removed" is:"name"`
	Subjects   []string    `json:"subjects" desc:"the subjects that get it: user:NAME, group:NAME or service:NAME" is:"subject" some:""`
	Role       rights.Role `json:"role,omitempty" desc:"what they may do; a member also runs tasks, an operator changes nodes" or:"allow"`
	Allow      []string    `json:"allow,omitempty" desc:"what they may do besides: verbs and kinds, such as read tasks" is:"need"`
	Namespaces []string    `json:"namespaces" desc:"the namespaces where it applies, or * for the cluster with all of them" is:"scope" some:""`
}

// Right returns the stored form.
func (r *Right) Right() types.Right {
	return types.Right{Subjects: issued.Each(r.Subjects, issued.Subject), Role: r.Role, Allow: r.Allow, Namespaces: r.Namespaces}
}

// FromRight returns the document of a right.
func FromRight(name string, r *types.Right) Right {
	return Right{Name: name, Subjects: issued.Each(r.Subjects, issued.SubjectText), Role: r.Role, Allow: r.Allow, Namespaces: r.Namespaces}
}

// validate lists the problems of a right.
func (r *Right) validate() error {
	stored := r.Right()
	errs := []error{types.ValidateName("name", r.Name), stored.Validate()}
	if len(r.Subjects) == 0 {
		errs = append(errs, types.Errorf(types.Invalid, "subjects: is empty: name at least one, such as user:alice"))
	}
	if r.Role == "" && len(r.Allow) == 0 {
		errs = append(errs, types.Errorf(types.Invalid, "role: is missing: give one, such as member, or allow, such as [read tasks]"))
	}
	return errors.Join(errs...)
}

// patternOfNeed returns the pattern of a verb and a kind.
func patternOfNeed() string {
	var verbs, kinds []string
	for _, v := range rights.Verbs() {
		verbs = append(verbs, string(v))
	}
	for _, k := range rights.Kinds() {
		kinds = append(kinds, string(k))
	}
	return "^(" + strings.Join(verbs, "|") + ") (" + strings.Join(kinds, "|") + ")$"
}
