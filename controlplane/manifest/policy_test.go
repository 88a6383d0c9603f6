package manifest_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// side is a text with few allowed values.
type side string

// Choices returns the allowed values.
func (side) Choices() []string { return []string{"left", "right"} }

// team has teams.
type team struct {
	Weight float64         `json:"weight,omitempty" desc:"how much of it"`
	Teams  map[string]team `json:"teams,omitempty" desc:"what it is made of"`
}

// packed has parameters of every type.
type packed struct {
	Over  side           `json:"over" desc:"which side"`
	Most  int            `json:"most,omitempty" desc:"how many at most"`
	Wait  types.Duration `json:"wait,omitempty" desc:"how long"`
	Names []string       `json:"names,omitempty" desc:"which ones"`

	cached int
}

// Validate checks the values.
func (p *packed) Validate() error {
	var errs []error
	if p.cached = p.Most; p.Most < 0 {
		errs = append(errs, types.Errorf(types.Invalid, "most: %d is negative: give at least 1", p.Most))
	}
	for i, name := range p.Names {
		if name == "" {
			errs = append(errs, types.Errorf(types.Invalid, "names[%d]: is empty: give a name", i))
		}
	}
	return errors.Join(errs...)
}

// known returns some policies.
func known() manifest.Policies {
	return manifest.Policies{
		"pack":   {New: func() any { return &packed{} }, Job: true, Desc: "packs them"},
		"plain":  {New: func() any { return &struct{}{} }, Job: true},
		"both":   {New: func() any { return &struct{}{} }, Job: true, Shared: true},
		"shares": {New: func() any { return &team{} }, Shared: true, Use: &manifest.UseText{Key: "lab", Pattern: "^[a-z/]+$", Desc: "of the lab", Policy: "pack", With: useLab}},
	}
}

// useLab reads names separated by slashes. Those that begin with a capital are of another kind.
func useLab(text string) (map[string]any, error) {
	switch {
	case text == "":
		return nil, types.Errorf(types.Invalid, "lab: %q names nothing: write a name", text)
	case text < "a":
		return nil, nil
	}
	return map[string]any{"over": "left", "names": strings.Split(text, "/")}, nil
}

// policies returns the beginning of a job with policies.
func policies(text string) string {
	return head(manifest.KindJob) + "template:\n  spec: {image: a}\npolicies:\n" + text
}

func TestPoliciesAreReadAsTheirLibraryHasThem(t *testing.T) {
	text := policies("- name: pack\n  with: {wait: 90s, over: left, names: [a, b]}\n- {name: plain}\n- {name: both, with: {}}\n"+
		"- name: acme.com/even\n  with: {b: [1, {c: 0.10}], a: x}\n") + "---\n" +
		head(manifest.KindPolicy) + "name: all\npolicy: {name: both}\n---\n" +
		head(manifest.KindPolicy) + "name: teams\npolicy:\n  name: shares\n  with: {teams: {a: {weight: 2, teams: {b: {weight: 0.5}}}}}\n"
	docs, err := manifest.Parse("f", []byte(text), known())
	if err != nil || !admits(t, compiled(t), text) {
		t.Fatal(err)
	}
	got := make([]types.Policy, len(docs[0].Job.Policies))
	for i, p := range docs[0].Job.Policies {
		got[i] = stored(t, p)
	}
	for i, want := range []types.Policy{
		{Kind: "pack", With: `{"over":"left","wait":"1m30s","names":["a","b"]}`},
		{Kind: "plain"},
		{Kind: "both"},
		{Kind: "acme.com/even", With: `{"a":"x","b":[1,{"c":0.10}]}`},
	} {
		if got[i] != want {
			t.Errorf("%+v, want %+v", got[i], want)
		}
	}
	shared := docs[2].Policy
	if want := `{"teams":{"a":{"weight":2,"teams":{"b":{"weight":0.5}}}}}`; docs[2].String() != "policy teams" || stored(t, shared.Policy).With != want {
		t.Errorf("%s: %+v, want %s", &docs[2], shared, want)
	}
}

// Parse and the schema both refuse these policies.
func TestBothRefusePolicies(t *testing.T) {
	s := compiled(t)
	for text, says := range map[string]string{
		"- {name: pak}\n":                             `f:6: policies[0].name: "pak" is unknown: did you mean pack?`,
		"- {name: everything}\n":                      `f:6: policies[0].name: "everything" is unknown: use both, pack, plain, or another party's policy`,
		"- {name: shares}\n":                          "f:6: policies[0].name: shares is shared by jobs: declare it in its own document, with kind: Policy",
		"- {name: sharse}\n":                          `f:6: policies[0].name: "sharse" is unknown: did you mean shares?`,
		"- pack\n":                                    `f:6: policies[0]: "pack" is given: write {name: pack}`,
		"- {with: {}}\n":                              "f:6: policies[0].name: is missing",
		"- {name: pack, wiht: {over: left}}\n":        "f:6: policies[0].wiht: is unknown: did you mean with?",
		"- {name: pack}\n":                            "f:6: policies[0].with.over: is missing: give which side",
		"- {name: pack, with: left}\n":                `f:6: policies[0].with: "left" is given: write fields, such as over`,
		"- name: pack\n  with: {over: up}\n":          `f:7: policies[0].with.over: "up" is unknown: use left or right`,
		"- name: pack\n  with: {over: left, mst: 1}":  "f:7: policies[0].with.mst: is unknown: did you mean most?",
		"- {name: pack, with: {over: left, wait: 3}}": "f:6: policies[0].with.wait: 3 is not a duration",
		"- {name: plain, with: {a: 1}}":               "f:6: policies[0].with.a: is unknown: this object has no fields: leave it out",
		"- {name: acme.com/even, with: 3}":            `f:6: policies[0].with: "3" is given: write fields`,
		"- {name: plain}\n---\n" + head(manifest.KindPolicy) + "name: p\npolicy: {name: pack, with: {over: left}}\n":      "f:11: policy.name: pack belongs to one job: add it to the policies of that",
		"- {name: plain}\n---\n" + head(manifest.KindPolicy) + "name: p\npolicy: {name: shares, with: {weight: heavy}}\n": `f:11: policy.with.weight: "heavy" is given: write a number`,
	} {
		text = policies(text)
		_, err := manifest.Parse("f", []byte(text), known())
		refused(t, err, text, says)
		if admits(t, s, text) {
			t.Errorf("the schema admits\n%s", text)
		}
	}
}

// Only Parse refuses these policies, all at once, with the line of each field.
func TestValuesOfPoliciesAreChecked(t *testing.T) {
	text := policies("- name: pack\n  with:\n    over: left\n    most: -1\n    names: [a, \"\"]\n- name: acme/even\n")
	_, err := manifest.Parse("f", []byte(text), known())
	if err == nil {
		t.Fatal("it is accepted")
	}
	want := []string{
		"f:9: policies[0].with.most: -1 is negative: give at least 1",
		"f:10: policies[0].with.names[1]: is empty: give a name",
		`f:11: policies[1].name: "acme/even" has no domain: write it like acme.com/even`,
	}
	got := strings.Split(err.Error(), "\n")
	if len(got) != len(want) {
		t.Fatalf("got\n%s", err)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("got  %s\nwant %s", got[i], want[i])
		}
	}
}

// JSON lacks such numbers; the error has their text.
func TestNumbersAreFinite(t *testing.T) {
	text := policies("- {name: acme.com/even, with: {a: .inf}}\n")
	_, err := manifest.Parse("f", []byte(text), known())
	refused(t, err, text, "f:6: policies[0].with: .inf is given: write a finite number")
}

func TestTasksHaveNoPolicies(t *testing.T) {
	text := head(manifest.KindTask) + taskText + "policies: [{name: plain}]\n"
	_, err := manifest.Parse("f", []byte(text), known())
	refused(t, err, text, "f:7: policies: is unknown: it belongs to a job: write kind: Job, with the task as its template")
}

// stored returns the stored form of a policy.
func stored(t *testing.T, p manifest.Policy) types.Policy {
	t.Helper()
	text, err := json.Marshal(p.With)
	if err != nil {
		t.Fatal(err)
	}
	return types.Policy{Kind: p.Name, With: strings.TrimPrefix(string(text), "{}")}
}

func TestPolicyOnALine(t *testing.T) {
	for text, want := range map[string]types.Policy{
		`pack={"over": "left"}`:      {Kind: "pack", With: `{"over":"left"}`},
		`pack={over: left, most: 2}`: {Kind: "pack", With: `{"over":"left","most":2}`},
		"plain":                      {Kind: "plain"},
		"a.b/c={x: 1}":               {Kind: "a.b/c", With: `{"x":1}`},
	} {
		p, _, err := manifest.ReadPolicy(text, known())
		if got := stored(t, p); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for text, says := range map[string]string{
		"pak":                     `pak: name: "pak" is unknown: did you mean pack?`,
		"pack":                    "pack: with.over: is missing",
		"pack=":                   `pack: "" is not an object: write it such as pack=`,
		"pack={":                  `pack: "{" is not an object`,
		"pack={over: up, mst: 1}": `pack: with.over: "up" is unknown: use left or right`,
		"shares":                  "shares: name: shares is shared by jobs",
		"":                        `: name: "" is unknown`,
	} {
		_, _, err := manifest.ReadPolicy(text, known())
		if !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, says)
		}
	}
}

// TestReadPolicyToTheEnd appends text to the parameters.
func TestReadPolicyToTheEnd(t *testing.T) {
	known := manifest.Policies{"gang": {New: func() any { return &struct{}{} }, Job: true}}
	for text, ok := range map[string]bool{"gang={}": true, "gang={} ": true, "gang={}x": false, "gang={}\n---\n{a: 1}": false, "gang=": false} {
		if _, _, err := manifest.ReadPolicy(text, known); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
