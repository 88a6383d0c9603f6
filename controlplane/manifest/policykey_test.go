package manifest_test

import (
	"reflect"
	"testing"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// keyed returns the beginning of a job with policies by their own names.
func keyed(text string) string {
	return head(manifest.KindJob) + "template:\n  spec: {image: a}\n" + text
}

// TestPoliciesByTheirNames checks that keys mean the same as entries of the list, in the order of
// the file, after those of the list.
func TestPoliciesByTheirNames(t *testing.T) {
	s := compiled(t)
	for text, want := range map[string][]types.Policy{
		"pack: {over: left, most: 2}\n":                               {{Kind: "pack", With: `{"over":"left","most":2}`}},
		"plain: {}\nboth: {}\npack: {over: right}\n":                  {{Kind: "plain"}, {Kind: "both"}, {Kind: "pack", With: `{"over":"right"}`}},
		"both: {}\nplain: {}\npolicies: [{name: acme.com/even}]\n":    {{Kind: "acme.com/even"}, {Kind: "both"}, {Kind: "plain"}},
		"lab: team/alice\n":                                           {{Kind: "pack", With: `{"over":"left","names":["team","alice"]}`}},
		"policies: [{name: plain}]\nplain: {}\nlab: a\n":              {{Kind: "plain"}, {Kind: "plain"}, {Kind: "pack", With: `{"over":"left","names":["a"]}`}},
		"pack: &p {over: left}\npolicies: [{name: pack, with: *p}]\n": {{Kind: "pack", With: `{"over":"left"}`}, {Kind: "pack", With: `{"over":"left"}`}},
	} {
		docs, err := manifest.Parse("f", []byte(keyed(text)), known())
		if err != nil || !admits(t, s, keyed(text)) {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []types.Policy
		for _, p := range docs[0].Job.Policies {
			got = append(got, stored(t, p))
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngot  %+v\nwant %+v", text, got, want)
		}
	}
	declared := head(manifest.KindPolicy) + "name: p\nshares: {weight: 2}\n"
	docs, err := manifest.Parse("f", []byte(declared), known())
	if err != nil || !admits(t, s, declared) || stored(t, docs[0].Policy.Policy) != (types.Policy{Kind: "shares", With: `{"weight":2}`}) {
		t.Errorf("%+v, %v", docs, err)
	}
}

// TestBothRefusePoliciesByTheirNames: Parse and the schema both refuse these documents.
func TestBothRefusePoliciesByTheirNames(t *testing.T) {
	s := compiled(t)
	shared := head(manifest.KindPolicy) + "name: p\n"
	for text, says := range map[string]string{
		keyed("pak: {over: left}\n"):                              "f:5: pak: is unknown: did you mean pack?",
		keyed("pack: {over: left, mst: 1}\n"):                     "f:5: pack.mst: is unknown: did you mean most?",
		keyed("pack:\n  most: 1\n"):                               "f:6: pack.over: is missing: give which side",
		keyed("pack: {over: up}\n"):                               `f:5: pack.over: "up" is unknown: use left or right`,
		keyed("pack: left\n"):                                     `f:5: pack: "left" is given: write its parameters, such as {over: …}`,
		keyed("pack: [left]\n"):                                   "f:5: pack: a list is given: write fields, such as over: …",
		keyed("plain:\n"):                                         "f:5: plain: is empty: write its parameters, {}",
		keyed("plain: true\n"):                                    `f:5: plain: "true" is given: write its parameters, {}`,
		keyed("shares: {weight: 1}\n"):                            "f:5: shares: is unknown: shares is shared by jobs: declare it in its own document",
		keyed("lab: {weight: 1}\n"):                               "f:5: lab: a group of fields is given: write the name of a declared one, and declare it in its own document, with kind: Policy",
		keyed("lab: 5\n"):                                         `f:5: lab: 5 is not a text: write it in quotes, "5"`,
		keyed("lab: \"\"\n"):                                      `f:5: lab: "" names nothing: write a name`,
		keyed("lab: Z\n"):                                         `f:5: lab: "Z" names no declared policy: write its name`,
		keyed("acme.com/even: {}\n"):                              "f:5: acme.com/even: is unknown: write it in policies, as {name: acme.com/even, with: {…}}",
		head(manifest.KindTask) + "plain: {}\nspec: {image: a}\n": "f:3: plain: is unknown: it belongs to a job: write kind: Job, with the task as its template",
		head(manifest.KindJob) + "template: {plain: {}, spec: {image: a}}\n": "f:3: template.plain: is unknown: it belongs to a job: write it beside template",
		shared:                            "f:1: policy: is missing: give what it is, unless",
		shared + "shares: {}\nboth: {}\n": "f:5: both: is a second policy, the first is in line 4: write a document for each",
		shared + "shares: {}\npolicy: {name: both}\n": "f:4: shares: is a second policy, the first is in line 5: write a document for each",
		shared + "pack: {over: left}\n":               "f:4: pack: is unknown: pack belongs to one job: add it to the policies of that job",
		shared + "shares: {weight: heavy}\n":          `f:4: shares.weight: "heavy" is given: write a number`,
		shared + "lab: p\n":                           "f:4: lab: is unknown: use name, policy, session, both, shares",
	} {
		_, err := manifest.Parse("f", []byte(text), known())
		refused(t, err, text, says)
		if admits(t, s, text) {
			t.Errorf("the schema admits\n%s", text)
		}
	}
}
