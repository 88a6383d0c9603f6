package types

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestValidateLabels(t *testing.T) {
	long, domain := strings.Repeat("a", MaxName), strings.Repeat("a.", 126)+"a"
	for _, l := range []Label{{"team", "vision"}, {"team", ""}, {"acme.com/team", "a_b.c-d"}, {long, long}, {domain + "/" + long, long}, {"A", "B"}} {
		if err := ValidateLabels("labels", []Label{l}); err != nil {
			t.Errorf("%v: %v", l, err)
		}
	}
	many := make([]Label, MaxLabels+1)
	for i := range many {
		many[i].Name = fmt.Sprint("k", i)
	}
	if err := ValidateLabels("labels", many[1:]); err != nil {
		t.Error(err)
	}
	for want, labels := range map[string][]Label{
		`labels.team: "my team" contains ' ': use letters, digits`: {{"team", "my team"}},
		`labels: "my key" contains ' ': use letters`:               {{"my key", "x"}},
		`labels: is empty: give it a name`:                         {{"", "x"}},
		`labels: "a/b/c" contains`:                                 {{"a.b/b/c", "x"}},
		`labels: "/a" begins with no domain`:                       {{"/a", "x"}},
		`labels: "A.com/a" begins with no domain`:                  {{"A.com/a", "x"}},
		`labels: "a_b/a" begins with no domain`:                    {{"a_b/a", "x"}},
		`at most 253 bytes before the slash`:                       {{domain + "aa/b", "x"}},
		`labels.team: "-x" must begin and end`:                     {{"team", "-x"}},
		`has 64 bytes: at most 63 are allowed, shorten it`:         {{"team", long + "a"}},
		`labels.a: is given twice, as "1" and "2": drop one`:       {{"a", "1"}, {"b", ""}, {"a", "2"}},
		`labels: has 257: at most 256 are allowed, drop some`:      many,
	} {
		want = strings.ReplaceAll(want, `"a/b/c"`, `"b/c"`)
		if err := ValidateLabels("labels", labels); !Is(err, Invalid) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80v: %v, want %s", labels, err, want)
		}
	}
	for text, want := range map[string]string{"a=b": "a=b", "a=": "a=", "a.b/c=d": "a.b/c=d", "a": `label: "a" is not key=value`, "a=b=c": "label.a: ", "=x": "label: is empty"} {
		l, err := ParseLabel("label", text)
		if got := LabelsText([]Label{l}); err == nil && got != want || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	// The largest labels fit a task.
	for i := range many {
		many[i] = Label{Name: domain + "/" + fmt.Sprintf("%063d", i), Value: long}
	}
	task := Task{Labels: many[1:], Requests: Requests{{Name: "cpu", Amount: 1}}}
	if err := task.Validate(); err != nil {
		t.Error(err)
	}
	if n := len(Encode(0, &task)); n > MaxTaskBytes {
		t.Errorf("it has %d bytes", n)
	}
}

func TestMergeLabels(t *testing.T) {
	job, own := []Label{{"b", "job"}, {"a", "job"}}, []Label{{"c", "own"}, {"b", "own"}}
	if got := LabelsText(MergeLabels(job, own)); got != "a=job,b=own,c=own" {
		t.Error(got)
	}
	if got := LabelsText(MergeLabels(job, nil)); got != "a=job,b=job" || job[0].Name != "b" {
		t.Error(got, job)
	}
	if MergeLabels(nil, []Label{}) != nil || LabelsOf(nil) != nil || LabelMap(nil) != nil {
		t.Error("no labels are not nil")
	}
	if got := LabelsOf(LabelMap(MergeLabels(job, own))); !slices.Equal(got, MergeLabels(job, own)) {
		t.Error(got)
	}
}

// TestTunnelAddress: the address of a tunnel has nothing after its scheme.
func TestTunnelAddress(t *testing.T) {
	for address, want := range map[string]bool{TunnelAddress: true, "": true, "https://h:1": true, "unix:/x": true, "tunnel:x": false, "tunnel://h:1": false} {
		err := (&Node{Address: address}).Validate()
		if (err == nil) != want || err != nil && !strings.Contains(err.Error(), "address: ") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
