package types

import "strings"

// Policies are what keeps to the wishes of a job, or of all who name them, while these
// last: scheduling policies of libraries, of which the scheduler knows nothing. Whoever
// keeps them reads here what was wished.
type Policies struct {
	Extra
	// Job is the id of the job whose tasks they are about: they end with it. Empty for
	// policies that jobs share, by the id of these.
	Job string
	// Session owns them: they end with it. Whoever has it keeps them; empty: a server.
	Session string
	// Policies are in the order in which they were given.
	Policies []Policy
}

func (p *Policies) fields(w *wire) {
	text(w, 2, &p.Job)
	text(w, 3, &p.Session)
	list(w, 4, &p.Policies, (*Policy).fields)
}

// Policy is one policy with its parameters.
type Policy struct {
	// Kind is its name, such as gang; one of somebody else's has a domain,
	// acme.com/even.
	Kind string
	// With are its parameters: a JSON object, as its library has them.
	With string
	// Wrong is what the program that keeps it finds wrong with its parameters, such as
	// one that it does not know; empty: nothing, or it has not looked.
	Wrong string
}

func (p *Policy) fields(w *wire) {
	text(w, 2, &p.Kind)
	text(w, 3, &p.With)
	text(w, 4, &p.Wrong)
}

// Validate checks what can be checked without the library of each.
func (p *Policies) Validate() error {
	var found problems
	if len(p.Policies) == 0 {
		found.add(Errorf(Invalid, "policies: there are none: name one, or remove the key"))
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

// ValidatePolicyKind checks the name of a policy: a name, or a domain and one,
// acme.com/even.
func ValidatePolicyKind(field, kind string) error {
	domain, name, ok := strings.Cut(kind, "/")
	if !ok {
		return ValidateName(field, kind)
	}
	if !strings.Contains(domain, ".") {
		return Errorf(Invalid, "%s: %q is of no domain: write it like acme.com/%s, or leave what is before the / out", field, shorten(kind), shorten(name))
	}
	if err := ValidateName(field, domain); err != nil {
		return err
	}
	return ValidateName(field, name)
}
