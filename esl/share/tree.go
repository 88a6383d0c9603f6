package share

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// A tree of weights: teams of users and teams. A user has a path, such as team/alice.

// Team is a user, or a team of users and teams.
type Team struct {
	// Weight is relative to the other members of its team; 0 means 1.
	Weight float64 `json:"weight,omitempty" desc:"how much it gets compared with the others of its team; 1 if it is left out" zero:"is not a weight: leave out a user who gets nothing, or leave weight out for 1" max:"1000000"`
	// Of and Anyone are as in FairShare; without both, it is a user.
	Of     map[string]Team `json:"of,omitempty" desc:"its teams and users, by name" keys:"word"`
	Anyone float64         `json:"anyone,omitempty" desc:"weight of each of its users who is not named" min:"0" max:"1000000"`
}

// validate checks a team, and those below it. path is that of the team in the parameters.
func (t Team) validate(path string) error {
	var errs []error
	field := func(name string) string { return strings.TrimPrefix(path+"."+name, ".") }
	errs = append(errs, esl.InvalidIf(t.Weight < 0 || t.Weight > maxWeight, "%s: %g is out of range: give more than 0 and at most %g, or leave it out for 1", field("weight"), t.Weight, maxWeight))
	errs = append(errs, esl.InvalidIf(t.Anyone < 0 || t.Anyone > maxWeight, "%s: %g is out of range: give more than 0 and at most %g, or leave it out to allow no others", field("anyone"), t.Anyone, maxWeight))
	for _, name := range slices.Sorted(maps.Keys(t.Of)) {
		at := field("of." + name)
		errs = append(errs, validateUser(at, name), t.Of[name].validate(at))
	}
	return errors.Join(errs...)
}

// maxWeight is the largest weight.
const maxWeight = 1e6

// validateUser checks a name in the tree: names of resources contain it, with dots between the
// parts.
func validateUser(field, name string) error {
	if strings.Contains(name, ".") {
		return esl.Invalid("%s: %q contains a dot: use letters, digits, '-' and '_'", field, name)
	}
	return types.ValidateName(field, name)
}

// eachUser calls f with the path of each named user, until an error.
func (t Team) eachUser(path string, f func(as string) error) error {
	for _, name := range slices.Sorted(maps.Keys(t.Of)) {
		of := t.Of[name]
		if len(of.Of) == 0 && of.Anyone == 0 {
			if err := f(path + name); err != nil {
				return err
			}
		}
		if err := of.eachUser(path+name+"/", f); err != nil {
			return err
		}
	}
	return nil
}

// user checks that the tree has a user with a path, such as a/alice.
func (t Team) user(as string) error {
	at, path := t, ""
	if as == "" {
		return esl.Invalid("as: is missing: name the user of the tasks, with the teams before it, such as team/alice")
	}
	for name := range strings.SplitSeq(as, "/") {
		if err := validateUser("as", name); err != nil {
			return err
		}
		next, ok := at.Of[name]
		switch {
		case !ok && at.Anyone == 0 && len(at.Of) == 0:
			return esl.Invalid("as: %q: %s is a user, not a team: use %s", as, strings.TrimSuffix(path, "/"), strings.TrimSuffix(path, "/"))
		case !ok && at.Anyone == 0:
			return esl.Invalid("as: %q: there is no %s%s: use %s", as, path, name, strings.Join(slices.Sorted(maps.Keys(at.Of)), ", "))
		}
		at, path = next, path+name+"/"
	}
	if len(at.Of) > 0 || at.Anyone > 0 {
		return esl.Invalid("as: %q is a team: name one of its users, such as %s/%s", as, as, someName(at))
	}
	return nil
}

// useText reads the text of a use: a name, and after a slash the path of a user or team.
func useText(text string) (esl.Parameters, error) {
	name, as, more := strings.Cut(text, "/")
	if !more {
		return esl.Parameters{"name": name}, nil
	}
	return esl.Parameters{"name": name, "as": as}, esl.InvalidIf(as == "", "share: %q names no user: write %s/alice, or %s/TEAM/alice", text, name, name)
}

// elsewhere reports whether a use of a job of a namespace names a policy of another one.
func elsewhere(u esl.Use, ns string) bool { return esl.Named(ns, u.Name).Namespace != ns }

// ofTeam refuses a use of a policy of another namespace by another team than that of the namespace of the job.
func ofTeam(u esl.Use, ns string) error {
	wrong := elsewhere(u, ns) && !strings.HasPrefix(u.As, ns+"/")
	return esl.InvalidIf(wrong, "as: %q is not of the team of its namespace: leave it out, or write %s/ and the user", u.As, ns)
}

// userOf is user for a use of a job of a namespace. It names no other team of a policy of another namespace.
func (t Team) userOf(u esl.Use, ns string) error {
	err := t.user(u.As)
	if err != nil && elsewhere(u, ns) {
		return esl.Invalid("as: %q: %s has no such share: have an administrator add it; names of namespaces and users in it have no dots", u.As, u.Name)
	}
	return err
}

// withUser returns the path of a user of the team that a use of a job names, or that of the use if it names a
// user. Without a name it is the team of the namespace, for a policy of another one.
func (t Team) withUser(u esl.Use, ns, user string) string {
	path, at := u.As, t
	if path == "" && elsewhere(u, ns) {
		return ns + "/" + user
	}
	for name := range strings.SplitSeq(path, "/") {
		if path != "" {
			at = at.Of[name]
		}
	}
	if len(at.Of) == 0 && at.Anyone == 0 {
		return path
	}
	return strings.TrimPrefix(path+"/"+user, "/")
}

func someName(t Team) string {
	for _, name := range slices.Sorted(maps.Keys(t.Of)) {
		return name
	}
	return "NAME"
}

// weight returns the weight of a name in a team. A removed name has 1 until its jobs have ended.
func (t Team) weight(name string) float64 {
	w := t.Anyone
	if c, ok := t.Of[name]; ok {
		w = c.Weight
	}
	if w <= 0 {
		return 1
	}
	return w
}
