package builtin_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/builtin"
)

// TestEveryKindIsDescribed finds kinds that are listed twice, and those without a description.
func TestEveryKindIsDescribed(t *testing.T) {
	seen := make(map[string]bool)
	for _, kind := range builtin.Policies() {
		switch name := kind.Kind(); {
		case seen[name]:
			t.Errorf("%s is listed twice", name)
		case esl.Describe(kind).Does == "":
			t.Errorf("%s has no description: give it a method Describe", name)
		}
		seen[kind.Kind()] = true
	}
	for name, empty := range builtin.Kinds() {
		if empty().Kind() != name {
			t.Errorf("%s is listed as %s", empty().Kind(), name)
		}
	}
}

// TestEveryKindIsDocumented finds kinds that no page about policies names.
func TestEveryKindIsDocumented(t *testing.T) {
	paths, err := filepath.Glob("../../docs/policies/*.md")
	if err != nil || len(paths) == 0 {
		t.Fatalf("there are %d pages: %v", len(paths), err)
	}
	var pages strings.Builder
	for _, path := range append(paths, "../../docs/policies.md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pages.Write(text)
	}
	for _, kind := range builtin.Policies() {
		if !strings.Contains(pages.String(), "`"+kind.Kind()+"`") {
			t.Errorf("%s is neither in docs/policies.md nor on a page in docs/policies", kind.Kind())
		}
	}
}

// TestGuideShowsADescription: docs/writing-a-policy.md shows a method Describe as it is.
func TestGuideShowsADescription(t *testing.T) {
	guide, err := os.ReadFile("../../docs/writing-a-policy.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("../place/spread.go")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(string(guide), "```go\n// Describe ")
	shown, _, _ = strings.Cut(shown, "```")
	if shown == "" || !strings.Contains(string(source), "// Describe "+shown) {
		t.Errorf("the guide does not show what esl/place/spread.go says:\n%s", shown)
	}
}

// TestFlags checks the flags of all kinds together: flags of one name have one usage and one form,
// and a flag that needs another one says so.
func TestFlags(t *testing.T) {
	usage, form, adds, alone := make(map[string]string), make(map[string]string), make(map[string]bool), make(map[string]bool)
	for _, kind := range builtin.Policies() {
		for _, f := range esl.Describe(kind).Flags {
			adds[f.Name] = true
		}
		for f := range esl.Describe(kind).AllFlags() {
			if usage[f.Name] != "" && f.Usage != "" {
				t.Errorf("--%s: is explained as %q, and as %q", f.Name, usage[f.Name], f.Usage)
			}
			usage[f.Name] += f.Usage
			if is := formOf(f); strings.Contains(is, ",") || form[f.Name] != "" && form[f.Name] != is {
				t.Errorf("--%s: has the forms %s, %s", f.Name, form[f.Name], is)
			}
			form[f.Name] = formOf(f)
			alone[f.Name] = alone[f.Name] || f.Alone != ""
		}
	}
	for name := range usage {
		if usage[name] == "" {
			t.Errorf("--%s: has no usage", name)
		}
		if adds[name] == alone[name] {
			t.Errorf("--%s: adds a policy: %t, and has an error for when it is alone: %t", name, adds[name], alone[name])
		}
	}
}

// formOf names the functions that a flag has.
func formOf(f esl.Flag) string {
	var forms []string
	v := reflect.ValueOf(f)
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Func && !v.Field(i).IsNil() {
			forms = append(forms, v.Type().Field(i).Name)
		}
	}
	if len(forms) == 0 {
		return "switch"
	}
	return strings.Join(forms, ", ")
}
