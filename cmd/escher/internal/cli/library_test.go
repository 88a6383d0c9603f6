package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/run"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/esl/ahead"
	"github.com/escher-sched/escher/esl/apply"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/esl/gang"
	"github.com/escher-sched/escher/esl/place"
	"github.com/escher-sched/escher/esl/share"
	"github.com/escher-sched/escher/types"
)

const (
	schemaPath   = "../../../../docs/escher.schema.json"
	examplesPath = "../../../../examples/"
)

// TestSchema compares docs/escher.schema.json with the types.
func TestSchema(t *testing.T) {
	want, err := manifest.Schema(library.KnownPolicies())
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(schemaPath, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(schemaPath)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what the types say (%v): go test ./cmd/escher/internal/cli -run TestSchema -update writes it", schemaPath, err)
	}
}

// published returns the published schema.
func published(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := os.ReadFile(schemaPath)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource(manifest.SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile(manifest.SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// admits returns an error if the schema refuses a document of a file.
func admits(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	for doc := range strings.SplitSeq(text, "\n---\n") {
		asJSON, err := yaml.YAMLToJSON([]byte(doc))
		if err != nil {
			t.Fatal(err)
		}
		v, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(v); err != nil {
			return err
		}
	}
	return nil
}

func TestEveryExampleIsAdmitted(t *testing.T) {
	var files []string
	for dir, least := range map[string]int{"jobs": 6, "mpi": 1, "training": 3} {
		found, err := filepath.Glob(filepath.Join(examplesPath, dir, "*.yaml"))
		if err != nil || len(found) < least {
			t.Fatalf("there are %d examples in %s, %v", len(found), dir, err)
		}
		files = append(files, found...)
	}
	s := published(t)
	used := make(map[manifest.Kind]bool)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		docs, err := manifest.Parse(filepath.Base(file), text, library.KnownPolicies())
		if err != nil {
			t.Error(err)
		}
		if err := admits(t, s, string(text)); err != nil {
			t.Errorf("%s is refused by the schema: %v", file, err)
		}
		for _, d := range docs {
			used[d.Kind] = true
		}
	}
	for _, k := range manifest.Kinds() {
		if !used[k] {
			t.Errorf("no example is a %s", k)
		}
	}
}

// TestDocumentedExamplesAreAdmitted reads every YAML document in the documentation.
func TestDocumentedExamplesAreAdmitted(t *testing.T) {
	s := published(t)
	var paths []string
	for _, pattern := range []string{"*.md", "*/*.md"} {
		found, err := filepath.Glob("../../../../docs/" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		paths = append(paths, found...)
	}
	n := 0
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, after := range strings.Split(string(text), "```yaml\n")[1:] {
			example, _, _ := strings.Cut(after, "```")
			if !strings.HasPrefix(example, "apiVersion:") && !strings.Contains(example, "\napiVersion:") {
				continue // a part of one
			}
			n++
			if _, err := manifest.Parse(path, []byte(example), library.KnownPolicies()); err != nil {
				t.Error(err)
			}
			if err := admits(t, s, example); err != nil {
				t.Errorf("%s: %v\n%s", path, err, example)
			}
		}
	}
	if n < 10 {
		t.Errorf("the documentation has %d examples", n)
	}
}

// TestEveryPolicyIsDescribed checks that every policy and its parameters have a description.
func TestEveryPolicyIsDescribed(t *testing.T) {
	for name, kind := range library.KnownPolicies() {
		if kind.Desc == "" {
			t.Errorf("Describe says nothing of %s", name)
		}
		for _, p := range manifest.Parameters(kind) {
			if p.Name == "" || p.Desc == "" {
				t.Errorf("%s: parameter %q is not described: %q", name, p.Name, p.Desc)
			}
		}
		if !kind.Job && !kind.Shared {
			t.Errorf("%s can only be declared, and is not shared", name)
		}
	}
}

// TestEveryFieldIsExplained walks through all fields of all documents.
func TestEveryFieldIsExplained(t *testing.T) {
	known := library.KnownPolicies()
	n := 0
	var walk func(path string)
	walk = func(path string) {
		x, err := manifest.Explain(path, known)
		if n++; err != nil || x.Desc == "" || x.Type == "" || x.Path != path {
			t.Errorf("%s: %+v, %v", path, x, err)
		}
		for _, f := range x.Fields {
			if strings.Count(f.Path, ".") < 5 {
				walk(f.Path)
			}
		}
	}
	for _, kind := range manifest.Kinds() {
		walk(strings.ToLower(string(kind)))
	}
	if n < 500 {
		t.Errorf("there are %d fields", n)
	}
}

// TestPoliciesAreNoFields: a policy is a field of a job, or of a shared policy, by its own name, and
// no other field has that name. The same holds for uses of declared policies.
func TestPoliciesAreNoFields(t *testing.T) {
	for name, kind := range library.KnownPolicies() {
		names := []string{name}
		if kind.Use != nil {
			names = append(names, kind.Use.Key)
			if other := library.KnownPolicies()[kind.Use.Key]; other.Job {
				t.Errorf("a use of %s is called %s, as a policy of jobs is", name, kind.Use.Key)
			}
		}
		for _, name := range names {
			for _, of := range []any{manifest.Job{}, manifest.SharedPolicy{}, manifest.Task{}, manifest.Spec{}} {
				for i := range reflect.TypeOf(of).NumField() {
					if field, _, _ := strings.Cut(reflect.TypeOf(of).Field(i).Tag.Get("json"), ","); field == name {
						t.Errorf("%T has a field %s, and there is a policy of that name", of, name)
					}
				}
			}
		}
		if drawn := (ahead.ReserveAhead{}).Kind(); !kind.Job && kind.Use == nil && name != drawn { // tasks name its reservation
			t.Errorf("%s is only declared, and no text of a job uses it", name)
		}
	}
}

// TestDeclaredPoliciesRefuseJobs: exactly the policies marked as OnlyDeclared refuse every job.
func TestDeclaredPoliciesRefuseJobs(t *testing.T) {
	for name, empty := range builtin.Kinds() {
		_, shared := empty().(esl.Shared)
		declared := esl.Describe(empty()).OnlyDeclared
		if shared && declared != refuses(empty()) {
			t.Errorf("%s: it refuses jobs: %v, and Describe says %v", name, !declared, declared)
		}
	}
}

// refuses reports whether a policy refuses every job, whatever its parameters.
func refuses(p esl.Policy) bool {
	err := p.Apply(&esl.Group{ID: "j"})
	return err != nil && strings.Contains(err.Error(), "shared: declare it under")
}

// TestParametersAreStoredAsTheLibraryDoes compares policies stored from files with the library's.
func TestParametersAreStoredAsTheLibraryDoes(t *testing.T) {
	known := library.KnownPolicies()
	for text, want := range map[string]esl.Policy{
		"gang":                                                    gang.Gang{},
		"gang={onLoss: restart}":                                  gang.Gang{Loss: esl.Restart},
		"spread={maxSkew: 2, over: rack}":                         place.Spread{Over: esl.Rack, MaxSkew: 2},
		"share={as: a/alice, in: teams}":                          esl.Use{Name: "teams", As: "a/alice", Of: "fair-share"},
		"use={as: a/alice, name: teams}":                          esl.Use{Name: "teams", As: "a/alice"},
		"near={to: corpus, wait: 90s}":                            place.Near{To: "corpus", Wait: manifest.Wait(90e9)},
		"fair-share={anyone: 1, of: {a: {of: {b: {weight: 2}}}}}": nil,
	} {
		if want == nil {
			want = share.FairShare{Anyone: 1, Of: map[string]share.Team{"a": {Of: map[string]share.Team{"b": {Weight: 2}}}}}
			known["fair-share"] = manifest.PolicyKind{New: known["fair-share"].New, Job: true}
		}
		p, _, err := manifest.ReadPolicy(text, known)
		if err != nil {
			t.Error(err)
			continue
		}
		made := apply.PolicyOf(p)
		if !reflect.DeepEqual(made, want) {
			t.Errorf("%s: %+v", text, made)
		}
		inFile, err := json.Marshal(p.With)
		if stored, wrong := esl.Stored(want); err != nil || wrong != nil || stored.With != "" && stored.With != string(inFile) {
			t.Errorf("%s: stored as %s, by the library as %s: %v", text, inFile, stored.With, errors.Join(err, wrong))
		}
	}
}

// TestMadePoliciesAreReadAlike: what is stored of a policy with all parameters is the policy.
func TestMadePoliciesAreReadAlike(t *testing.T) {
	known := library.KnownPolicies()
	for name, kind := range library.KnownPolicies() {
		with := inFull(name, kind)
		known[name] = manifest.PolicyKind{New: known[name].New, Job: true}
		p, _, err := manifest.ReadPolicy(name+"="+string(inJSON(t, with)), known)
		if err != nil {
			t.Error(err)
			continue
		}
		made := apply.PolicyOf(p)
		stored, err := esl.Stored(made)
		if err != nil {
			t.Error(err)
		}
		read, err := builtin.Kinds().Read(stored)
		if err != nil || !reflect.DeepEqual(made, read) {
			t.Errorf("%s: %+v is read as %+v: %v", name, made, read, err)
		}
	}
}

// flagsOf parses the flags of run.
func flagsOf(t *testing.T, args ...string) run.PolicyFlags {
	t.Helper()
	var p run.PolicyFlags
	flags := pflag.NewFlagSet("run", pflag.ContinueOnError)
	p.Add(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFlagsMakePolicies(t *testing.T) {
	for args, want := range map[string]string{
		"--gang 4": "gang",
		"--gang 4 --on-loss restart --per-node 2":                  `gang {"perNode":2,"onLoss":"restart"}`,
		"--gang 4 --together rack":                                 `gang {"in":"rack"}`,
		"--gang 4 --apart":                                         "gang, apart",
		"--gang 4 --apart --per-node 2":                            `gang {"perNode":2}, apart`,
		"--gang 4 --colocate-with web --on-loss alone":             `gang {"onLoss":"alone"}, colocate {"with":"web"}`,
		"--together rack --on-loss fail --colocate-with web":       `colocate {"in":"rack","onLoss":"fail"}, colocate {"with":"web"}`,
		"--apart=false --pack":                                     "pack",
		"--together zone":                                          `colocate {"in":"zone"}`,
		"--colocate-with web":                                      `colocate {"with":"web"}`,
		"--apart --per-node 3":                                     `apart {"perNode":3}`,
		"--spread rack --max-skew 2":                               `spread {"over":"rack","maxSkew":2}`,
		"--balance --pack":                                         "balance, pack",
		"--elastic 2":                                              `elastic {"min":2}`,
		"--elastic 0 --migrate":                                    `elastic {"min":0}, migrate`,
		"--preempt --aging 1m --stay":                              `preempt, stay, aging {"every":"1m0s"}`,
		"--shortest":                                               "shortest",
		"--earliest-deadline":                                      "earliest-deadline",
		"--least-attained las":                                     `use {"name":"las","of":"least-attained"}`,
		"--queue batch":                                            `use {"name":"batch","of":"queue"}`,
		"--queue lanes/fast":                                       `use {"name":"lanes","as":"fast","of":"fair-queue"}`,
		"--share teams/a/alice":                                    `use {"name":"teams","as":"a/alice","of":"fair-share"}`,
		"--share teams":                                            `use {"name":"teams","of":"fair-share"}`,
		"--semaphore licence":                                      `use {"name":"licence","of":"semaphore"}`,
		"--semaphore licence=2":                                    `use {"name":"licence","amount":2,"of":"semaphore"}`,
		"--near corpus --near-wait 0s":                             `near {"to":"corpus","wait":"0s"}`,
		"--near corpus --near-wait 3s":                             `near {"to":"corpus","wait":"3s"}`,
		"--after load-1 --after load-2":                            `after {"jobs":["load-1","load-2"]}`,
		"--after load --after-each":                                `after {"jobs":["load"],"each":true}`,
		"--at-once 3":                                              `limit {"atOnce":3}`,
		"--prefer rack/r1 --prefer zone/z,after=3s":                `prefer {"of":[{"rack":"r1"},{"zone":"z","after":"3s"}]}`,
		"--prefer rack/r1 --prefer anywhere":                       `prefer {"of":[{"rack":"r1"}],"anywhere":"0s"}`,
		"--prefer label/disk=ssd,gpu=1 --prefer anywhere,after=1m": `prefer {"of":[{"labels":{"disk":"ssd"},"requests":{"gpu":"1"}}],"anywhere":"1m0s"}`,
		"--policy spread={over:rack} --policy acme.com/even":       "",

		"--near corpus --near-step rack,after=5s --near-step zone,after=1m --near-wait 2m": `near {"to":"corpus","steps":[{"in":"rack","after":"5s"},{"in":"zone","after":"1m0s"}],"wait":"2m0s"}`,
	} {
		words := strings.Fields(args)
		if want == "" {
			words = []string{"--policy", "spread={over: rack}", "--policy", "acme.com/even={n: 1}"}
			want = `spread {"over":"rack"}, acme.com/even {"n":1}`
		}
		p := flagsOf(t, words...)
		got, err := p.Policies()
		var texts []string
		for _, one := range got {
			stored, wrong := esl.Stored(one)
			texts = append(texts, strings.TrimSpace(stored.Kind+" "+stored.With))
			err = errors.Join(err, wrong)
		}
		if err != nil || strings.Join(texts, ", ") != want {
			t.Errorf("%s: %s, %v, want %s", args, strings.Join(texts, ", "), err, want)
		}
	}
}

func TestFlagsThatAreRefused(t *testing.T) {
	for args, says := range map[string]string{
		"--gang -1":                         "gang: -1 is negative",
		"--gang 0 --per-node 2":             "gang: 0 tasks are none",
		"--apart=false --per-node 2":        "per-node: is given without --gang or --apart",
		"--colocate-with a --on-loss fail":  "on-loss: is given without --gang or --together",
		"--elastic -1":                      "elastic: -1 is negative",
		"--max-skew 1":                      "max-skew: is given, and nothing is spread",
		"--per-node 2":                      "per-node: is given without --gang or --apart",
		"--spread rack --max-skew 0":        "policy spread: with.maxSkew: 0 would let none begin: give how many more one may have, or leave it out for 1",
		"--gang 2 --per-node 0":             "policy gang: with.perNode: 0 is no task: give how many are together, or leave it out",
		"--apart --per-node 0":              "policy apart: with.perNode: 0 would let none begin",
		"--max-skew 0":                      "max-skew: is given, and nothing is spread",
		"--near corpus --near-wait -1s":     "policy near: with.wait: -1s is negative: give a time",
		"--on-loss fail":                    "on-loss: is given without --gang or --together",
		"--near-wait 1s":                    "near-wait: is given without --near",
		"--gang 2 --on-loss up":             `policy gang: with.onLoss: "up" is unknown`,
		"--spread floor":                    `policy spread: with.over: "floor" is unknown`,
		"--policy sprad":                    `policy sprad: name: "sprad" is unknown: did you mean spread?`,
		"--semaphore a=x":                   `semaphore: "x" is no amount`,
		"--prefer up":                       `prefer: "up" is no place`,
		"--prefer anywhere --prefer rack/a": "prefer: anywhere is any place",
		"--queue batch --policy queue={}":   "policy queue: name: queue is shared by jobs: declare it",
		"--share teams/":                    `share: "teams/" names no user: write teams/alice`,
	} {
		p := flagsOf(t, strings.Fields(args)...)
		_, err := p.Policies()
		if !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s\ngot  %v\nwant %s", args, err, says)
		}
	}
}

// TestTrainingFile: distributed training takes 15 lines, with or without spec, as in the example.
func TestTrainingFile(t *testing.T) {
	const grouped = `apiVersion: escher.dev/v1
kind: Job
name: train
count: 2
gang: {in: rack, onLoss: restart}                 # any policy by its name, beside policies:
template:
  requests: {cpu: 64, memory: 900Gi, gpu: {count: 8, model: H100, topology: nvlink}}
  maxRun: 24h
  spec:
    image: nvcr.io/nvidia/pytorch:25.10-py3
    shm: 64Gi
    warn: USR1@120s
    ports: [rdzv]
    workdir: .
    run: torchrun --nnodes=$ESCHER_COUNT --node-rank=$ESCHER_INDEX --nproc-per-node=8 --master-addr=$MASTER_ADDR --master-port=$MASTER_PORT train.py
`
	example, err := os.ReadFile(filepath.Join(examplesPath, "jobs/torchrun.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var jobs []*manifest.Job
	for _, text := range []string{grouped, string(example)} {
		docs, err := manifest.Parse("f", []byte(text), library.KnownPolicies())
		if err != nil || len(docs[0].Notices) > 0 {
			t.Fatalf("%v, %v", docs, err)
		}
		jobs = append(jobs, docs[0].Job)
	}
	if diff := cmp.Diff(jobs[0], jobs[1]); diff != "" {
		t.Errorf("the example differs: %s", diff)
	}
}
