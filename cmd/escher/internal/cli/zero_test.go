package cli

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// zeros are the numbers and times of policies that take a written 0, as it is stored then, and those
// that refuse it with another error than that of their tag.
func zeros() map[string]string {
	return map[string]string{
		"elastic min":          `{"min":0}`,
		"elastic giveWay":      `{"giveWay":"0s","min":1}`,
		"fair-queue limit":     "0 is out of range: give from 1 to 1073741824",
		"fair-queue anyone":    `{"flows":{"gold":2},"limit":2}`,
		"fair-share anyone":    `{"of":{"a":{"anyone":1,"of":{"b":{}},"weight":2}}}`,
		"least-attained after": `{"after":"0s"}`,
		"least-attained older": `{"older":"0s"}`,
		"least-attained spare": `{"spare":"0s"}`,
		"near wait":            `{"to":"words","wait":"0s"}`,
		"preempt after":        `{"after":"0s"}`,
		"preempt spare":        `{"spare":"0s"}`,
		"prefer anywhere":      `{"anywhere":"0s","of":[{"rack":"r"}]}`,
		"quiet wait":           `{"wait":"0s"}`,
		"semaphore limit":      `{"limit":0}`,
	}
}

// besideZero has the other fields.
func besideZero(policy string) object {
	return map[string]object{
		"barrier": {"tasks": []any{"a"}}, "elastic": {"min": 1}, "fair-queue": {"limit": 2, "flows": object{"gold": 2}},
		"fair-share": {"of": special()["fair-share"]["of"]}, "use": {"name": "s"}, "near": {"to": "words"},
		"reserve-ahead": {"bundles": special()["reserve-ahead"]["bundles"], "at": special()["reserve-ahead"]["at"]},
		"objective":     {"by": "load"}, "prefer": {"of": []any{object{"rack": "r"}}},
	}[policy]
}

// TestWrittenZero: a written 0 means 0, or is refused. It is never taken as missing. That holds for
// every number and time of every policy. docs/policies/zero.md has those that take it.
func TestWrittenZero(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/policies/zero.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, kind := range library.KnownPolicies() {
		for parameter, zero := range numbers(kind) {
			want := fmt.Sprint(zero.written, " ", zero.refusal)
			if zero.refusal == "" {
				want = zeros()[name+" "+parameter]
			}
			if want == "" || want[0] == '{' && !strings.Contains(string(text), "`"+name+" "+parameter+"`") {
				t.Errorf("%s %s: give it a tag zero, or say here and in docs/policies/zero.md what a 0 is", name, parameter)
			}
			with := maps.Clone(besideZero(name))
			if with == nil {
				with = make(object)
			}
			with[parameter] = zero.written
			says(t, name, parameter, with, want)
		}
	}
}

// says checks the error about a parameter, or its stored value.
func says(t *testing.T, name, parameter string, with object, want string) {
	t.Helper()
	docs, err := manifest.Parse("f", inJSON(t, withPolicy(name, with)), library.KnownPolicies())
	switch {
	case err != nil:
		if field := parameter + ": "; !strings.Contains(err.Error(), "with."+field+want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, want %s%s", name, err, field, want)
		}
	case docs[0].Policy != nil:
		sameJSON(t, name, string(inJSON(t, docs[0].Policy.Policy.With)), want)
	default:
		sameJSON(t, name, string(inJSON(t, docs[0].Job.Policies[0].With)), want)
	}
}

func inJSON(t *testing.T, v any) []byte {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func sameJSON(t *testing.T, name, got, want string) {
	t.Helper()
	var a, b any
	if json.Unmarshal([]byte(got), &a) != nil || json.Unmarshal([]byte(want), &b) != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("%s: %s is stored, want %s", name, got, want)
	}
}

// zero is a 0 as it is written, and the words that refuse it, if there are some.
type zero struct {
	written any
	refusal string
}

// numbers are the numbers and times of a policy, each with its 0.
func numbers(kind manifest.PolicyKind) map[string]zero {
	out := make(map[string]zero)
	v := reflect.ValueOf(kind.New()).Elem()
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		name, _, _ := strings.Cut(tag.Get("json"), ",")
		switch v.Field(i).Interface().(type) {
		case types.Duration, manifest.Wait:
			out[name] = zero{"0s", tag.Get("zero")}
		case int, float64:
			out[name] = zero{0, tag.Get("zero")}
		}
	}
	return out
}

// TestWrittenZeroOfOthers does so for nested parameters, and for jobs and tasks.
func TestWrittenZeroOfOthers(t *testing.T) {
	job := func(change func(job, spec object)) object {
		doc := withPolicy("gang", object{})
		change(doc, doc["template"].(object)["spec"].(object))
		return doc
	}
	for want, doc := range map[string]object{
		"f:1: policy.with.of.a.weight: 0 is not a weight":         withPolicy("fair-share", object{"of": object{"a": object{"weight": 0}}}),
		"f:1: policy.with.flows.a: 0 is out of range":             withPolicy("fair-queue", object{"limit": 1, "flows": object{"a": 0}}),
		"f:1: count: 0 is not enough: give 1 to 100000":           job(func(j, _ object) { j["count"] = 0 }),
		"f:1: count: -1 is out of range: give 1 to 100000":        job(func(j, _ object) { j["count"] = -1 }),
		"f:1: template.spec.grace: 0s does not mean at once":      job(func(_, s object) { s["grace"] = "0s" }),
		"f:1: template.spec.restart.limit: 0 does not mean never": job(func(_, s object) { s["restart"] = object{"when": "always", "limit": 0} }),
		"f:1: template.spec.pids: 0 is not enough":                job(func(_, s object) { s["pids"] = 0 }),
		"f:1: template.maxRun: 0s is not a duration":              job(func(j, _ object) { j["template"].(object)["maxRun"] = "0s" }),
		"f:1: template.maxRun: -1s is negative":                   job(func(j, _ object) { j["template"].(object)["maxRun"] = "-1s" }),
		"f:1: policies[0].with.of[0].requests.gpu: 0 is not":      withPolicy("prefer", object{"of": []any{object{"requests": object{"gpu": 0}}}}),
		`f:1: policies[0].with.of[0].requests.gpu: "x" is not a`:  withPolicy("prefer", object{"of": []any{object{"requests": object{"gpu": "x"}}}}),
	} {
		if _, err := manifest.Parse("f", inJSON(t, doc), library.KnownPolicies()); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
