package manifest_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// renamed returns a policy with two former names and parameters of many types.
func renamed() manifest.Policies {
	return manifest.Policies{"pack": {
		New: func() any { return &packed{} }, Job: true,
		Former: []manifest.Former{
			{Name: "press", Fields: map[string]string{"over": "side", "most": "max", "wait": "wait"}},
			{Name: "left", With: map[string]string{"over": "left", "wait": "5s"}},
		},
	}}
}

// TestFormerPolicies checks that a former name and former fields mean the present ones, with a notice.
func TestFormerPolicies(t *testing.T) {
	for text, want := range map[string]struct{ with, notice string }{
		`press={side: left}`:                   {`{"over":"left"}`, "policy press is called pack now, and its field max is called most, and its field side is called over: change it"},
		`press={side: left, max: 2}`:           {`{"over":"left","most":2}`, "policy press is called pack now"},
		`press={over: right, most: 2}`:         {`{"over":"right","most":2}`, "policy press is called pack now"},
		`left`:                                 {`{"over":"left","wait":"5s"}`, "policy left is called pack now: change it before the next release"},
		`left={wait: 7s, most: 1}`:             {`{"over":"left","most":1,"wait":"7s"}`, "policy left is called pack now"},
		`left={over: right, wait: 1s}`:         {`{"over":"right","wait":"1s"}`, "policy left is called pack now"},
		`pack={over: left, names: [side, ""]}`: {"", ""},
		`pack={over: left, names: [side]}`:     {`{"over":"left","names":["side"]}`, ""},
	} {
		p, notice, err := manifest.ReadPolicy(text, renamed())
		if want.with == "" {
			if !types.Is(err, types.Invalid) {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if got := stored(t, p); err != nil || got != (types.Policy{Kind: "pack", With: want.with}) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
		if !strings.HasPrefix(notice, want.notice) || (notice == "") != (want.notice == "") {
			t.Errorf("%s: notice %q, want %q", text, notice, want.notice)
		}
	}
	for text, says := range map[string]string{
		`press={side: left, over: right}`: "press: with.side: is unknown",
		`press={max: 2}`:                  "press: with.over: is missing",
		`press=3`:                         `press: with: "3" is given: write fields`,
		`left=[a]`:                        "left: with: a list is given: write fields",
		`pack={side: left}`:               "pack: with.side: is unknown",
		`pres={side: left}`:               `pres: name: "pres" is unknown`,
	} {
		if _, _, err := manifest.ReadPolicy(text, renamed()); !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), says) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, says)
		}
	}
}

// TestFormerPoliciesInFiles checks the line of the notice about a former name.
func TestFormerPoliciesInFiles(t *testing.T) {
	docs, err := manifest.Parse("f", []byte(policies("- with: {side: left}\n  name: press\n")), renamed())
	if err != nil {
		t.Fatal(err)
	}
	if n := docs[0].Notices; len(n) != 1 || n[0].Line != 7 || docs[0].Job.Policies[0].Name != "pack" {
		t.Errorf("%+v, %+v", n, docs[0].Job.Policies)
	}
}

// TestMakePolicy checks the values that parameters of a program may have.
func TestMakePolicy(t *testing.T) {
	for _, test := range []struct {
		with map[string]any
		want string
		says string
	}{
		{map[string]any{"over": "left", "most": 3, "wait": 90 * time.Second, "names": []string{"a"}}, `{"over":"left","most":3,"wait":"1m30s","names":["a"]}`, ""},
		{map[string]any{"over": "left", "names": []any{"a", "b"}}, `{"over":"left","names":["a","b"]}`, ""},
		{map[string]any{"over": true}, "", "pack: with.over: true is not a text"},
		{map[string]any{"over": "left", "most": "3"}, "", `pack: with.most: "3" is given: write a whole number`},
		{map[string]any{"over": "left", "most": 1.5}, "", "pack: with.most: is empty"},
		{map[string]any{"over": map[string]any{"a": "b"}}, "", "pack: with.over: a group of fields is given: write a text"},
		{map[string]any{"over": "left", "most": -1, "names": []string{""}}, "", "pack: with.most: -1 is negative: give at least 1\npack: with.names[0]: is empty"},
		{nil, "", "pack: with.over: is missing"},
	} {
		p, _, err := manifest.MakePolicy("pack", test.with, known())
		if test.says != "" {
			if !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), test.says) {
				t.Errorf("%v\ngot  %v\nwant %s", test.with, err, test.says)
			}
			continue
		}
		if got := stored(t, p); err != nil || got.With != test.want {
			t.Errorf("%v: %+v, %v", test.with, got, err)
		}
	}
}

// TestArraysOfJobs checks the index of each task, and that the limit of an array becomes a policy.
func TestArraysOfJobs(t *testing.T) {
	limit := manifest.Policies{"limit": {New: func() any {
		return &struct {
			AtOnce int `json:"atOnce" desc:"how many"`
		}{}
	}, Job: true}}
	docs, err := manifest.Parse("f", []byte(head(manifest.KindJob)+"name: j\narray: {indices: \"5,1-2\", atOnce: 2}\nlabels: {a: x, b: y}\ntemplate:\n  labels: {b: z}\n  spec: {image: a}\n"), limit)
	if err != nil {
		t.Fatal(err)
	}
	j := docs[0].Job
	if len(j.Policies) != 1 || stored(t, j.Policies[0]) != (types.Policy{Kind: "limit", With: `{"atOnce":2}`}) {
		t.Errorf("%+v", j.Policies)
	}
	subs, err := j.Submissions(time.Unix(0, 0))
	if err != nil || len(subs) != 3 {
		t.Fatal(subs, err)
	}
	for i, index := range []int{5, 1, 2} {
		x := subs[i].Task
		if x.Index != index || x.Count != 3 || x.Name != "j" || !reflect.DeepEqual(x.Labels, []types.Label{{Name: "a", Value: "x"}, {Name: "b", Value: "z"}}) {
			t.Errorf("%d: %+v", i, x)
		}
	}
	for _, bad := range []manifest.Job{
		{},
		{Count: -1, Template: &manifest.Task{}},
		{Count: manifest.MaxTasks + 1, Template: &manifest.Task{}},
		{Tasks: make([]manifest.Task, manifest.MaxTasks+1)},
		{Array: &manifest.Array{Indices: "x"}, Template: &manifest.Task{}},
		{Array: &manifest.Array{Indices: "0-1"}, Template: &manifest.Task{ID: "x"}},
		{Template: &manifest.Task{Deadline: "soon"}},
		{Tasks: []manifest.Task{{}, {Deadline: "soon"}}},
	} {
		if subs, err := bad.Submissions(time.Unix(0, 0)); !types.Is(err, types.Invalid) {
			t.Errorf("%d tasks, %v", len(subs), err)
		}
	}
}
