package cli

import (
	"bytes"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// object is a part of a document.
type object = map[string]any

// inFull returns all parameters of a kind of policies, each with a valid value: a special one, or one
// of its type.
func inFull(name string, kind manifest.PolicyKind) object {
	out := special()[name]
	if out == nil {
		out = make(object)
	}
	v := reflect.ValueOf(kind.New()).Elem()
	for i := range v.NumField() {
		parameter, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if out[parameter] != nil || !v.Type().Field(i).IsExported() {
			continue
		}
		switch of := v.Field(i).Interface().(type) {
		case interface{ Choices() []string }:
			out[parameter] = of.Choices()[1]
		case types.Duration, manifest.Wait:
			out[parameter] = "1m"
		case int, float64:
			out[parameter] = 2
		case bool:
			out[parameter] = true
		case string:
			out[parameter] = "a"
		}
	}
	return out
}

// special are valid values of parameters that do not follow from their types.
func special() map[string]object {
	return map[string]object{
		"after":      {"tasks": object{"b": []any{"a"}}, "jobs": []any{"load"}},
		"barrier":    {"tasks": []any{"a"}, "count": 1, "when": "bound"},
		"fair-queue": {"flows": object{"gold": 2}},
		"fair-share": {"of": object{"a": object{"weight": 2, "of": object{"b": object{}}, "anyone": 1}}, "anyone": 1, "over": []any{"cpu"}},
		"gang":       {"onLoss": "restart"},
		"estimate":   {"memory": "p99", "cpu": "p95", "margin": "15%"},
		"interleave": {"phases": []any{"load", "compute"}},
		"objective":  {"by": "load", "weights": object{"cpu": 2}},
		"prefer": {"of": []any{object{"node": "n", "rack": "r", "zone": "z", "labels": object{"disk": "ssd"}, "requests": object{"gpu": "1"}, "after": "1s"}},
			"anywhere": "3s"},
		"near":          {"steps": []any{object{"in": "zone", "after": "1s"}}},
		"reserve-ahead": {"bundles": []any{object{"requests": object{"cpu": "1"}, "node": "n"}}, "at": "2026-12-01T08:00:00Z", "for": "1h"},
	}
}

// besidePolicies are documents of the other kinds.
func besidePolicies() []object {
	spec := object{
		"image": "a", "entrypoint": []any{"e"}, "command": []any{"b"}, "env": []any{"A=b"}, "dir": "/x", "user": "1:1", "grace": "3s", "stopSignal": "SIGUSR1", "pids": 10,
		"restart": object{"when": "on-failure", "limit": 3, "delay": "1s", "maxDelay": "1m"}, "mounts": []any{object{"source": "/a", "target": "/b", "readOnly": true}},
		"ports": []any{object{"name": "http", "number": 8080}}, "cpuLimit": "none", "capAdd": []any{"NET_ADMIN"}, "capDrop": []any{"ALL"}, "readOnlyRoot": true, "tty": true, "socket": "self",
		"checks": []any{object{"name": "up", "http": object{"port": "http", "path": "/", "status": 200}, "every": "1s", "timeout": "1s", "startPeriod": "1s", "failures": 2, "successes": 2, "then": "restart"}},
		"warn":   object{"signal": "USR1", "before": "1s"}, "init": true, "noHealthcheck": true,
		"secrets": []any{object{"name": "db", "env": object{"SECRET": "a"}, "dir": "/s"}}, "shm": "1Mi", "tmpfs": []any{object{"target": "/t", "size": "1Mi"}}, "ulimits": object{"memlock": -1, "nofile": "5:6"},
	}
	flat := maps.Clone(spec)
	flat["kind"], flat["name"] = "Task", "t"
	return []object{
		flat,
		{"kind": "Task", "name": "t", "image": "a", "run": "b", "env": object{"A": "b"}, "spec": object{"init": true, "grace": "3s"}},
		{"kind": "Task", "name": "t", "command": []any{"a"}, "spec": object{"image": "a"}},
		{"kind": "Task", "id": "x", "name": "t", "spec": spec, "requests": object{"cpu": "1", "gpu": 1}, "priority": 3, "scheduler": "s", "onDisconnect": "fence",
			"maxRun": "1h", "retries": 2, "deadline": "2h", "session": "s", "provides": []any{object{"name": "r", "amount": "2", "when": "bound"}},
			"alternatives": []any{object{"requests": object{"r": 1}, "after": "1s"}}, "devices": []any{object{"resource": "gpu", "model": []any{"H100"}, "minMemory": "40Gi", "topology": "numa"}}},
		{"kind": "Task", "name": "t", "spec": object{"image": "a"}, "requests": object{"gpu": object{"count": 2, "model": "H100", "memory": "40Gi", "topology": "nvlink"},
			"a.b/c": object{"count": "1", "model": []any{"x"}}, "gpu@r": object{"count": 0.5}}},
		{"kind": "Task", "name": "t", "spec": object{"image": "a", "env": object{"A": "b", "C": 1}, "ports": []any{"http", 8080, object{"name": "a"}}, "warn": "USR1@120s", "run": "echo a"}},
		{"kind": "Reservation", "name": "r", "bundles": []any{object{"requests": object{"gpu": object{"count": 2, "topology": "numa"}}}}},
		{"kind": "Resource", "name": "r", "capacity": "3", "where": object{"nodes": []any{"n"}, "available": object{"cpu": "1"}}, "lifetime": "job", "owner": "j", "declare": true, "future": true},
		{"kind": "Resource", "name": "r", "capacity": 3, "where": object{"labels": object{"a": "b"}}},
		{"kind": "Resource", "name": "r", "capacity": "inf", "where": object{"cluster": true}},
		{"kind": "Reservation", "name": "r", "bundles": []any{object{"requests": object{"cpu": "1"}, "node": "n"}}, "priority": 2, "session": "s", "accumulate": true, "lost": "move"},
		{"kind": "Policy", "name": "p", "policy": object{"name": "pack"}, "session": "s"},
		{"kind": "Right", "name": "r", "subjects": []any{"user:a", "group:oidc:b"}, "role": "member", "allow": []any{"read audit"}, "namespaces": []any{"lab", "*"}},
		{"kind": "Right", "name": "r", "subjects": []any{"service:a"}, "allow": []any{"read tasks"}, "namespaces": []any{"*"}},
	}
}

// anything is what replaces a value.
func anything() []any {
	return []any{
		0, 1, -1, 2, 1.5, 1e30, "1", "0", "x", "", " ", true, false, nil, []any{}, object{}, []any{"a"}, []any{""}, []any{"weird name"}, []any{1}, object{"a": 1},
		object{"weird name": 1}, "5s", "0s", "-5s", "+5s", ".5s", "1h30m", "5", "inf", "node", "rack", "restart", "fail", "alone", "run", "load", "500m", "-1",
		"4Gi", "a/alice", "a//b", "a.b/c", "weird name", "-a", "UPPER", "a.b", "cpu", "memory", "port", "gpu@r", strings.Repeat("long", 20),
	}
}

// otherwise calls yield with a document in which one value at a time is replaced, missing, or has
// an additional field.
func otherwise(v any, yield func(any)) {
	switch v := v.(type) {
	case object:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			without := maps.Clone(v)
			delete(without, name)
			yield(without)
			for _, other := range []string{"", "weird name", "a.b", "a/b", "UPPER", "memory"} {
				renamed := maps.Clone(without)
				renamed[other] = v[name]
				yield(renamed)
			}
			each := func(value any) {
				changed := maps.Clone(v)
				changed[name] = value
				yield(changed)
			}
			for _, value := range anything() {
				each(value)
			}
			otherwise(v[name], each)
		}
	case []any:
		for i := range v {
			otherwise(v[i], func(value any) {
				changed := slices.Clone(v)
				changed[i] = value
				yield(changed)
			})
		}
	}
}

// withPolicy returns a document that names a policy, or declares it.
func withPolicy(name string, with any) object {
	named := object{"name": name, "with": with}
	if kind := library.KnownPolicies()[name]; !kind.Job {
		return object{"apiVersion": manifest.APIVersion, "kind": "Policy", "name": "p", "policy": named}
	}
	return object{"apiVersion": manifest.APIVersion, "kind": "Job", "name": "j", "template": object{"spec": object{"image": "a"}}, "policies": []any{named}}
}

// byName returns a document with a policy by its own name.
func byName(name string, with any) object {
	if kind := library.KnownPolicies()[name]; !kind.Job {
		return object{"apiVersion": manifest.APIVersion, "kind": "Policy", "name": "p", name: with}
	}
	return object{"apiVersion": manifest.APIVersion, "kind": "Job", "name": "j", "template": object{"spec": object{"image": "a"}}, name: with}
}

// generated returns valid and invalid documents, for every parameter of every policy and for the
// fields of a job.
func generated(t *testing.T) [][]byte {
	t.Helper()
	seen := make(map[string]bool)
	var out [][]byte
	add := func(doc any) {
		text := inJSON(t, doc)
		if !seen[string(text)] {
			seen[string(text)] = true
			out = append(out, text)
		}
	}
	for name, kind := range library.KnownPolicies() {
		full := inFull(name, kind)
		change := func(with object) {
			add(withPolicy(name, with))
			otherwise(with, func(other any) { add(withPolicy(name, other)) })
		}
		change(full)
		add(byName(name, full))
		otherwise(full, func(other any) { add(byName(name, other)) })
		must := make(object)
		for _, p := range manifest.Parameters(kind) {
			if full[p.Name] == nil {
				t.Errorf("special has no value of %s, parameter %s", name, p.Name)
			}
			if p.Required {
				must[p.Name] = full[p.Name]
			}
		}
		change(must)
		for parameter := range full {
			with := maps.Clone(must)
			with[parameter] = full[parameter]
			add(withPolicy(name, with))
		}
		for _, value := range anything() {
			add(withPolicy(name, value))
			add(byName(name, value))
		}
	}
	for key, texts := range map[string][]any{
		"queue":     {"batch", "batch/gold", "batch/", "/gold", "a b", "a b/c", "batch/gold/two", "a.b"},
		"share":     {"lab/alice", "lab/team/alice", "lab", "lab/", "/alice", "a b/alice", "lab//alice"},
		"semaphore": {"licence", "licence=2", "licence=0", "licence=", "licence=x", "licence=+2", "licence=-2", "a b", "=2"},
	} {
		for _, value := range append(texts, anything()...) {
			doc := byName("gang", object{})
			doc[key] = value
			add(doc)
			add(object{"apiVersion": manifest.APIVersion, "kind": "Policy", "name": "p", key: value})
		}
	}
	job := object{
		"apiVersion": manifest.APIVersion, "kind": "Job", "name": "j", "count": 2, "policies": []any{object{"name": "acme.com/even", "with": object{"a": 1}}},
		"template": object{"spec": object{"image": "a"}, "requests": object{"cpu": "1", "memory": "64Mi"}},
	}
	otherwise(job, add)
	job["template"] = object{"image": "a", "command": []any{"b"}, "spec": object{"run": "c"}}
	otherwise(job, add)
	job["template"] = object{"image": "a", "ports": []any{"http"}, "warn": "USR1@1s"}
	otherwise(job, add)
	delete(job, "count")
	job["tasks"] = []any{job["template"]}
	otherwise(job, add)
	for _, doc := range besidePolicies() {
		doc["apiVersion"] = manifest.APIVersion
		add(doc)
		otherwise(doc, add)
	}
	return out
}

// laxer matches errors that the schema cannot express, or only at a length that no one would read:
// the comparison of two values, the unit of a resource named elsewhere, the precision of an amount,
// or a long list of names.
func laxer() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^f:1: (` + strings.Join([]string{
		`(policies\[0\]\.with|after)\.tasks: .* come after one another in a circle`,
		`(policies\[0\]\.with|[a-z]+)\.(every|max|anywhere): .* is less than`,
		`(policy\.with|interleave)\.phases: has 1: give two`,
		`(policies\[0\]\.with|estimate)\.(memory|cpu|margin): .* is not a (quantile|percentage)`,
		`(policies\[0\]\.with|near)\.(wait|steps\[\d\]\.(in|after)): .* is (less than|not larger than|no step)`,
		`(policy\.with|reserve-ahead)\.at: .* is not a time`,
		`.*: "500m" is in thousandths of a byte`,
		`.*capacity: r: `, `provides\[0\]\.amount: `,
		`requests\.escher\.io/cap-`, // the requests of the fields of a spec
		`devices\[0\]\.(resource|model)`,
		`(spec\.|template\.)?ulimits\.nofile: Linux has no room`, `(spec\.|template\.)?entrypoint: is empty, and so is the program`, // the text of one element
		`(spec\.|template\.)?(cap(Add|Drop)|checks|restart\.delay|stopSignal|warn(\.signal)?:)`,
	}, "|") + ")")
}

// TestSchemaAgrees: the schema accepts what the strict reader accepts, and refuses what that
// refuses, except for laxer. It checks every 16th document; with SCHEMA_ALL=1, all, as make seeds
// does without the race detector.
func TestSchemaAgrees(t *testing.T) {
	s, known, listed := published(t), library.KnownPolicies(), laxer()
	docs, step := generated(t), 16
	if os.Getenv("SCHEMA_ALL") != "" {
		step = 1
	}
	taken, told := 0, 0
	for i := 0; i < len(docs); i += step {
		text := docs[i]
		_, strict := manifest.Parse("f", text, known)
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		loose := s.Validate(v)
		if strict == nil {
			taken++
		}
		if (strict == nil) != (loose == nil) && (strict == nil || !listed.MatchString(strict.Error())) {
			if told++; told < 40 {
				t.Errorf("%s\nreading it: %v\nby the schema: %v", text, strict, loose)
			}
		}
	}
	if len(docs) < 5000 || taken*step < len(docs)/20 {
		t.Errorf("%d documents, of which %d are right: they show too little", len(docs), taken)
	}
	t.Logf("%d documents, %d right, %d not agreed", len(docs)/step, taken, told)
}
