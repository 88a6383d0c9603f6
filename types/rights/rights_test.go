package rights

import (
	"slices"
	"strings"
	"testing"
)

// TestRoles is the table of what each role may do. A role has the rights of those before it.
func TestRoles(t *testing.T) {
	for _, c := range []struct {
		need  string
		least Role
	}{
		{"read tasks", Viewer}, {"read logs", Viewer}, {"read state", Viewer}, {"read nodes", Viewer}, {"read namespaces", Viewer}, {"read history", Viewer}, {"read secrets", Viewer},
		{"write tasks", Member}, {"write jobs", Member}, {"write policies", Member}, {"write resources", Member}, {"write secrets", Member}, {"enter tasks", Member},
		{"write nodes", Operator}, {"read audit", Operator}, {"write images", Operator}, {"read images", Operator},
		{"write namespaces", Administrator}, {"write rights", Administrator}, {"read tokens", Administrator}, {"read rights", Administrator},
		{"write history", Administrator}, {"enter nodes", Administrator},
	} {
		n, err := ParseNeed(c.need)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range Roles() {
			if want := i >= slices.Index(Roles(), c.least); r.Allows(n) != want {
				t.Errorf("%s, %s: %t, want %t", r, n, r.Allows(n), want)
			}
		}
		if Role("").Allows(n) || Role("root").Allows(n) {
			t.Errorf("a role that does not exist allows %s", n)
		}
	}
}

func TestParse(t *testing.T) {
	for _, text := range []string{"", "read", "read  tasks", "look tasks", "read souls", "read tasks ", "READ tasks", strings.Repeat("x", 1000)} {
		if n, err := ParseNeed(text); err == nil || len(err.Error()) > 400 {
			t.Errorf("%q: %s, %v", text, n, err)
		}
	}
	for _, name := range []string{"", "Viewer", "root"} {
		if r, err := ParseRole(name); err == nil || !strings.Contains(err.Error(), "viewer, member, operator, administrator") {
			t.Errorf("%q: %s, %v", name, r, err)
		}
	}
	for _, k := range Kinds() {
		for _, v := range Verbs() {
			if n, err := ParseNeed((Need{v, k}).String()); err != nil || n != (Need{v, k}) {
				t.Errorf("%s %s: %s, %v", v, k, n, err)
			}
		}
	}
}
