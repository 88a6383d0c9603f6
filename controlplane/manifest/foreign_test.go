package manifest_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
)

// TestNamesOfOtherSystems checks that a name of Kubernetes, compose or Nomad leads to the name here.
func TestNamesOfOtherSystems(t *testing.T) {
	for here, names := range map[string]string{
		"command": "args cmd", "env": "environment envs", "mounts": "volumes volumeMounts volume_mount", "restart": "restartPolicy restart_policy",
		"dir": "workingDir working_dir work_dir", "checks": "healthcheck livenessProbe readinessProbe startupProbe check",
		"grace": "terminationGracePeriodSeconds stop_grace_period kill_timeout",
	} {
		for name := range strings.FieldsSeq(names) {
			text := head(manifest.KindTask) + "image: a\n" + name + ": 1\n"
			_, err := manifest.Parse("f", []byte(text), known())
			refused(t, err, text, "f:4: "+name+": is unknown: it is called "+here+" here")
			text = keyed(name + ": 1\n")
			_, err = manifest.Parse("f", []byte(text), known())
			refused(t, err, text, "f:5: "+name+": is unknown: it is called "+here+" here: write it in template")
		}
	}
	for name, says := range map[string]string{
		"parallelism": "it is called count here", "completions": "it is called count here", "scale": "it is called count here",
		"strategy": "it is called update here", "updateStrategy": "it is called update here", "update_config": "it is called update here",
		"limits": "it is called requests here: write it in template", "activeDeadlineSeconds": "it is called maxRun here: write it in template",
		"backoffLimit": "it is called retries here: write it in template", "image": "it belongs to a task: write it in template",
	} {
		text := keyed(name + ": 1\n")
		_, err := manifest.Parse("f", []byte(text), known())
		refused(t, err, text, "f:5: "+name+": is unknown: "+says)
	}
	text := head(manifest.KindTask) + "spec: {image: a, priority: 1}\n"
	_, err := manifest.Parse("f", []byte(text), known())
	refused(t, err, text, "f:3: spec.priority: is unknown: it belongs to the task: write it beside spec")
	for version, says := range map[string]string{"v1": "this is a manifest of Kubernetes", "batch/v1": "this is a manifest of Kubernetes", "kubeflow.org/v1": "this is a manifest of Kubernetes", "V1": "write escher.dev/v1"} {
		_, err := manifest.Parse("f", []byte("apiVersion: "+version+"\nkind: Job\n"), known())
		refused(t, err, version, `f:1: apiVersion: "`+version+`" is unknown: `+says)
	}
}

// TestNamespaces checks that settings survive the way to the store and back, and which are refused.
func TestNamespaces(t *testing.T) {
	schema, top, no, yes := compiled(t), 0, false, true
	text := head(manifest.KindNamespace) + `name: team
budget: {keys: 10, bytes: 4Ki, pending: 2, requests: 3, watches: 4, priority: 0, accumulate: false}
defaults: {cpu: 1, memory: 1Gi}
pids: 5
requests: {"admin:slots": 1}
quotas: {gpu: "admin:gpus", cpu: "admin:cores"}
policies: {"org:lab": required, "org:a": allowed}
`
	docs, err := manifest.Parse("f", []byte(text), known())
	if err != nil || !admits(t, schema, text) || docs[0].String() != "namespace team" {
		t.Fatal(docs, err)
	}
	want := types.Namespace{
		Budget:   &types.Budget{Keys: 10, Bytes: 4096, Pending: 2, Requests: 3, Watches: 4, Priority: &types.Ceiling{Max: top}, NoAccumulate: true},
		Defaults: types.NewRequests(map[string]types.Quantity{"cpu": 1000, "memory": 1 << 30}), Pids: 5,
		Requests: types.NewRequests(map[string]types.Quantity{"admin:slots": 1000}),
		Quotas:   []types.Quota{{Resource: "cpu", Pool: "admin:cores"}, {Resource: "gpu", Pool: "admin:gpus"}},
		Policies: []types.NamespacePolicy{{Name: "org:a"}, {Name: "org:lab", Required: true}},
	}
	got, err := docs[0].Namespace.Settings()
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	back := manifest.FromNamespace(&got)
	if b := back.Budget; b == nil || b.Bytes != "4Ki" || !reflect.DeepEqual(b.Priority, &top) || !reflect.DeepEqual(b.Accumulate, &no) {
		t.Errorf("%+v", b)
	}
	if again, err := back.Settings(); err != nil || !reflect.DeepEqual(again, want) {
		t.Errorf("%+v, %v", again, err)
	}
	for _, none := range []manifest.Namespace{{}, {Budget: &manifest.Budget{}}, {Budget: &manifest.Budget{Bytes: "0", Accumulate: &yes}}} {
		if got, err := none.Settings(); err != nil || got.Budget != nil || !reflect.DeepEqual(manifest.FromNamespace(&got), manifest.Namespace{}) {
			t.Errorf("%+v: %+v, %v", none, got, err)
		}
	}
	for text, says := range map[string]string{
		"budget: {bytes: 4}":             `f:4: budget.bytes: memory: "4" has no unit`,
		"budget: {bytes: -4Ki}":          "f:4: budget.bytes: ",
		"budget: {keys: -1}":             "f:4: budget.keys: ",
		"policies: {lab: allowed}":       "f:4: policies.lab: \"lab\" has no namespace",
		"policies: {\"org:lab\": yes}":   "f:4: policies.org:lab: ",
		"policies: {\"org:lab\": none}":  "f:4: policies.org:lab: ",
		"budget: {priority: 1000000001}": "f:4: budget.priority: ",
		"budget: {key: 1}":               "f:4: budget.key: is unknown: did you mean keys?",
		"pids: -1":                       "f:4: pids: ",
		"defaults: {gpu: 1}":             "f:4: defaults.gpu: only cpu, memory and disk have defaults",
		"defaults: {cpu: 0}":             "f:4: defaults.cpu: 0 is not positive",
		"quotas: {cpu: \"admin:a b\"}":   "f:4: quotas[0].pool: ",
		"requests: {slots: 0}":           "f:4: requests.slots: 0 is not positive",
	} {
		text = head(manifest.KindNamespace) + "name: team\n" + text + "\n"
		_, err := manifest.Parse("f", []byte(text), known())
		refused(t, err, text, says)
	}
}

// TestLimitsOfProcesses checks the forms of a limit, and that each is written as it is read.
func TestLimitsOfProcesses(t *testing.T) {
	for text, want := range map[string]string{`5`: `5`, `"5"`: `5`, `-1`: `-1`, `"5:6"`: `"5:6"`, `"-1:-1"`: `"-1:-1"`} {
		var l manifest.Limits
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got, err := json.Marshal(l); err != nil || string(got) != want {
			t.Errorf("%s is written %s, %v", text, got, err)
		}
	}
	for _, text := range []string{`1.5`, `-2`, `"a"`, `""`, `"5:"`, `":5"`, `"5:6:7"`, `[5]`, `true`, `1e3`, `99999999999999999999`} {
		var l manifest.Limits
		if err := json.Unmarshal([]byte(text), &l); !types.Is(err, types.Invalid) {
			t.Errorf("%s: %q, %v", text, l, err)
		}
	}
}

// TestParameterSchema checks that the schema of parameters admits what the policy reads, nested
// types included.
func TestParameterSchema(t *testing.T) {
	for name, cases := range map[string]map[string]bool{
		"pack":   {`{"over":"left","most":2,"wait":"1s","names":["a"]}`: true, `{"over":"up"}`: false, `{}`: false, `{"over":"left","mst":1}`: false, `3`: false},
		"shares": {`{"weight":0.5,"teams":{"a":{"teams":{"b":{"weight":1}}}}}`: true, `{"teams":{"a":{"weight":"x"}}}`: false, `{"teams":{"a":{"teams":{"b":3}}}}`: false, `{}`: true},
		"plain":  {`{}`: true, `{"a":1}`: false},
	} {
		text, err := manifest.ParameterSchema(known()[name])
		if err != nil {
			t.Fatal(err)
		}
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		c := jsonschema.NewCompiler()
		if err := c.AddResource("p.json", doc); err != nil {
			t.Fatal(err)
		}
		s, err := c.Compile("p.json")
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, text)
		}
		for with, ok := range cases {
			v, err := jsonschema.UnmarshalJSON(strings.NewReader(with))
			if err != nil {
				t.Fatal(err)
			}
			_, _, errRead := manifest.ReadPolicy(name+"="+with, manifest.Policies{name: {New: known()[name].New, Job: true}})
			if err := s.Validate(v); (err == nil) != ok || (errRead == nil) != ok {
				t.Errorf("%s %s: schema %v, policy %v", name, with, err, errRead)
			}
		}
	}
}

// TestResourcesThatAreRefused checks locations that contradict each other, and capacities.
func TestResourcesThatAreRefused(t *testing.T) {
	everywhere := &manifest.Where{}
	for _, bad := range []struct {
		r    manifest.Resource
		says string
	}{
		{manifest.Resource{Name: "x", Capacity: "1"}, "where: is missing: write {} for every node"},
		{manifest.Resource{Name: "x", Capacity: "", Where: everywhere}, "capacity: "},
		{manifest.Resource{Name: "x", Capacity: "-1", Where: everywhere}, "capacity: "},
		{manifest.Resource{Name: "x", Capacity: "0.0001", Where: everywhere}, "capacity: "},
		{manifest.Resource{Name: "x", Capacity: "1", Where: &manifest.Where{Cluster: true, Nodes: []string{"a"}}}, "where.cluster: is set together"},
		{manifest.Resource{Name: "x", Capacity: "1", Where: &manifest.Where{Cluster: true, Labels: map[string]string{"a": "b"}}}, "where.cluster: is set together"},
		{manifest.Resource{Name: "x", Capacity: "1", Where: &manifest.Where{Cluster: true, Available: types.NewRequests(map[string]types.Quantity{"cpu": 1})}}, "where.cluster: is set together"},
		{manifest.Resource{Name: "x", Capacity: "1", Where: &manifest.Where{Available: types.NewRequests(map[string]types.Quantity{"cpu": -1})}}, "where.available"},
	} {
		if _, err := bad.r.Resource(); !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), bad.says) {
			t.Errorf("%+v: %v, want %s", bad.r, err, bad.says)
		}
	}
	r := manifest.Resource{Name: "x", Capacity: "1", Where: &manifest.Where{Nodes: []string{"a"}, Available: types.NewRequests(map[string]types.Quantity{"cpu": 1})}}
	if got, err := r.Resource(); err != nil || got.Where.Among == nil || got.Where.Nodes != nil {
		t.Errorf("%+v, %v", got, err)
	}
}
