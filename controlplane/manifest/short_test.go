package manifest_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"sigs.k8s.io/yaml"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// specOf returns the stored spec of a task in a file that schema admits.
func specOf(t *testing.T, schema *jsonschema.Schema, text string) *types.Spec {
	t.Helper()
	docs, err := manifest.Parse("f", []byte(text), known())
	if err != nil || !admits(t, schema, text) {
		t.Fatalf("%s: %v", text, err)
	}
	s, err := docs[0].Task.Submission(time.Unix(5, 0))
	if err != nil {
		t.Fatal(err)
	}
	return s.Spec
}

// TestShortForms checks that each short form means the same as the long one.
func TestShortForms(t *testing.T) {
	schema := compiled(t)
	head := head(manifest.KindTask) + "name: a\nspec:\n  image: img\n"
	for short, long := range map[string]string{
		"run: train --lr=$LR > /log\n":         `entrypoint: [sh, -e, -c, "exec train --lr=$LR > /log"]`,
		"run: |\n    train \\\n      --lr 1\n": `entrypoint: [sh, -e, -c, "exec train \\\n  --lr 1"]`,
		"run: train && eval\n":                 `entrypoint: [sh, -e, -c, "train && eval"]`,
		"run: LR=1 train\n":                    `entrypoint: [sh, -e, -c, "LR=1 train"]`,
		"run: python3 -c 'f(x)'\n":             `entrypoint: [sh, -e, -c, "python3 -c 'f(x)'"]`,
		"run: cd /x\n":                         `entrypoint: [sh, -e, -c, "cd /x"]`,
		"run: \"! a\"\n":                       `entrypoint: [sh, -e, -c, "! a"]`,
		"run: \"{ a }\"\n":                     `entrypoint: [sh, -e, -c, "{ a }"]`,
		"env: {B: x, A: 1, C: true, D: 1.50, E: \"\", F: 0x10, G: 2026-01-02}": `env: [B=x, A=1, C=true, D=1.50, E=, F=0x10, G=2026-01-02]`,
		"env: {}":                                         "env: []",
		"ports: [http, 8080]":                             "ports: [{name: http}, {name: \"8080\", number: 8080}]",
		"ports: [{name: a}, b, 1]":                        "ports: [{name: a}, {name: b}, {name: \"1\", number: 1}]",
		"warn: USR1@120s":                                 "warn: {signal: SIGUSR1, before: 2m}",
		"warn: sigterm@90":                                "warn: {signal: TERM, before: 90s}",
		"run: echo a":                                     `entrypoint: [sh, -e, -c, echo a]`,
		"run: |\n    cd /x\n    a b\n":                    `entrypoint: [sh, -e, -c, "cd /x\na b"]`,
		"run: |\n    #!/bin/bash -eu\n    a\n":            `entrypoint: [/bin/bash, -eu, -c, "#!/bin/bash -eu\na"]`,
		"run: |\n    #!/usr/bin/env python3\n    a = 1\n": `entrypoint: [/usr/bin/env, python3, -c, "#!/usr/bin/env python3\na = 1"]`,
	} {
		got, want := specOf(t, schema, head+"  "+short+"\n"), specOf(t, schema, head+"  "+long+"\n")
		if len(got.Env) == 0 {
			got.Env, want.Env = nil, nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngot  %+v\nwant %+v", short, got, want)
		}
	}
}

// TestWrongShortForms: Parse and the schema both refuse some of these, and Parse alone the others.
func TestWrongShortForms(t *testing.T) {
	s := compiled(t)
	for text, tt := range map[string]struct {
		says string
		both bool
	}{
		"env: {A: [1]}":                          {"f:6: spec.env.A: a list is given: write a text", true},
		"env: {A: }":                             {`f:6: spec.env.A: is empty: write a value, "" for none`, true},
		"env: {A=B: c}":                          {"f:6: spec.env.A=B: contains =: write the name alone", true},
		"env: {\"\": c}":                         {`f:6: spec.env: "=c" is not NAME=value`, true},
		"env:\n    A: b\n    C: \"\\0\"":         {"f:8: spec.env.C: ", false},
		"env: A=b":                               {`f:6: spec.env: "A=b" is given: write a list`, true},
		"env: [A]":                               {`f:6: spec.env[0]: "A" is not NAME=value`, true},
		"ports: [0]":                             {"f:6: spec.ports[0]: 0 is not a port: give 1 to 65535, or a name", true},
		"ports: [70000]":                         {"f:6: spec.ports[0]: 70000 is not a port", true},
		"ports: [99999999999999999999]":          {"f:6: spec.ports[0]: 99999999999999999999 is not a port", true},
		"ports: [1.5]":                           {"f:6: spec.ports[0]: 1.5 is not a port", true},
		"ports: [true]":                          {"f:6: spec.ports[0]: true is not a text", true},
		"ports: [\"8080\"]":                      {`f:6: spec.ports[0]: "8080" is a text: write a number, 8080`, true},
		"ports: [\"80:8080\"]":                   {`f:6: spec.ports[0]: "80:8080" maps ports, and a task has those of its node`, true},
		"ports: [a b]":                           {`f:6: spec.ports[0]: "a b" contains ' '`, true},
		"ports: [\"\"]":                          {"f:6: spec.ports[0]: is empty", true},
		"ports: [[a]]":                           {"f:6: spec.ports[0]: a list is given: write fields", true},
		"ports: [a, a]":                          {`f:6: spec.ports[1].name: "a" is given twice`, false},
		"ports: [{name: a, number: 70000}, 80]":  {"f:6: spec.ports[0].number: 70000 is ", true},
		"warn: USR1":                             {`f:6: spec.warn: "USR1" does not say how long before the end`, true},
		"warn: USR1@soon":                        {`f:6: spec.warn: "USR1@soon" does not say`, true},
		"warn: USR1@0s":                          {`f:6: spec.warn: "USR1@0s" does not say`, true},
		"warn: FOO@1s":                           {`f:6: spec.warn: "FOO" is no signal`, false},
		"warn: 120":                              {"f:6: spec.warn: 120 is not a text", true},
		"warn: USR1@9000000h":                    {`f:6: spec.warn: "USR1@9000000h" does not say`, false},
		"run: \"\"":                              {"f:6: spec.run: is empty", true},
		"run: \" \\n \"":                         {"f:6: spec.run: is empty", true},
		"run: a\n  entrypoint: [b]":              {"f:6: spec.run: entrypoint is given, too: give one of them", true},
		"run: [a]":                               {"f:6: spec.run: a list is given: write a text", true},
		"run: a\n  command: [b]":                 {"f:6: spec.run: command is given, too: give one of them", true},
		"run: |\n    #!/usr/bin/perl\n    print": {`f:6: spec.run: "#!/usr/bin/perl" is not a shell or python`, false},
		"run: \"#!\"":                            {`f:6: spec.run: "#!" is not a shell or python`, false},
		"run: \"#!/usr/bin/env\"":                {`f:6: spec.run: "#!/usr/bin/env" is not a shell or python`, false},
		"run: " + strings.Repeat("x", 200<<10):   {"f:6: spec.run: ", false},
	} {
		task := head(manifest.KindTask) + "name: a\nspec:\n  image: img\n  " + text + "\n"
		_, err := manifest.Parse("f", []byte(task), nil)
		refused(t, err, task, tt.says)
		if tt.both && admits(t, s, task) {
			t.Errorf("the schema admits\n%s", task)
		}
	}
}

// TestDeafScripts checks that a warning which only a shell gets is noticed.
func TestDeafScripts(t *testing.T) {
	for script, deaf := range map[string]bool{
		"cd /x\ntrain": true, "train": false, "cd /x\nexec train": false, "trap save USR1\ntrain": false, "#!/usr/bin/python3\na\nb": false,
	} {
		for _, warn := range []string{"", "warn: USR1@9s\n"} {
			text, err := yaml.Marshal(map[string]string{"run": script})
			if err != nil {
				t.Fatal(err)
			}
			docs, err := manifest.Parse("f", []byte(head(manifest.KindTask)+"image: a\n"+warn+string(text)), known())
			if err != nil || (len(docs[0].Notices) > 0) != (deaf && warn != "") {
				t.Errorf("%q, %q: %v, %v", script, warn, docs[0].Notices, err)
			}
		}
	}
}
