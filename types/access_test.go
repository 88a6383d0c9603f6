package types

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/types/rights"
)

func TestRightIsValidated(t *testing.T) {
	good := Right{Subjects: []string{"user:alice", "group:ml", "service:ci"}, Role: rights.Member, Allow: []string{"read audit"}, Namespaces: []string{"lab", "*"}}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for says, change := range map[string]func(*Right){
		`subjects[0]: "alice" is no subject`:    func(r *Right) { r.Subjects = []string{"alice"} },
		`subjects[0]: is empty`:                 func(r *Right) { r.Subjects = []string{"user:"} },
		`subjects[1]: "node:n1" is no subject`:  func(r *Right) { r.Subjects = []string{"user:a", "node:n1"} },
		`subjects[0]: "a/b" contains '/'`:       func(r *Right) { r.Subjects = []string{"user:a/b"} },
		`subjects[0]: "a:b" contains ':'`:       func(r *Right) { r.Subjects = []string{"user:a:b"} },
		"subjects: has 1001":                    func(r *Right) { r.Subjects = make([]string, MaxSubjects+1) },
		"role: \"king\" is no role: use viewer": func(r *Right) { r.Role = "king" },
		`allow[0]: "eat tasks" is no right`:     func(r *Right) { r.Allow = []string{"eat tasks"} },
		"allow: has 1000":                       func(r *Right) { r.Allow = make([]string, 1000) },
		"namespaces: is empty":                  func(r *Right) { r.Namespaces = nil },
		`namespaces[0]: "a b" contains`:         func(r *Right) { r.Namespaces = []string{"a b"} },
		"namespaces: has 1001":                  func(r *Right) { r.Namespaces = make([]string, MaxScope+1) },
	} {
		r := good
		change(&r)
		if err := r.Validate(); !Is(err, Invalid) || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func TestCredentialIsValidated(t *testing.T) {
	good := Credential{Subject: "user:alice", Groups: []string{"ml"}, Hash: strings.Repeat("0a", 32), Role: rights.Viewer, Namespaces: []string{"lab"}, Made: 1, Expires: 2, Maker: "user:root", Note: "laptop"}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for field, change := range map[string]func(*Credential){
		"subject":       func(c *Credential) { c.Subject = "group:ml" },
		"groups[0]":     func(c *Credential) { c.Groups = []string{"m l"} },
		"groups":        func(c *Credential) { c.Groups = make([]string, MaxGroups+1) },
		"hash":          func(c *Credential) { c.Hash = strings.Repeat("A", 64) },
		"role":          func(c *Credential) { c.Role = "king" },
		"namespaces[0]": func(c *Credential) { c.Namespaces = []string{""} },
		"made":          func(c *Credential) { c.Made = 0 },
		"expires":       func(c *Credential) { c.Expires = MaxMoment + 1 },
		"maker":         func(c *Credential) { c.Maker = strings.Repeat("x", MaxText+1) },
		"note":          func(c *Credential) { c.Note = "\xff" },
	} {
		c := good
		change(&c)
		if err := c.Validate(); !Is(err, Invalid) || !strings.HasPrefix(err.Error(), field+": ") {
			t.Errorf("%s: %v", field, err)
		}
	}
}
