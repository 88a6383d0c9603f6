package manifest_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
)

// submitted returns the tasks of a file with one document that schema admits.
func submitted(t *testing.T, schema *jsonschema.Schema, text string) []controlplane.Submission {
	t.Helper()
	docs, err := manifest.Parse("f", []byte(text), known())
	if err != nil || !admits(t, schema, text) {
		t.Fatalf("%s: %v", text, err)
	}
	job := docs[0].Job
	if docs[0].Kind == manifest.KindTask {
		job = &manifest.Job{Template: docs[0].Task}
	}
	out, err := job.Submissions(time.Unix(5, 0))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestSpecIsOptional checks that the fields of spec mean the same beside it, all or some of them.
func TestSpecIsOptional(t *testing.T) {
	schema := compiled(t)
	task, job := head(manifest.KindTask), head(manifest.KindJob)
	spec := "image: img, command: [a], env: {A: b}, ports: [http], grace: 3s, restart: {when: always}"
	for flat, grouped := range map[string]string{
		task + "image: img\n": task + "spec: {image: img}\n",
		task + "name: a\n" + strings.ReplaceAll(spec, ", ", "\n") + "\nmaxRun: 1h\n": task + "name: a\nmaxRun: 1h\nspec: {" + spec + "}\n",
		task + "image: img\nspec: {command: [a], init: true}\ngrace: 3s\n":           task + "spec: {image: img, command: [a], init: true, grace: 3s}\n",
		task + "spec: {image: img}\nrun: a\n":                                        task + "spec: {image: img, run: a}\n",
		task + "spec: {}\nimage: img\n":                                              task + "spec: {image: img}\n",
		job + "template: {" + spec + "}\n":                                           job + "template: {spec: {" + spec + "}}\n",
		job + "tasks: [{" + spec + "}, {name: b, image: c, spec: {dir: /x}}]\n":      job + "tasks: [{spec: {" + spec + "}}, {name: b, spec: {image: c, dir: /x}}]\n",
	} {
		if got, want := submitted(t, schema, flat), submitted(t, schema, grouped); !reflect.DeepEqual(got, want) {
			t.Errorf("%s\ngot  %+v\nwant %+v", flat, got, want)
		}
	}
}

// TestSpecHasOwnNames: no field of a task is called as one of spec is.
func TestSpecHasOwnNames(t *testing.T) {
	names := make(map[string]bool)
	for _, of := range []reflect.Type{reflect.TypeFor[manifest.Task](), reflect.TypeFor[manifest.Spec]()} {
		for i := range of.NumField() {
			name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ",")
			if names[name] {
				t.Errorf("%s has a field %s, and so has the task", of, name)
			}
			names[name] = true
		}
	}
}

// TestWrongFieldsBesideSpec: errors name each field where it is written. Parse and the schema both
// refuse some of these, and Parse alone the others.
func TestWrongFieldsBesideSpec(t *testing.T) {
	s := compiled(t)
	task, job := head(manifest.KindTask), head(manifest.KindJob)
	for text, tt := range map[string]struct {
		says string
		both bool
	}{
		task + "image: a\nspec:\n  image: b\n":              {"f:3: image: is given in spec, too, in line 5: drop one", true},
		task + "spec:\n  image: b\n  env: []\nenv: {}\n":    {"f:6: env: is given in spec, too, in line 5: drop one", true},
		task + "command: [a]\n":                             {"f:1: image: is missing: give the image", true},
		task + "command: [a]\nspec:\n  init: true\n":        {"f:5: spec.image: is missing: give the image", true},
		task + "command: [a]\nspec: x\n":                    {`f:4: spec: "x" is given: write fields, such as image: …`, true},
		task + "command: [a]\nspec:\n":                      {"f:4: spec: is empty: give a value, or leave it out", true},
		task + "imgae: a\n":                                 {"f:3: imgae: is unknown: did you mean image?", true},
		task + "image: a\ngrace: 5\n":                       {"f:4: grace: 5 is not a duration", true},
		task + "image: a\nwarn: {signal: USR1}\n":           {"f:4: warn.before: is missing", true},
		task + "image: a\nspec:\n  maxRun: 1h\n":            {"f:5: spec.maxRun: is unknown: it belongs to the task: write it beside spec", true},
		task + "image: a\nrun: b\nspec: {command: [c]}\n":   {"f:4: run: command is given, too: give one of them", true},
		task + "image: a\ncommand: [c]\nspec: {run: b}\n":   {"f:5: spec.run: command is given, too: give one of them", true},
		task + "image: a\ncommand: [c]\nrun: b\n":           {"f:5: run: command is given, too: give one of them", true},
		task + "image: a b\n":                               {`f:3: image: "a b" contains white space`, true},
		task + "image: a\nstopSignal: SIGFOO\n":             {`f:4: stopSignal: "SIGFOO" is not a signal`, false},
		task + "image: a\nspec: {}\nstopSignal: SIGFOO\n":   {`f:5: stopSignal: "SIGFOO" is not a signal`, false},
		task + "image: a\nmounts:\n- {target: x}\n":         {`f:5: mounts[0].target: "x" is not absolute`, true},
		task + "image: a\nports: [b, b]\n":                  {`f:4: ports[1].name: "b" is given twice`, false},
		task + "image: a\nenv:\n  B: c\n  D: \"\\0\"\n":     {"f:6: env.D: ", false},
		task + "image: a\nrun: |\n  #!/bin/false\n":         {`f:4: run: "#!/bin/false" is not a shell`, false},
		job + "image: a\n":                                  {"f:3: image: is unknown: it belongs to a task: write it in template", true},
		job + "template:\n  image: a\n  pids: -1\n":         {"f:5: template.pids: ", true},
		job + "tasks:\n- image: a\n- image: a\n  dir: x\n":  {`f:6: tasks[1].dir: "x" is not absolute`, true},
		job + "tasks:\n- image: a\n- name: b\n":             {"f:5: tasks[1].image: is missing", true},
		job + "template:\n  spec: {image: a}\n  image: b\n": {"f:5: template.image: is given in spec, too, in line 4: drop one", true},
	} {
		_, err := manifest.Parse("f", []byte(text), known())
		refused(t, err, text, tt.says)
		if !tt.both && err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("%s\nhas more than one problem: %v", text, err)
		}
		if tt.both && admits(t, s, text) {
			t.Errorf("the schema admits\n%s", text)
		}
	}
}
