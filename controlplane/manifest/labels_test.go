package manifest_test

import (
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// TestLabels gives tasks the labels of their job, unless they have their own value.
func TestLabels(t *testing.T) {
	for text, want := range map[string][]string{
		"labels: {team: vision, stage: dev}\ncount: 2\ntemplate:\n  labels: {stage: test, acme.com/x: \"1\"}\n  spec: {image: a}\n": {
			"acme.com/x=1,stage=test,team=vision", "acme.com/x=1,stage=test,team=vision"},
		"labels: {team: vision}\ntasks:\n- spec: {image: a}\n- labels: {team: speech, x: \"\"}\n  spec: {image: a}\n": {"team=vision", "team=speech,x="},
		"template:\n  labels: {a: b}\n  spec: {image: a}\n":                                                           {"a=b"},
		"template: {spec: {image: a}}\n":                                                                              {""},
	} {
		docs, err := manifest.Parse("f", []byte(head(manifest.KindJob)+text), known())
		if err != nil {
			t.Fatal(err)
		}
		subs, err := docs[0].Job.Submissions(time.Unix(5, 0))
		if err != nil || len(subs) != len(want) {
			t.Fatal(subs, err)
		}
		for i, s := range subs {
			if got := types.LabelsText(s.Task.Labels); got != want[i] {
				t.Errorf("%s: %s, want %s", text, got, want[i])
			}
		}
	}
	for text, says := range map[string]string{
		"labels: {team: my team}\nspec: {image: a}\n": `f:3: labels.team: "my team" contains ' ': use letters, digits, '-', '_' and '.'`,
		"labels: {my key: a}\nspec: {image: a}\n":     `f:3: labels.my key: "my key" contains ' ': use letters`,
		"labels: {a: 1}\nspec: {image: a}\n":          `f:3: labels.a: 1 is not a text: write it in quotes, "1"`,
		"labels: [a]\nspec: {image: a}\n":             "f:3: labels: a list is given: write names with values, such as {disk: ssd}",
		"labels: {a: {b: c}}\nspec: {image: a}\n":     "f:3: labels.a: a group of fields is given: write a text",
	} {
		_, err := manifest.Parse("f", []byte(head(manifest.KindTask)+text), known())
		refused(t, err, text, says)
	}
}
