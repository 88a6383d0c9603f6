package manifest_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/manifest"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/backoff"
)

// compiled returns the compiled schema.
func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := manifest.Schema(known())
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

// admits reports whether the schema admits all documents of a file.
func admits(t *testing.T, s *jsonschema.Schema, text string) bool {
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
			t.Logf("the schema says: %v", err)
			return false
		}
	}
	return true
}

// head returns the beginning of a document.
func head(kind manifest.Kind) string {
	return "apiVersion: " + manifest.APIVersion + "\nkind: " + string(kind) + "\n"
}

const taskText = `name: a
requests: {cpu: 0.10, memory: 64Mi}
spec:
  image: img
`

// Parse and the schema both refuse these documents.
func TestBothRefuse(t *testing.T) {
	s := compiled(t)
	task := head(manifest.KindTask) + taskText
	if _, err := manifest.Parse("f", []byte(task), known()); err != nil || !admits(t, s, task) {
		t.Fatalf("what is right is refused: %v", err)
	}
	for text, says := range map[string]string{
		task + "  imgae: x\n":                              "f:7: spec.imgae: is unknown: did you mean image?",
		task + "onLoss: keep\n":                            "f:7: onLoss: is unknown: it is called onDisconnect now",
		task + "onDisconnect: no\n":                        `f:7: onDisconnect: "no" is unknown: use fence or stop or keep`,
		task + "colour: red\n":                             "f:7: colour: is unknown: use id, name,",
		task + "  args: [a]\n":                             "f:7: spec.args: is unknown: it is called command here",
		task + "resources: {}\n":                           "f:7: resources: is unknown: it is called requests here",
		task + "  ports: [{name: http, numer: 1}]\n":       "f:7: spec.ports[0].numer: is unknown: did you mean number?",
		task + "  restart: {when: sometimes}\n":            `f:7: spec.restart.when: "sometimes" is unknown: use on-failure or always`,
		task + "  checks: [{name: a, tcp: {port: 1.5}}]\n": "f:7: spec.checks[0].tcp.port: 1.5 is not a port: name one of the task's, or give a number",
		task + "  checks: [{name: a, tcp: {}}]\n":          "f:7: spec.checks[0].tcp.port: is missing: give the name of a port",
		task + "  checks: [{tcp: {port: 1}}]\n":            "f:7: spec.checks[0].name: is missing",
		task + "  checks: [{name: a, exec: [true]}]\n":     "f:7: spec.checks[0].exec: a list is given: write fields, such as command",
		task + "  checks: [{name: a, then: kill}]\n":       `f:7: spec.checks[0].then: "kill" is unknown: use report or restart`,
		task + "  warn: {signal: USR1}\n":                  "f:7: spec.warn.before: is missing: give how long before",
		task + "  init: 1\n":                               `f:7: spec.init: "1" is given: write true or false`,
		task + "  restart: {limit: 1}\n":                   "f:7: spec.restart.when: is missing: give after which ends",
		task + "  command: sh\n":                           `f:7: spec.command: "sh" is given: write a list`,
		task + "  user: 1000\n":                            `f:7: spec.user: 1000 is not a text: write it in quotes, "1000"`,
		task + "  grace: 5\n":                              "f:7: spec.grace: 5 is not a duration: write it as text with a unit",
		task + "  env:\n":                                  "f:7: spec.env: is empty: give a value, or leave it out",
		task + "priority: high\n":                          `f:7: priority: "high" is given: write a whole number`,
		task + "priority: 1.5\n":                           `f:7: priority: "1.5" is given: write a whole number`,
		task + "provides: {x: 1}\n":                        "f:7: provides: a group of fields is given: write a list",
		head(manifest.KindTask) + "spec: []\n":             "f:3: spec: a list is given: write fields, such as image: …",
		head(manifest.KindTask) + "name: a\n":              "f:1: image: is missing: give the image, such as",
		head(manifest.KindTask) + "spec: {command: [a]}\n": "f:3: spec.image: is missing: give the image, such as",
		head(manifest.KindResource) + "name: x\nwhere: {}": "f:1: capacity: is missing",
		head("Pod") + "name: a\n":                          `f:1: kind: "Pod" is unknown: write Task, Job, Resource, Reservation, Policy, Namespace or Right`,
		"apiVersion: v2\nkind: Task\n" + taskText:          `f:1: apiVersion: "v2" is unknown: write escher.dev/v1`,
		"apiVersion: apps/v1\nkind: Deployment\n":          `f:1: apiVersion: "apps/v1" is unknown: this is a manifest of Kubernetes`,
		head(manifest.KindJob) + "replicas: 2\n":           "f:3: replicas: is unknown: it is called count here",
		head(manifest.KindJob) + "args: [a]\n":             "f:3: args: is unknown: it is called command here: write it in template",
		"kind: Task\n" + taskText:                          "f:1: apiVersion: is missing",
		head(manifest.KindReservation) + "name: r\nbundles: [{requests: {cpu: 1}, nodes: a}]\n": "f:4: bundles[0].nodes: is unknown: did you mean node?",
		head(manifest.KindResource) + "name: x\ncapacity: 1\nwhere: {cluster: \"yes\"}\n":       `f:5: where.cluster: "yes" is given: write true or false`,
		head(manifest.KindResource) + "name: x\ncapacity: 1\nwhere: {labels: {rack: 7}}\n":      `f:5: where.labels.rack: 7 is not a text: write it in quotes`,
	} {
		_, err := manifest.Parse("f", []byte(text), known())
		refused(t, err, text, says)
		if admits(t, s, text) {
			t.Errorf("the schema admits\n%s", text)
		}
	}
}

func refused(t *testing.T, err error, text, says string) {
	t.Helper()
	if !types.Is(err, types.Invalid) || !strings.HasPrefix(err.Error(), says) {
		t.Errorf("\n%s\ngot  %v\nwant %s", text, err, says)
	}
}

// Only Parse refuses these.
func TestParseRefuses(t *testing.T) {
	task := head(manifest.KindTask) + taskText
	job := head(manifest.KindJob)
	for text, says := range map[string]string{
		"":                              "f: has no document: write at least one document",
		"# nothing\n---\n":              "f: has no document",
		"a: [1\n":                       "f:",
		"[]":                            "f:1: a list is given: write fields, apiVersion: escher.dev/v1 and kind first",
		task + "name: b\n":              "f:7: name: is given twice, first in line 3: drop one",
		task + "---\n" + task:           "f:8: task a is described twice, first in line 1",
		task + "  stopSignal: SIGFOO\n": `f:7: spec.stopSignal: "SIGFOO" is not a signal`,
		task + "  mounts: [{target: /x}, {target: x}]\n":                                              `f:7: spec.mounts[1].target: "x" is not absolute`,
		task + "maxRun: -1s\n":                                                                        "f:7: maxRun: -1s is negative",
		task + "deadline: soon\n":                                                                     `f:7: deadline: "soon" is neither a time nor a duration`,
		task + "deadline: -1h\n":                                                                      "f:7: deadline: -1h0m0s has passed",
		task + "provides: [{name: x, amount: 1x, when: bound}]\n":                                     `f:7: provides[0].amount: x: "1x" is not a quantity`,
		task + "requests: {}\n":                                                                       "f:7: requests: is given twice",
		head(manifest.KindTask) + "requests: {cpu: 1, cpu: 2}\nspec: {image: a}\n":                    "f:3: requests.cpu: is given twice",
		head(manifest.KindTask) + "requests:\n  a.b/c: 0\nspec: {image: a}\n":                         "f:4: requests.a.b/c: 0 is not positive",
		head(manifest.KindTask) + "requests: {memory: 64}\nspec: {image: a}\n":                        `f:3: requests: memory: "64" has no unit`,
		job + "name: j\n":                                                                             "f:1: template: give either a template and a count, or a list of tasks",
		job + "count: 2\ntasks:\n- spec: {image: a}\n":                                                "f:3: count: belongs to a template",
		job + "count: 100001\ntemplate:\n  spec: {image: a}\n":                                        "f:3: count: 100001 is out of range",
		job + "tasks:\n- spec: {image: a}\n- spec: {image: a b}\n":                                    `f:5: tasks[1].spec.image: "a b" contains white space`,
		job + "count: 2\ntemplate:\n  id: x\n  spec: {image: a}\n":                                    "f:5: template.id: several tasks cannot have one id",
		job + "array: {indices: 9-0}\ntemplate:\n  spec: {image: a}\n":                                "f:3: array.indices: 9-0 runs backwards: write 0-9",
		job + "array: {indices: 0-9, atOnce: 0}\ntemplate:\n  spec: {image: a}\n":                     "f:3: array.atOnce: 0 would let none run",
		job + "array: 0-9\ntemplate:\n  spec: {image: a}\n":                                           `f:3: array: "0-9" is given: write fields, such as indices`,
		job + "count: 2\narray: {indices: 3}\ntemplate:\n  spec: {image: a}\n":                        "f:4: array: belongs to a template, without a count",
		job + "array: {indices: 3}\ntasks:\n- spec: {image: a}\n":                                     "f:3: array: belongs to a template",
		head(manifest.KindResource) + "name: cpu\ncapacity: 1\nwhere: {}\n":                           `f:3: name: "cpu" is a physical resource`,
		head(manifest.KindResource) + "name: x\ncapacity: 1\nwhere:\n  cluster: true\n  nodes: [a]\n": "f:6: where.cluster: is set together",
		head(manifest.KindReservation) + "name: r\nbundles: []\n":                                     "f:4: bundles: is empty",
		head(manifest.KindTask) + "<<: {name: a}\nspec: {image: a}\n":                                 `f:3: "<<" is not the name of a field`,
		"a: &a [x, *a]\n": "f:1: the document holds more than",
	} {
		_, err := manifest.Parse("f", []byte(text), known())
		refused(t, err, text, says)
	}
}

func TestAllProblemsAreTold(t *testing.T) {
	_, err := manifest.Parse("f", []byte(head(manifest.KindTask)+taskText+"  imgae: x\npriority: high\n---\n"+head(manifest.KindJob)), known())
	if err == nil || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("got %v", err)
	}
}

// TestValuesOfAllKindsAreTold checks that a problem of a single value hides no problem between
// values, and that each field is named once, in its spelling.
func TestValuesOfAllKindsAreTold(t *testing.T) {
	text := head(manifest.KindTask) + `name: web
requests: {cpu: 1}
spec:
  image: a
  restart: {when: on-failure, limit: -1}
  ports: [{name: http, number: 99999}]
  checks: [{name: up, tcp: {port: http}, every: 0s}]
`
	_, err := manifest.Parse("f", []byte(text), known())
	if err == nil {
		t.Fatal("it is accepted")
	}
	lines := strings.Split(err.Error(), "\n")
	for i, want := range []string{"f:9: spec.checks[0].every: 0s is not a duration", "spec.restart", "spec.ports[0].number"} {
		if n := strings.Count(err.Error(), want); n != 1 || len(lines) != 3 {
			t.Errorf("%d: %q is said %d times in\n%s", i, want, n, err)
		}
	}
	if strings.Contains(err.Error(), "f:1:") || strings.Contains(err.Error(), "requests") {
		t.Errorf("%s", err)
	}
}

func TestAliasesAreBounded(t *testing.T) {
	text := "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		from, to := string(rune('a'+i)), string(rune('b'+i))
		text += to + ": &" + to + " [" + strings.TrimSuffix(strings.Repeat("*"+from+", ", 10), ", ") + "]\n"
	}
	_, err := manifest.Parse("f", []byte(text), known())
	refused(t, err, "many aliases", "f:")
}

// fullTask returns a task with every field set.
func fullTask() manifest.Task {
	return manifest.Task{
		ID: "i", Name: "n", Labels: map[string]string{"acme.com/team": "vision"}, Requests: types.NewRequests(map[string]types.Quantity{"cpu": 100, "escher.io/privileged": 1000, "port": 1000, "port/80": 1000}), Priority: -1,
		Alternatives: []manifest.Alternative{{Requests: types.NewRequests(map[string]types.Quantity{"x": 1000}), After: types.Duration(time.Second)}},
		Devices:      []manifest.Devices{{Resource: "gpu", Model: []string{"m"}, MinMemory: 1, Topology: types.OneNUMA}},
		Provides:     []manifest.Provide{{Name: "y", Amount: "0.5", When: types.WhenBound}},
		Scheduler:    "s", OnDisconnect: types.Keep, MaxRun: types.Duration(time.Hour), Deadline: "2030-01-02T03:04:05Z", Session: "t", Accumulate: true, Retries: 2,
		Spec: manifest.Spec{
			Image: "img", Entrypoint: []string{"e"}, Command: []string{"a"}, Env: []string{"B=c"}, Dir: "/d", User: "1", Grace: types.Duration(time.Second), StopSignal: "SIGINT",
			Restart: &manifest.Restart{When: types.RestartAlways, Limit: 1, Delay: types.Duration(1), MaxDelay: types.Duration(2)},
			Mounts:  []manifest.Mount{{Source: "/s", Target: "/t", ReadOnly: true}}, Ports: []manifest.Port{{Name: "p"}, {Name: "q", Number: 80}},
			Checks: []manifest.Check{fullCheck()}, Warn: &manifest.Warn{Signal: "SIGUSR1", Before: 3}, Init: true, NoHealthcheck: true,
			Workdir: &manifest.Workdir{Image: types.UnsentWorkdir, To: "/app"},
			Pids:    9, CPULimit: types.CPUNone, CapAdd: []string{"SETFCAP"}, CapDrop: []string{"ALL"}, ReadOnlyRoot: true, Privileged: true, Socket: types.SocketSelf, Peers: types.AnyPeers,
			Stdin: true, TTY: true,
			MemoryLimit: 9, Shm: 7, Tmpfs: []manifest.Tmpfs{{Target: "/x", Size: 8}}, Secrets: []manifest.Secret{{Name: "db", Env: map[string]string{"A": "a", "B": "b"}, Dir: "/s"}}, Ulimits: map[string]manifest.Limits{"memlock": "-1", "nofile": "5:6"},
		},
	}
}

// fullCheck returns a check with every field set, which no valid check has.
func fullCheck() manifest.Check {
	return manifest.Check{
		Name: "c", Exec: &manifest.ExecCheck{Command: []string{"a"}}, HTTP: &manifest.HTTPCheck{Port: "p", Path: "/x", Status: 204}, TCP: &manifest.TCPCheck{Port: "80"},
		Every: 1, Timeout: 2, StartPeriod: 3, Failures: 4, Successes: 5, Then: types.ThenRestart,
	}
}

// A field lost in the conversion is missing after the conversion back.
func TestSubmissionAndBack(t *testing.T) {
	want := fullTask()
	checkFull(t, "Task", reflect.ValueOf(want))
	s, err := want.Submission(time.Unix(5, 0))
	if err != nil {
		t.Fatal(err)
	}
	if got := manifest.FromSubmission(s); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// An empty entry point means none: the command runs by itself.
func TestEntrypoint(t *testing.T) {
	for text, want := range map[string]types.Spec{
		"{image: a, command: [b, c]}":                     {Image: "a", Command: []string{"b", "c"}},
		"{image: a, entrypoint: [b], command: [c]}":       {Image: "a", Entrypoint: []string{"b"}, Command: []string{"c"}},
		"{image: a, entrypoint: [], command: [b, c]}":     {Image: "a", Entrypoint: []string{"b", "c"}},
		"{image: a, entrypoint: [sh, -c], command: [ls]}": {Image: "a", Entrypoint: []string{"sh", "-c"}, Command: []string{"ls"}},
	} {
		docs, err := manifest.Parse("f", []byte(head(manifest.KindTask)+"spec: "+text+"\n"), known())
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		s, err := docs[0].Task.Submission(time.Unix(5, 0))
		if err != nil || !reflect.DeepEqual(*s.Spec, want) {
			t.Errorf("%s: got %+v, %v; want %+v", text, s.Spec, err, want)
		}
	}
	for _, text := range []string{"{image: a, entrypoint: []}", "{image: a, entrypoint: [''], command: [b]}"} {
		_, err := manifest.Parse("f", []byte(head(manifest.KindTask)+"spec: "+text+"\n"), known())
		refused(t, err, text, "f:3: spec.entrypoint: is empty, and so is the program to run")
	}
}

// checkFull fails for fields that are not set.
func checkFull(t *testing.T, path string, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			checkFull(t, path+"."+v.Type().Field(i).Name, v.Field(i))
		}
	case reflect.Pointer:
		checkFull(t, path, v.Elem())
	case reflect.Slice:
		if v.Len() > 0 {
			checkFull(t, path, v.Index(0))
			return
		}
		fallthrough
	default:
		if v.IsZero() && path != "Task.Spec.Ports.Number" && path != "Task.Spec.Workdir.From" && path != "Task.Spec.Run" { // run becomes an entry point
			t.Errorf("%s is not set", path)
		}
	}
}

func TestSubmissionAddsPortsAndDeadline(t *testing.T) {
	task := manifest.Task{Deadline: "2s", Spec: manifest.Spec{Image: "i", Ports: []manifest.Port{{Name: "a"}, {Name: "b"}, {Name: "c", Number: 80}}}}
	s, err := task.Submission(time.Unix(5, 0))
	if err != nil || s.Task.Requests.Get("port") != 2000 || s.Task.Requests.Get("port/80") != 1000 || s.Task.Deadline != 7e9 {
		t.Errorf("%+v, %v", s.Task, err)
	}
}

func TestJobs(t *testing.T) {
	docs, err := manifest.Parse("f", []byte(head(manifest.KindJob)+"name: j\ncount: 3\ntemplate:\n  spec: {image: a}\n---\n"+
		head(manifest.KindJob)+"tasks:\n- {name: x, spec: {image: a}}\n- {name: y, spec: {image: b}}\n"), known())
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]string{{"j", "j", "j"}, {"x", "y"}} {
		subs, err := docs[i].Job.Submissions(time.Unix(0, 0))
		var got []string
		for _, s := range subs {
			got = append(got, s.Task.Name)
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%v, %v, want %v", got, err, want)
		}
	}
	if docs[0].String() != "job j" || docs[1].String() != "job" {
		t.Errorf("%s, %s", &docs[0], &docs[1])
	}
}

func TestResourcesAndReservations(t *testing.T) {
	docs, err := manifest.Parse("f", []byte(head(manifest.KindResource)+"name: x\ncapacity: 0.5\ndeclare: true\nwhere: {labels: {a: d}}\n---\n"+
		head(manifest.KindResource)+"name: y\ncapacity: inf\nwhere: {cluster: true}\n---\n"+
		head(manifest.KindReservation)+"name: r\npriority: 3\nbundles: [{requests: {cpu: 1}, node: n}]\n"), known())
	if err != nil {
		t.Fatal(err)
	}
	s, err := docs[0].Resource.Resource()
	if err != nil || s.Capacity != 500 || !s.Options.Declare || !reflect.DeepEqual(s.Where.Labels, []types.Label{{Name: "a", Value: "d"}}) {
		t.Errorf("%+v, %v", s, err)
	}
	s, err = docs[1].Resource.Resource()
	if err != nil || s.Capacity != types.Inf || !reflect.DeepEqual(s.Where, controlplane.InCluster()) {
		t.Errorf("%+v, %v", s, err)
	}
	if r := docs[2].Reservation.Reservation(); r.Priority != 3 || r.Bundles[0].Node != "n" || r.Bundles[0].Requests.Get("cpu") != 1000 {
		t.Errorf("%+v", r)
	}
}

// The port of a check is a name or a number, and the name of a signal is completed.
func TestChecks(t *testing.T) {
	docs, err := manifest.Parse("f", []byte(head(manifest.KindTask)+taskText+"  ports: [{name: web}]\n  warn: {signal: usr1, before: 120s}\n"+
		"  checks: [{name: a, tcp: {port: 8080}}, {name: b, http: {port: \"8080\"}}, {name: c, tcp: {port: web}}]\n"), known())
	if err != nil {
		t.Fatal(err)
	}
	s, err := docs[0].Task.Submission(time.Unix(5, 0))
	if err != nil {
		t.Fatal(err)
	}
	if c := s.Spec.Checks; c[0].TCP.Port != "8080" || c[1].HTTP.Port != "8080" || c[2].TCP.Port != "web" || s.Spec.Warn.Signal != "SIGUSR1" {
		t.Errorf("%+v, %+v", c, s.Spec.Warn)
	}
	text, err := json.Marshal(manifest.FromSubmission(s).Spec.Checks)
	if want := `[{"name":"a","tcp":{"port":8080}},{"name":"b","http":{"port":8080}},{"name":"c","tcp":{"port":"web"}}]`; err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
}

// TestLostBundles checks that lost bundles wait unless they must move, in both spellings.
func TestLostBundles(t *testing.T) {
	for text, want := range map[string]types.LostBundles{"": types.WaitForNode, "wait": types.WaitForNode, "move": types.MoveBundles} {
		r := manifest.Reservation{Lost: types.LostBundles(text)}
		if got := r.Reservation().Lost; got != want {
			t.Errorf("%q is %q", text, got)
		}
	}
	bad := manifest.Reservation{Lost: "flee", Bundles: []manifest.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1})}}}
	made := bad.Reservation()
	if err := made.Validate(); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), `lost: "flee"`) {
		t.Error(err)
	}
}

// TestDelaysInDescriptions: the descriptions of fields say the waits that count without them.
func TestDelaysInDescriptions(t *testing.T) {
	first, most := backoff.First.String(), strings.TrimSuffix(backoff.Max.String(), "0s")
	for _, test := range []struct {
		of     any
		field  string
		phrase string
	}{
		{manifest.Task{}, "Retries", "a wait of " + first + " that doubles up to " + most},
		{manifest.Restart{}, "Delay", first + " if it is left out"},
		{manifest.Restart{}, "MaxDelay", most + " if it is left out"},
	} {
		field, ok := reflect.TypeOf(test.of).FieldByName(test.field)
		if text := field.Tag.Get("desc"); !ok || !strings.Contains(text, test.phrase) {
			t.Errorf("%T.%s is described as %q, without %q", test.of, test.field, text, test.phrase)
		}
	}
}

// TestManyProblems checks that a file with very many problems gets a list that a person can read.
func TestManyProblems(t *testing.T) {
	_, err := manifest.Parse("f", []byte(strings.Repeat("---\napiVersion: escher.dev/v1\n", 100_000)), nil)
	if n := strings.Count(err.Error(), "\n"); n != types.MaxProblems || !strings.HasSuffix(err.Error(), "f: may have further problems: correct these first") {
		t.Errorf("%d lines: %.200s", n, err)
	}
}
