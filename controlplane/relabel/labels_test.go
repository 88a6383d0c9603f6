package relabel_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane/relabel"
	"github.com/escher-sched/escher/types"
)

// TestRelabel changes the labels of a node that its agent registers with rack=r1,zone=a. Each step is
// a change by an administrator, or, as "agent: …", a registration with these labels.
func TestRelabel(t *testing.T) {
	for _, test := range []struct {
		steps []string
		want  string
	}{
		{[]string{"team=x"}, "rack=r1,team=x,zone=a"},
		{[]string{"team=x", "agent: rack=r1 zone=a"}, "rack=r1,team=x,zone=a"},
		{[]string{"team=x", "team=x"}, "rack=r1,team=x,zone=a (unchanged)"},
		{[]string{"rack=r1"}, "rack=r1,zone=a (unchanged)"},
		{[]string{"team=x", "team=y"}, `label.team: is "x" already: overwrite it to make it "y"`},
		{[]string{"team=x", "!team=y"}, "rack=r1,team=y,zone=a"},
		{[]string{"rack=r2"}, `label.rack: is "r1" already`},
		{[]string{"!rack=r2", "agent: rack=r1 zone=a"}, "rack=r2,zone=a"},
		{[]string{"!rack=r2", "agent: rack=r3 zone=a"}, "rack=r2,zone=a"},
		{[]string{"!rack=r2", "rack-"}, "zone=a"},
		{[]string{"!rack=r2", "rack-", "agent: rack=r1 zone=a"}, "zone=a"},
		{[]string{"rack-", "agent: rack=r1 zone=a"}, "zone=a"},
		{[]string{"rack-", "rack=r1", "agent: rack=r1"}, "rack=r1"},
		{[]string{"rack-", "agent: zone=a", "agent: rack=r1 zone=a"}, "rack=r1,zone=a"},
		{[]string{"rack-", "rack-"}, "zone=a (unchanged)"},
		{[]string{"team=x zone=b"}, `label.zone: is "a" already`},
		{[]string{"team=x rack-"}, "team=x,zone=a"},
		{[]string{"team=x team-"}, "label.team: is added and removed at once"},
		{[]string{"team=x team=y"}, "label.team: is given twice"},
		{[]string{"te$m=x"}, `label: "te$m" contains '$'`},
		{[]string{"te$m-"}, `label: "te$m" contains '$'`},
		{[]string{"team=a+b"}, `label.team: "a+b" contains '+'`},
		{[]string{"team="}, "rack=r1,team=,zone=a"},
		{[]string{"agent: "}, ""},
		{[]string{"agent: ", "none-"}, " (unchanged)"},
	} {
		n := &types.Node{Labels: []types.Label{{Name: "rack", Value: "r1"}, {Name: "zone", Value: "a"}}}
		var got string
		for _, step := range test.steps {
			got = apply(t, n, step)
			if err := n.Validate(); err != nil {
				t.Errorf("%v: %v", test.steps, err)
			}
		}
		if got != test.want && (!strings.HasPrefix(test.want, "label") || !strings.HasPrefix(got, test.want)) {
			t.Errorf("%v: %s, want %s", test.steps, got, test.want)
		}
	}
	full := &types.Node{}
	for i := range types.MaxLabels {
		full.Labels = append(full.Labels, types.Label{Name: fmt.Sprint("k", i)})
	}
	more := []types.Label{{Name: "one", Value: "more"}}
	if _, err := relabel.Apply(full, relabel.Change{Add: more}); !types.Is(err, types.Invalid) || len(full.Labels) != types.MaxLabels {
		t.Errorf("a label too many: %v", err)
	}
	if changed, err := relabel.Apply(full, relabel.Change{Add: more, Remove: []string{"k7"}}); err != nil || !changed {
		t.Errorf("one for another: %v", err)
	}
}

// apply makes one step of TestRelabel, and returns the labels then, or the error. An error changes
// nothing.
func apply(t *testing.T, n *types.Node, step string) string {
	if given, ok := strings.CutPrefix(step, "agent: "); ok {
		again := &types.Node{Labels: parseLabels(t, given)}
		relabel.Inherit(again, n)
		*n = *again
		return types.LabelsText(n.Labels)
	}
	step, overwrite := strings.CutPrefix(step, "!")
	var add, remove []string
	for _, word := range strings.Fields(step) {
		if key, ok := strings.CutSuffix(word, "-"); ok {
			remove = append(remove, key)
		} else {
			add = append(add, word)
		}
	}
	before := fmt.Sprint(n.Labels, n.SetLabels, n.HiddenLabels)
	changed, err := relabel.Apply(n, relabel.Change{Add: parseLabels(t, strings.Join(add, " ")), Remove: remove, Overwrite: overwrite})
	switch after := fmt.Sprint(n.Labels, n.SetLabels, n.HiddenLabels); {
	case changed != (before != after):
		t.Errorf("%s: changed is %t, from %s to %s", step, changed, before, after)
	case err != nil:
		return err.Error()
	case !changed:
		return types.LabelsText(n.Labels) + " (unchanged)"
	}
	return types.LabelsText(n.Labels)
}

func parseLabels(t *testing.T, text string) []types.Label {
	t.Helper()
	var out []types.Label
	for _, word := range strings.Fields(text) {
		key, value, _ := strings.Cut(word, "=")
		out = append(out, types.Label{Name: key, Value: value})
	}
	return out
}
