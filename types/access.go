package types

import (
	"slices"
	"strings"

	"github.com/escher-sched/escher/types/rights"
	"github.com/escher-sched/escher/types/wire"
)

// Everywhere is the namespace of a Right that applies to the cluster and all its namespaces.
const Everywhere = "*"

// The kinds of subjects: a subject is a kind, a colon and a name.
const (
	UserSubject    = "user"
	GroupSubject   = "group"
	ServiceSubject = "service"
	// NodeSubject is the agent of a node. It has the rights of its node, and no others.
	NodeSubject = "node"
)

// A Right gives subjects a role, or some of its parts, in namespaces.
type Right struct {
	Extra
	// Subjects have the form user:NAME, group:NAME or service:NAME.
	Subjects []string
	// Role is what they may do, and Allow lists further needs, such as "read tasks".
	Role  rights.Role
	Allow []string
	// Namespaces are where they may do it. Everywhere means the cluster and all namespaces.
	Namespaces []string
}

func (r *Right) fields(w *wire.Pass) {
	wire.Texts(w, 2, &r.Subjects)
	wire.Text(w, 3, &r.Role)
	wire.Texts(w, 4, &r.Allow)
	wire.Texts(w, 5, &r.Namespaces)
}

// Validate checks a right.
func (r *Right) Validate() error {
	var p problems
	if p.count("subjects", len(r.Subjects), MaxSubjects) {
		for i, s := range r.Subjects {
			p.add(ValidateSubject(index("subjects", i), s, UserSubject, GroupSubject, ServiceSubject))
		}
	}
	if r.Role != "" {
		p.add(invalid("role", roleError(r.Role)))
	}
	if p.count("allow", len(r.Allow), len(rights.Kinds())*len(rights.Verbs())) {
		for i, a := range r.Allow {
			_, err := rights.ParseNeed(a)
			p.add(invalid(index("allow", i), err))
		}
	}
	p.namespaces(r.Namespaces)
	if len(r.Namespaces) == 0 {
		p.add(Errorf(Invalid, "namespaces: is empty: name the namespaces, or %q for the cluster with all of them", Everywhere))
	}
	return p.err()
}

// A Credential lets the bearer of a secret act as a subject. The store has no secret, only its hash.
type Credential struct {
	Extra
	// Subject has the form user:NAME, service:NAME or node:NAME, and Groups are names of groups.
	Subject string
	Groups  []string
	// Hash is the SHA-256 of the secret, in hexadecimal digits.
	Hash string
	// Role and Namespaces bound what the bearer may do, and where, below the rights of the subject;
	// empty means no bound.
	Role       rights.Role
	Namespaces []string
	// Made and Expires are times in Unix nanoseconds.
	Made, Expires int64
	// Maker is the subject that made it, and Note a text for people.
	Maker, Note string
	// Parent is the id of the credential by which its bearer made it for itself, if so: it is void
	// without that one.
	Parent string
	// Key is, of a node with a certificate, the hash of its public key; there is no secret then.
	Key string
}

func (c *Credential) fields(w *wire.Pass) {
	wire.Text(w, 2, &c.Subject)
	wire.Texts(w, 3, &c.Groups)
	wire.Text(w, 4, &c.Hash)
	wire.Text(w, 5, &c.Role)
	wire.Texts(w, 6, &c.Namespaces)
	wire.Integer(w, 7, &c.Made)
	wire.Integer(w, 8, &c.Expires)
	wire.Text(w, 9, &c.Maker)
	wire.Text(w, 10, &c.Note)
	wire.Text(w, 11, &c.Parent)
	wire.Text(w, 12, &c.Key)
}

// Validate checks a credential.
func (c *Credential) Validate() error {
	var p problems
	p.add(ValidateSubject("subject", c.Subject, UserSubject, ServiceSubject, NodeSubject))
	if p.count("groups", len(c.Groups), MaxGroups) {
		for i, g := range c.Groups {
			p.add(ValidateName(index("groups", i), g))
		}
	}
	if kind, _, _ := strings.Cut(c.Subject, ":"); c.Key != "" && (kind != NodeSubject || c.Hash != "") {
		p.add(Errorf(Invalid, "key: only a node has one, without hash: leave one out"))
	}
	if kind, _, _ := strings.Cut(c.Subject, ":"); kind == NodeSubject && (c.Role != "" || len(c.Namespaces)+len(c.Groups) > 0) {
		p.add(Errorf(Invalid, "role: the credential of a node has no role, namespaces and groups: leave them out"))
	}
	p.digest("hash", c.Hash, c.Key != "")
	p.digest("key", c.Key, true)
	if c.Role != "" {
		p.add(invalid("role", roleError(c.Role)))
	}
	p.namespaces(c.Namespaces)
	within(&p, "made", c.Made, 1, MaxMoment)
	within(&p, "expires", c.Expires, 1, MaxMoment)
	p.text("maker", c.Maker, MaxText)
	p.text("note", c.Note, MaxText)
	p.name("parent", c.Parent)
	return p.err()
}

// digest checks a SHA-256 in hexadecimal digits; empty is fine if it is optional.
func (p *problems) digest(field, text string, optional bool) {
	if text == "" && optional {
		return
	}
	if len(text) != 64 || strings.Trim(text, "0123456789abcdef") != "" {
		p.add(Errorf(Invalid, "%s: %q is no SHA-256 in hexadecimal digits: give 64 of them", field, shorten(text)))
	}
}

// ValidateSubject checks a subject, which must have one of the kinds.
func ValidateSubject(field, subject string, kinds ...string) error {
	kind, name, _ := strings.Cut(subject, ":")
	if !slices.Contains(kinds, kind) {
		return Errorf(Invalid, "%s: %q is no subject: write one of %s:NAME", field, shorten(subject), strings.Join(kinds, ":NAME, "))
	}
	return ValidateName(field, name)
}

// namespaces checks names of namespaces, or Everywhere.
func (p *problems) namespaces(all []string) {
	if !p.count("namespaces", len(all), MaxScope) {
		return
	}
	for i, ns := range all {
		if ns != Everywhere {
			p.add(ValidateName(index("namespaces", i), ns))
		}
	}
}

// roleError says why a role is none.
func roleError(r rights.Role) error {
	_, err := rights.ParseRole(string(r))
	return err
}

// invalid returns an error about a field as Invalid; nil for nil.
func invalid(field string, err error) error {
	if err == nil {
		return nil
	}
	return Errorf(Invalid, "%s: %w", field, err)
}
