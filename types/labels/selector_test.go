package labels

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/types"
)

func TestMatches(t *testing.T) {
	vision := []types.Label{{Name: "acme.com/owner", Value: "ada"}, {Name: "stage", Value: ""}, {Name: "team", Value: "vision"}}
	for text, want := range map[string]bool{
		"team=vision":                         true,
		"team==vision":                        true,
		" team = vision ":                     true,
		"team=speech":                         false,
		"team!=vision":                        false,
		"team!=speech":                        true,
		"none!=x":                             true,
		"none=x":                              false,
		"none=":                               false,
		"stage=":                              true,
		"stage!=":                             false,
		"team":                                true,
		"none":                                false,
		"!none":                               true,
		"! none":                              true,
		"!team":                               false,
		"team in (speech,vision)":             true,
		"team in ( speech , vision )":         true,
		"team in (speech)":                    false,
		"none in (x)":                         false,
		"team notin (speech, vision)":         false,
		"team notin (speech)":                 true,
		"none notin (x)":                      true,
		"stage in (,dev)":                     true,
		"acme.com/owner=ada":                  true,
		"team=vision,stage!=dev":              true,
		"team=vision,stage!=dev,!team":        false,
		"team in (vision,a),none notin (a,b)": true,
		"in in (a)":                           false,
		"in,notin":                            false,
	} {
		s, err := Parse("selector", text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := s.Matches(vision); got != want {
			t.Errorf("%q: %t", text, got)
		}
		again, err := Parse("selector", s.String())
		if err != nil || again.String() != s.String() || again.Matches(vision) != want {
			t.Errorf("%q: %q is read as %q, %v", text, s, again, err)
		}
	}
	if s := (Selector{}); !s.IsZero() || !s.Matches(nil) || s.String() != "" {
		t.Errorf("the empty selector: %q", s)
	}
}

func TestParseRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "selector: is empty: write labels like team=vision, or leave it out",
		" ":                             "is empty",
		",":                             `"" is not a requirement: write team=vision,`,
		"a=b,":                          `"" is not a requirement`,
		"a=b,,c=d":                      `"" is not a requirement`,
		"=b":                            `"=b" is not a requirement`,
		"!":                             `"!" is not a requirement`,
		"!=x":                           `"!=x" is not a requirement`,
		"a b":                           `"a b" is not a requirement`,
		"a within (b)":                  `"a within (b)" is not a requirement`,
		"a in b":                        `"a in b" is not a requirement`,
		"a in (b":                       `"a in (b" is not a requirement`,
		"a in b)":                       `"a in b)" is not a requirement`,
		"a in ()":                       `"a in ()" is not a requirement`,
		"a in ((b))":                    `selector.a: "(b)" contains '('`,
		"(a=b)":                         `"(a=b)" is not a requirement`,
		"team=vi sion":                  `selector.team: "vi sion" contains ' ': use letters`,
		"team=-x":                       "must begin and end with a letter or a digit",
		"te$m=x":                        `selector: "te$m" contains '$'`,
		"a=b=c":                         `selector.a: "b=c" contains '='`,
		"!a=b":                          `"!a" contains '!'`,
		"Acme.com/a=b":                  `"Acme.com/a" begins with no domain: write a key like team, or acme.com/team`,
		"/a=b":                          "begins with no domain",
		"a.com/=b":                      "is empty: give it a name",
		strings.Repeat("a,", 300) + "a": "has 301 requirements: at most 256 are allowed",
		"a in (" + strings.Repeat("b,", 300) + "b)": "selector.a: has 301 values",
		"a=" + strings.Repeat("b", 64):              "has 64 bytes: at most 63 are allowed",
		strings.Repeat("a.", 127) + "a/b=c":         "begins with no domain",
	} {
		if s, err := Parse("selector", text); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %q, %v, want %q", text, s, err, want)
		}
	}
}

func TestExactly(t *testing.T) {
	for text, want := range map[string]string{"a=b": "a=b", "a=b,c==d": "a=b,c=d", "a": "-", "a!=b": "-", "a in (b,c)": "-", "a=": "-"} {
		s, err := Parse("selector", text)
		if err != nil {
			t.Fatal(err)
		}
		labels, ok := s.Exactly()
		if got := types.LabelsText(labels); ok != (want != "-") || ok && got != want {
			t.Errorf("%s: %q, %t", text, got, ok)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("team=vision,stage!=dev,env in (a,b),key,!key")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse("selector", text)
		if err != nil {
			return
		}
		again, err := Parse("selector", s.String())
		if err != nil || again.String() != s.String() {
			t.Errorf("%q: %q is read as %q, %v", text, s, again, err)
		}
	})
}
