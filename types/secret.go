package types

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/types/wire"
)

// A Secret has values that servers have sealed: only they can open it.
type Secret struct {
	Extra
	// Key is the id of the key that seals it, and Sealed the sealed entries.
	Key, Sealed string
	// Entries are the names and sizes of its values, sorted by name.
	Entries []SecretEntry
	// Set is when it was set, in Unix nanoseconds, and User the user that set it; empty means root of a server.
	Set  int64
	User string
}

func (s *Secret) fields(w *wire.Pass) {
	wire.Text(w, 2, &s.Key)
	wire.Text(w, 3, &s.Sealed)
	wire.List(w, 4, &s.Entries, (*SecretEntry).fields)
	wire.Integer(w, 5, &s.Set)
	wire.Text(w, 6, &s.User)
}

// SecretEntry is the name and the size of a value of a secret.
type SecretEntry struct {
	Name string
	Size int64
}

func (e *SecretEntry) fields(w *wire.Pass) {
	wire.Text(w, 2, &e.Name)
	wire.Integer(w, 3, &e.Size)
}

// Validate checks a stored secret.
func (s *Secret) Validate() error {
	var p problems
	p.name("key", s.Key)
	p.name("user", s.User)
	within(&p, "set", s.Set, 0, MaxMoment)
	if len(s.Sealed) > 2*MaxSecretBytes {
		p.add(Errorf(Invalid, "sealed: has %d bytes: at most %d are allowed", len(s.Sealed), 2*MaxSecretBytes))
	}
	if p.count("entries", len(s.Entries), MaxSecretEntries) {
		for i, e := range s.Entries {
			p.add(ValidateName(index("entries", i), e.Name))
			within(&p, index("entries", i)+".size", e.Size, 0, MaxSecretValue)
		}
	}
	return p.err()
}

// SecretUse says how a container gets the values of a secret.
type SecretUse struct {
	Name string
	// Env are variables with single entries, as VARIABLE=entry.
	Env []string
	// Dir, unless empty, is a directory in memory with a file for each entry.
	Dir string
}

func (u *SecretUse) fields(w *wire.Pass) {
	wire.Text(w, 2, &u.Name)
	wire.Texts(w, 3, &u.Env)
	wire.Text(w, 4, &u.Dir)
}

// validateSecrets checks the secrets of a spec, and that no variable is set twice: validateMemory checks
// their directories.
func (s *Spec) validateSecrets() error {
	var p problems
	if len(s.Secrets) == 0 || !p.count("secrets", len(s.Secrets), MaxSecretUses) {
		return p.err()
	}
	variables := make(map[string]bool)
	for _, e := range s.Env {
		name, _, _ := strings.Cut(e, "=")
		variables[name] = true
	}
	for i, u := range s.Secrets {
		at := index("secrets", i)
		p.add(ValidateName(at+".name", u.Name))
		if len(u.Env) == 0 && u.Dir == "" {
			p.add(Errorf(Invalid, "%s: has no env and no dir: say how the task gets %q", at, shorten(u.Name)))
		}
		if !p.count(at+".env", len(u.Env), MaxSecretEntries) {
			continue
		}
		for _, e := range u.Env {
			name, entry, _ := strings.Cut(e, "=")
			field := at + ".env." + shorten(name)
			p.add(ValidateName(field, entry))
			if !isVariable(name) {
				p.add(Errorf(Invalid, "%s: is no name of a variable: use letters, digits and '_', not a digit first", field))
			}
			if variables[name] {
				p.add(Errorf(Invalid, "%s: the variable is set twice: choose another", field))
			}
			variables[name] = true
		}
	}
	return p.err()
}

// isVariable reports whether a text is a name for a variable of the environment.
func isVariable(name string) bool {
	return name != "" && len(name) <= MaxText && (name[0] < '0' || name[0] > '9') &&
		!slices.ContainsFunc([]byte(name), func(c byte) bool { return c != '_' && !isAlnum(c) })
}
