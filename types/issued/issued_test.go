package issued

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/escher-sched/escher/types"
)

// TestName is a table of texts and their names, which are names of Escher.
func TestName(t *testing.T) {
	for text, want := range map[string]string{
		"oidc:alice@example.org": "oidc_3aalice_40example_2eorg",
		"oidc:a_b":               "oidc_3aa_5fb",
		"oidc:a-b-":              "oidc_3aa-b_2d",
		"oidc:/team/ml x":        "oidc_3a_2fteam_2fml_20x",
		"alice":                  "alice",
		"alice.smith_2e":         "alice.smith_2e", // one that an administrator chose
	} {
		if got := Name(text); got != want || Text(got) != text || !types.IsName(got) {
			t.Errorf("%q: %q and back %q, want %q", text, got, Text(got), want)
		}
		if got := Subject("user:" + text); got != "user:"+want || SubjectText(got) != "user:"+text {
			t.Errorf("%q: %q", text, got)
		}
	}
	// These are no names of texts.
	for _, name := range []string{"a_3", "a_3a_", "a_3ab_61", "a_3A", "a_3a_0a", "a_40b", "a_3a.b", "a_3a_zz", "a_3a_20"} {
		if got := Text(name); got != name {
			t.Errorf("%q: %q", name, got)
		}
	}
	if got := Subject("alice"); got != "alice" {
		t.Errorf("%q", got)
	}
	if got := Subject("oidc:bob"); got != "oidc_3abob" {
		t.Errorf("%q", got)
	}
	if got := SubjectText("oidc_3aalice"); got != "oidc:alice" {
		t.Errorf("%q", got)
	}
}

// TestNameIsOneToOne: a text has one name and a name one text, and no name of an issued text is
// that of another text.
func TestNameIsOneToOne(t *testing.T) {
	texts := rapid.StringMatching(`[a-z][a-z0-9_.-]{0,3}:[ -~]{0,8}[!-~]`)
	rapid.Check(t, func(t *rapid.T) {
		a, b := texts.Draw(t, "a"), texts.Draw(t, "b")
		if Text(Name(a)) != a || (Name(a) == Name(b)) != (a == b) || strings.ContainsAny(Name(a), ":.@") {
			t.Fatalf("%q, %q: %q, %q", a, b, Name(a), Name(b))
		}
		name := rapid.StringMatching(`[a-z0-9]([a-z0-9_.-]|_3a|_40){0,8}[a-z0-9]`).Draw(t, "name")
		if back := Name(Text(name)); back != name {
			t.Fatalf("%q: %q", name, back)
		}
	})
}

// TestValidate is a table of texts that a claim may have.
func TestValidate(t *testing.T) {
	for text, says := range map[string]string{
		"alice@example.org":       "",
		"a b":                     "",
		"":                        "is empty",
		"a\nb":                    "not printable",
		"a\x1b[31m":               "not printable",
		"älice":                   "not printable",
		" a":                      "not printable",
		strings.Repeat("a", 56):   "",
		strings.Repeat("a", 57):   "has 64 bytes, and at most 63",
		strings.Repeat("@", 1000): "at most 63",
	} {
		err := Validate("email", "oidc:", text)
		if says == "" && err != nil || says != "" && (!types.Is(err, types.Invalid) || !strings.Contains(err.Error(), says)) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
	if err := Validate("email", ".:", "a"); !types.Is(err, types.Invalid) {
		t.Errorf("a prefix that is no name: %v", err)
	}
}
