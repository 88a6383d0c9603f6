package types

import (
	"strings"

	"github.com/escher-sched/escher/types/wire"
)

// Policies are the scheduling policies of a job, or of all jobs that name them. Libraries run them,
// and the scheduler does not know them. The program that runs them reads its parameters here.
type Policies struct {
	Extra
	// Job is the id of the owning job, whose end deletes them. It is empty for shared policies,
	// which jobs name by id.
	Job string
	// Session is the owning session, whose end deletes them. Its program runs them; empty means
	// that a server does.
	Session string
	// Policies are in the order of the submission.
	Policies []Policy
}

func (p *Policies) fields(w *wire.Pass) {
	wire.Text(w, 2, &p.Job)
	wire.Text(w, 3, &p.Session)
	wire.List(w, 4, &p.Policies, (*Policy).fields)
}

// Policy is one policy with its parameters.
type Policy struct {
	// Kind is its name, such as gang. A kind of another party has a domain: acme.com/even.
	Kind string
	// With has its parameters: a JSON object in the form of its library.
	With string
	// Wrong is the problem that the running program found in the parameters, such as an unknown
	// one. Empty means that it found none or has not checked.
	Wrong string
}

func (p *Policy) fields(w *wire.Pass) {
	wire.Text(w, 2, &p.Kind)
	wire.Text(w, 3, &p.With)
	wire.Text(w, 4, &p.Wrong)
}

// Validate does every check that needs no policy library.
func (p *Policies) Validate() error {
	var found problems
	if len(p.Policies) == 0 {
		found.add(Errorf(Invalid, "policies: is empty: name one, or remove the key"))
	}
	found.add(p.validateParts())
	return found.err()
}

func (p *Policies) validateParts() error {
	var errs []error
	if n := len(p.Policies); n > MaxPolicies {
		return Errorf(Invalid, "policies: has %d: at most %d are allowed, drop some", n, MaxPolicies)
	}
	if p.Job != "" {
		errs = append(errs, ValidateName("job", p.Job))
	}
	if p.Session != "" {
		errs = append(errs, ValidateName("session", p.Session))
	}
	for i, one := range p.Policies {
		at := index("policies", i)
		errs = append(errs, ValidatePolicyKind(at+".name", one.Kind))
		var q problems
		q.text(at+".with", one.With, MaxPolicyBytes)
		q.text(at+".wrong", one.Wrong, MaxReason)
		errs = append(errs, q...)
	}
	return joinInvalid(nonNil(errs))
}

// ValidatePolicyKind checks the name of a policy: a name, with or without a domain such as
// acme.com/even.
func ValidatePolicyKind(field, kind string) error {
	domain, name, ok := strings.Cut(kind, "/")
	if !ok {
		return ValidateName(field, kind)
	}
	if !strings.Contains(domain, ".") {
		return Errorf(Invalid, "%s: %q has no domain: write it like acme.com/%s, or leave out the part before the /", field, shorten(kind), shorten(name))
	}
	if err := ValidateName(field, domain); err != nil {
		return err
	}
	return ValidateName(field, name)
}
