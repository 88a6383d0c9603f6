package rest_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/escher-sched/escher/api/certs"
	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/hollow"
)

// world is a hollow cluster with the API.
type world struct {
	t       *testing.T
	cluster *hollow.Cluster
	server  *httptest.Server
	api     huma.API
	// schemas compiles the schemas of the API.
	schemas *jsonschema.Compiler
	// left gets a value when a command ends with its client.
	left chan struct{}
	// checking is locked while an answer is checked.
	checking sync.Mutex
	// asked are the operations that have succeeded.
	asked map[string]bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	left := make(chan struct{}, 1)
	c, err := hollow.Start(t.Context(), hollow.Config{
		Nodes: hollow.Racks(hollow.Nodes(4, 4), 2), APIDir: t.TempDir(), HistoryDir: t.TempDir(), StateDir: t.TempDir(), Behave: writes, Runtime: inside(t.TempDir(), left),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	w := &world{t: t, cluster: c, left: left, asked: make(map[string]bool)}
	w.serve()
	text, err := json.Marshal(w.api.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	w.schemas = jsonschema.NewCompiler()
	if err := w.schemas.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	return w
}

// serve starts the API, in place of the one before.
func (w *world) serve() {
	ca, err := certs.Open(w.t.TempDir(), time.Now())
	if err != nil {
		w.t.Fatal(err)
	}
	h, api := rest.Build(rest.Config{Store: mirrored(w.t, w.cluster.Store), History: w.cluster.History, CA: ca, Used: used, Secrets: secretKeys(w.t), Now: time.Now, Version: "test"})
	if w.server != nil {
		w.server.CloseClientConnections()
		w.server.Close()
	}
	w.server, w.api = httptest.NewServer(h), api
	w.t.Cleanup(w.server.Close)
}

// ask sends a request, checks the answer against the schema of the operation, and returns it.
func (w *world) ask(method, path, body string) (status int, answer map[string]any) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.server.URL+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	w.checking.Lock()
	defer w.checking.Unlock()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		w.t.Fatalf("%s %s: %v: %s", method, path, err, text)
	}
	if op, at := w.operation(method, path); op != nil {
		media, kind := "200", "application~1json"
		if res.StatusCode >= 300 {
			media, kind = "default", "application~1problem+json"
		} else {
			w.asked[op.OperationID] = true
			w.described(op, method, at, body)
		}
		where := fmt.Sprintf("openapi.json#/paths/%s/%s/responses/%s/content/%s/schema", strings.ReplaceAll(at, "/", "~1"), strings.ToLower(method), media, kind)
		schema, err := w.schemas.Compile(where)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := schema.Validate(value); err != nil {
			w.t.Errorf("%s %s: the answer is not as described: %v\n%s", method, path, err, text)
		}
	}
	answer, _ = value.(map[string]any)
	if want := "application/problem+json"; res.StatusCode >= 300 && res.Header.Get("Content-Type") != want {
		w.t.Errorf("%s %s: %s, want %s: %s", method, path, res.Header.Get("Content-Type"), want, text)
	}
	return res.StatusCode, answer
}

// described checks an accepted body against the schema of the operation.
func (w *world) described(op *huma.Operation, method, at, body string) {
	w.t.Helper()
	if op.RequestBody == nil || op.RequestBody.Content["application/json"] == nil {
		return
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	schema, err := w.schemas.Compile(fmt.Sprintf("openapi.json#/paths/%s/%s/requestBody/content/application~1json/schema", strings.ReplaceAll(at, "/", "~1"), strings.ToLower(method)))
	if err == nil {
		err = schema.Validate(value)
	}
	if err != nil {
		w.t.Errorf("%s %s: the body is not as described: %v\n%s", method, at, err, body)
	}
}

// operation returns the operation of a request, and its path in the description.
func (w *world) operation(method, path string) (*huma.Operation, string) {
	u, err := url.Parse(path)
	if err != nil {
		w.t.Fatal(err)
	}
	parts := strings.Split(u.Path, "/")
	for at, item := range w.api.OpenAPI().Paths {
		pattern := strings.Split(at, "/")
		if len(pattern) != len(parts) {
			continue
		}
		matches := true
		for i, p := range pattern {
			matches = matches && (p == parts[i] || strings.HasPrefix(p, "{"))
		}
		if op := map[string]*huma.Operation{"GET": item.Get, "PUT": item.Put, "POST": item.Post, "DELETE": item.Delete}[method]; matches && op != nil {
			return op, at
		}
	}
	return nil, ""
}

// want sends a request that must succeed.
func (w *world) want(method, path, body string) map[string]any {
	w.t.Helper()
	status, answer := w.ask(method, path, body)
	if status != http.StatusOK {
		w.t.Fatalf("%s %s: %d %v", method, path, status, answer)
	}
	return answer
}

// count returns how many objects the namespace has.
func (w *world) count() (n int) {
	w.t.Helper()
	for _, kind := range []controlplane.Kind{controlplane.Tasks, controlplane.Jobs, controlplane.Resources, controlplane.Reservations, controlplane.Policies} {
		kvs, _, err := controlplane.ListAll(w.t.Context(), w.cluster.Store, controlplane.ListOptions{Prefix: controlplane.Prefix(kind, "team"), KeysOnly: true})
		if err != nil {
			w.t.Fatal(err)
		}
		n += len(kvs)
	}
	return n
}

// items returns a field of each item of a page.
func items(page map[string]any, field string) (all []string) {
	list, _ := page["items"].([]any)
	for _, x := range list {
		all = append(all, fmt.Sprint(x.(map[string]any)[field]))
	}
	return all
}

const in = "/v1/namespaces/team"

// TestOperations calls each operation, and checks each answer against the description of the API.
func TestOperations(t *testing.T) {
	w := newWorld(t)
	if got := items(w.want("GET", "/v1/nodes?selector=rack%3Dr0", ""), "name"); len(got) != 2 {
		t.Errorf("nodes of rack r0: %s", got)
	}
	w.want("GET", "/v1/nodes/n00", "")
	w.want("GET", "/v1/nodes/n00/why", "")
	w.want("POST", in+"/resources", `{"name": "slots", "capacity": "2", "where": {"nodes": ["n01"]}}`)
	if got := items(w.want("GET", in+"/resources", ""), "where"); !slices.Equal(got, []string{"n01"}) {
		t.Errorf("slots is on %s", got)
	}
	one := w.want("POST", in+"/tasks", `{"tasks": [{"id": "one", "labels": {"team": "a"}, "requests": {"slots": "1", "cpu": "1"}, "spec": {"image": "x:1", "command": ["stop", "1ms"]}}]}`)
	if fmt.Sprint(one["tasks"]) != "[one]" {
		t.Fatalf("launched %v", one)
	}
	if got := w.want("GET", in+"/wait?id=one&until=running&timeout=1m", ""); got["complete"] != true {
		t.Errorf("one does not run: %v", got)
	}
	if got := w.want("GET", in+"/tasks/one", ""); got["node"] != "n01" || got["phase"] != "running" {
		t.Errorf("one is %v", got)
	}
	w.want("POST", in+"/tasks/one/evict", `{"attempt": 1}`)
	w.want("POST", in+"/tasks/one/stop", `{"reason": "enough", "grace": "1s"}`)
	w.want("GET", in+"/wait?id=one&timeout=1m", "")
	gang := w.want("POST", in+"/tasks", `{"job": {"id": "pair", "name": "pair", "policies": [{"name": "gang"}]}, "tasks": [
		{"requests": {"cpu": "3"}, "spec": {"image": "x:1", "command": ["stop", "1ms"]}}, {"requests": {"ghost": "1"}, "spec": {"image": "x:1"}}]}`)
	first := gang["tasks"].([]any)[0].(string)
	if got := w.want("GET", in+"/tasks/"+first+"/why", ""); got["policies"] == nil {
		t.Errorf("why: %v", got)
	}
	if got := items(w.want("GET", in+"/jobs?selector=!x", ""), "id"); !slices.Equal(got, []string{"pair"}) {
		t.Errorf("jobs: %s", got)
	}
	w.want("GET", in+"/jobs/pair", "")
	w.want("GET", in+"/jobs/pair/why", "")
	if got := items(w.want("GET", in+"/policies", ""), "id"); !slices.Equal(got, []string{"pair"}) {
		t.Errorf("policies: %s", got)
	}
	if got := w.want("POST", in+"/jobs/pair/stop", `{"reason": "enough"}`); len(got["tasks"].([]any)) != 2 {
		t.Errorf("of two tasks these were stopped: %v", got)
	}
	w.want("GET", in+"/wait?id="+gang["tasks"].([]any)[1].(string)+"&id="+first+"&timeout=1m", "")
	if got := w.want("POST", in+"/jobs/pair/stop", `{}`); len(got["tasks"].([]any)) != 0 {
		t.Errorf("of an ended job these were stopped: %v", got)
	}
	w.want("DELETE", in+"/jobs/pair", "")
	w.want("DELETE", in+"/tasks/one", "")
	w.want("POST", in+"/reservations", `{"id": "big", "bundles": [{"requests": {"cpu": "2"}}]}`)
	w.want("GET", in+"/reservations/big/why", "")
	if got := items(w.want("GET", in+"/reservations", ""), "id"); !slices.Contains(got, "big") {
		t.Errorf("reservations: %s", got)
	}
	w.want("DELETE", in+"/reservations/big", "")
	state := w.want("GET", in+"/state?reads=true", "")
	key := "/escher/resources/team/slots/n01"
	at := fmt.Sprint(state["reads"].(map[string]any)[key])
	w.want("POST", in+"/transactions", fmt.Sprintf(`{"if": {%q: %s}, "set": [{"name": "slots", "capacity": "5", "where": {"nodes": ["n01"]}}]}`, key, at))
	w.applies()
	w.access()
	if got := items(w.want("GET", "/v1/namespaces", ""), "name"); !slices.Equal(got, []string{"team"}) {
		t.Errorf("namespaces: %s", got)
	}
	if got := items(w.want("GET", in+"/tasks?phase=pending,running,bound", ""), "name"); !slices.Equal(got, []string{"web"}) {
		t.Errorf("tasks: %s", got)
	}
	w.fewer()
	w.containers()
	w.images()
	w.namespaces()
	w.nodes()
	w.recorded()
	w.want("GET", "/v1/history", "")
	w.want("GET", "/v1/usage", "")
	w.complete()
}

// complete checks that each operation was called.
func (w *world) complete() {
	w.t.Helper()
	w.want("GET", "/v1/requests", "")
	w.asked["watch"], w.asked["watchKeys"], w.asked["openSecrets"], w.asked["openLogin"] = true, true, true, true // TestWatch, remote.TestWatch, TestOpenSecrets, TestOpenLogin
	for _, path := range []string{"/v1/hold?name=x", "/v1/peers"} {                                               // requests.TestOwnRequests asks by the socket of a task
		if status, answer := w.ask("GET", path, ""); status != http.StatusPreconditionFailed {
			w.t.Errorf("%s: %d %v", path, status, answer)
		}
	}
	w.asked["holdUnit"], w.asked["watchPeers"] = true, true
	for at, item := range w.api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete, item.Patch} {
			if op != nil && !w.asked[op.OperationID] {
				w.t.Errorf("%s at %s was not called", op.OperationID, at)
			}
		}
	}
}

// access calls the operations on identities, tokens and rights.
func (w *world) access() {
	if got := items(w.want("GET", in+"/keys?prefix=/escher/resources/team/slots/", ""), "key"); !slices.Equal(got, []string{"/escher/resources/team/slots/n01"}) {
		w.t.Errorf("keys: %s", got)
	}
	if got := items(w.want("GET", in+"/keys?prefix=/escher/resources/team/slots/", ""), "key"); !slices.Equal(got, []string{"/escher/resources/team/slots/n01"}) {
		w.t.Errorf("keys: %s", got)
	}
	if got := w.want("GET", "/v1/login", ""); got["issuer"] != nil {
		w.t.Errorf("there is an issuer: %v", got)
	}
	if got := w.want("GET", "/v1/whoami", ""); got["root"] != true {
		w.t.Errorf("the caller is %v", got)
	}
	made := w.want("POST", "/v1/tokens", `{"subject": "user:alice", "life": "1h", "groups": ["ml"]}`)
	if got := items(w.want("GET", "/v1/tokens", ""), "subject"); !slices.Equal(got, []string{"user:alice"}) {
		w.t.Errorf("tokens of %s", got)
	}
	w.want("DELETE", "/v1/tokens/"+made["id"].(string), "")
	w.want("PUT", "/v1/rights/lab", `{"subjects": ["user:alice"], "role": "member", "namespaces": ["lab"]}`)
	if got := items(w.want("GET", "/v1/rights", ""), "name"); !slices.Equal(got, []string{"lab"}) {
		w.t.Errorf("rights: %s", got)
	}
	w.want("DELETE", "/v1/rights/lab", "")
	w.secrets()
	if got := w.want("GET", "/v1/can-i?verb=write&kind=tasks&namespace=lab", ""); got["allowed"] != true {
		w.t.Errorf("root may not: %v", got)
	}
}

// applies applies a file of objects by the condition of its plan.
func (w *world) applies() {
	docs := "apiVersion: escher.dev/v1\nkind: Namespace\nname: team\nbudget: {pending: 50}\n---\napiVersion: escher.dev/v1\nkind: Task\nname: web\nimage: x:1\ncommand: [stop, 1ms]\n"
	plan := w.want("POST", in+"/plan", docs)
	path := in + "/apply?ifRevision=" + plan["condition"].(string)
	w.want("POST", path, docs)
	w.want("POST", in+"/apply", "apiVersion: escher.dev/v1\nkind: Policy\nname: night\nqueue: {limit: 1}\n")
	w.want("DELETE", in+"/policies/night?force=true", "")
	if status, p := w.ask("DELETE", in+"/policies/night", ""); status != http.StatusNotFound {
		w.t.Errorf("a policy that is gone: %d %v", status, p)
	}
	task := docs[strings.Index(docs, "---"):]
	if got := w.want("POST", in+"/submit", strings.Replace(task, "name: web", "name: again", 1)); len(got["tasks"].([]any)) != 1 {
		w.t.Errorf("submitted %v", got)
	} else {
		w.want("POST", in+"/tasks/"+got["tasks"].([]any)[0].(string)+"/stop", "{}")
		w.want("GET", in+"/wait?id="+got["tasks"].([]any)[0].(string), "")
		w.want("DELETE", in+"/tasks/"+got["tasks"].([]any)[0].(string), "")
	}
	if status, p := w.ask("POST", path, docs); status != http.StatusConflict {
		w.t.Errorf("the condition of an older plan: %d %v", status, p)
	}
}

// fewer applies a job with fewer tasks than there are: the others are stopped if the request says so.
func (w *world) fewer() {
	job := "apiVersion: escher.dev/v1\nkind: Job\nname: many\ncount: %d\ntemplate: {image: \"x:1\", command: [stop, 1ms]}\n"
	w.want("POST", in+"/apply", fmt.Sprintf(job, 3))
	if status, p := w.ask("POST", in+"/apply", fmt.Sprintf(job, 1)); status != http.StatusPreconditionFailed || !strings.Contains(fmt.Sprint(p["detail"]), "has more tasks than described") {
		w.t.Errorf("of three tasks one: %d %v", status, p)
	}
	w.want("POST", in+"/apply?replace=true", fmt.Sprintf(job, 1))
}

// refusal is a wrong request, and how it is refused.
type refusal struct {
	method, path, body string
	status             int
	class, field, says string
}

// refuses checks that requests are refused, and change nothing.
func (w *world) refuses(all []refusal) {
	w.t.Helper()
	for _, c := range all {
		before := w.count()
		status, p := w.ask(c.method, c.path, c.body)
		if status != c.status || p["class"] != c.class || !strings.Contains(fmt.Sprint(p["detail"]), c.says) || c.field != "" && p["field"] != c.field {
			w.t.Errorf("%s %s %.200s: %d %v, want %d %s %s %q", c.method, c.path, c.body, status, p, c.status, c.class, c.field, c.says)
		}
		if after := w.count(); after != before {
			w.t.Errorf("%s %s %.200s: of %d keys there are %d now", c.method, c.path, c.body, before, after)
		}
	}
}

// TestRefused checks that a wrong request is refused with the class of the error and the field, and that
// it changes nothing.
func TestRefused(t *testing.T) {
	w := newWorld(t)
	w.want("POST", in+"/tasks", `{"tasks": [{"id": "one", "requests": {"cpu": "99"}, "spec": {"image": "x:1"}}]}`)
	w.refuses([]refusal{
		{"GET", "/v1/nothing", "", 404, "not found", "", "/openapi.json lists all"},
		{"PUT", in + "/tasks", "", 404, "not found", "", "there is no such operation"},
		{"GET", "/v1/nodes/n99", "", 404, "not found", "", "node n99"},
		{"GET", in + "/tasks/two", "", 404, "not found", "", "two"},
		{"GET", in + "/tasks/two/why", "", 404, "not found", "", "two"},
		{"GET", "/v1/namespaces/a%20b/tasks", "", 400, "invalid", "namespace", "a b"},
		{"GET", in + "/tasks?limit=0", "", 422, "invalid", "limit", "limit"},
		{"GET", in + "/tasks?limit=many", "", 422, "invalid", "limit", `"many"`},
		{"GET", in + "/tasks?colour=red", "", 422, "invalid", "colour", "colour"},
		{"GET", in + "/tasks?phase=lost", "", 422, "invalid", "phase[0]", `"lost"`},
		{"GET", in + "/tasks?selector=a%3D%3D%3Db", "", 400, "invalid", "selector.a", "selector"},
		{"GET", in + "/wait", "", 422, "invalid", "id", "id"},
		{"GET", in + "/wait?id=one&timeout=soon", "", 400, "invalid", "timeout", "write it such as 30s"},
		{"GET", in + "/watch?of=nodes", "", 422, "invalid", "of", "of"},
		{"POST", in + "/tasks", `{"tasks": [{"spec": {"image": "x:1"}, "colour": "red"}]}`, 400, "invalid", "body", "colour"},
		{"POST", in + "/tasks", `{"tasks": [{"requests": {"cpu": "-1"}, "spec": {"image": "x:1"}}]}`, 400, "invalid", "", "cpu"},
		{"POST", in + "/tasks", `{"Tasks": []}`, 400, "invalid", "body", "Tasks"},
		{"POST", in + "/tasks", `{"tasks": [`, 400, "invalid", "body", "unexpected"},
		{"POST", in + "/tasks", `{"job": {"policies": [{"name": "gnag"}]}, "tasks": [{"spec": {"image": "x:1"}}]}`, 400, "invalid", "", "gnag"},
		{"POST", in + "/resources", `{"name": "slots", "capacity": "1"}`, 400, "invalid", "where", "name the nodes"},
		{"POST", in + "/resources", `{"name": "cpu", "capacity": "1", "where": {"nodes": ["n01"]}}`, 400, "invalid", "", "cpu"},
		{"POST", in + "/tasks/one/stop", `{"grace": "1 second"}`, 400, "invalid", "", "duration"},
		{"POST", in + "/apply", "kind: Task\nname: x\n", 400, "invalid", "", "apiVersion"},
		{"POST", in + "/apply?ifRevision=x", "apiVersion: escher.dev/v1\nkind: Task\nname: x\nimage: x:1\n", 400, "invalid", "ifRevision", "condition"},
		{"POST", in + "/apply", "apiVersion: escher.dev/v1\nkind: Task\nname: x\nimage: x:1\npriority: high\n", 400, "invalid", "priority", "high"},
		{"POST", in + "/apply", "apiVersion: escher.dev/v1\nkind: Task\nname: x\nimage: x:1\nworkdir: .\n", 400, "invalid", "workdir", "escher apply"},
		{"POST", in + "/tasks", `{"tasks": [{"spec": {"image": "x:1", "workdir": {"from": "."}}}]}`, 400, "invalid", "", "workdir"},
		{"POST", in + "/tasks", strings.Repeat(`{"job":`, 40) + strings.Repeat("}", 40), 400, "invalid", "body", "nested deeper"},
		{"POST", in + "/tasks", `{"tasks": [` + strings.Repeat("{},", 20_000) + "{}]}", 400, "invalid", "body", "elements"},
		{"POST", in + "/tasks", `{"tasks": ["` + strings.Repeat("x", 5<<20) + `"]}`, 413, "invalid", "", "too large"},
		{"POST", in + "/transactions", `{"if": {"/escher/resources/team/slots/n01": 7}, "set": [{"name": "slots", "capacity": "5", "where": {"nodes": ["n01"]}}]}`, 409, "conflict", "", ""},
		{"DELETE", in + "/tasks/one", "", 412, "precondition", "", "one"},
		{"DELETE", in + "/reservations/none", "", 404, "not found", "", "none"},
		{"POST", "/v1/tokens", `{"subject": "alice"}`, 400, "invalid", "subject", "user:NAME"},
		{"POST", "/v1/tokens", `{"life": "1000000h"}`, 400, "invalid", "life", "out of range"},
		{"PUT", "/v1/rights/a%20b", `{"subjects": ["user:a"], "role": "member", "namespaces": ["lab"]}`, 400, "invalid", "name", "a b"},
		{"PUT", "/v1/rights/lab", `{"subjects": ["user:a"], "role": "king", "namespaces": ["lab"]}`, 400, "invalid", "role", "king"},
		{"PUT", "/v1/rights/lab", `{"subjects": ["user:a"], "role": "member", "namespaces": []}`, 400, "invalid", "namespaces", "*"},
		{"DELETE", "/v1/rights/none", "", 404, "not found", "", "none"},
		{"GET", "/v1/can-i?verb=read&kind=souls", "", 400, "invalid", "kind", "souls"},
	})
}

// TestPages checks that the pages of a list have each object once, in order.
func TestPages(t *testing.T) {
	w := newWorld(t)
	client, err := w.cluster.Client("team")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range 7 {
		id := fmt.Sprintf("t%d", i)
		x := hollow.Task(99_000, "stop", "1ms")
		x.ID = id
		if _, err := client.Launch(t.Context(), x); err != nil {
			t.Fatal(err)
		}
		want = append(want, id)
	}
	for _, limit := range []int{1, 3, 7, 8} {
		var got []string
		for after, pages := "", 0; ; pages++ {
			page := w.want("GET", fmt.Sprintf("%s/tasks?limit=%d&after=%s", in, limit, after), "")
			got = append(got, items(page, "id")...)
			next, more := page["next"].(string)
			if after = next; !more || pages > 7 {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("pages of %d: %s", limit, got)
		}
	}
	all := []string{"c", "a", "b"}
	for _, c := range []struct {
		after string
		limit int
		want  string
		next  string
	}{{"", 2, "[a b]", "b"}, {"b", 2, "[c]", ""}, {"aa", 5, "[b c]", ""}, {"z", 1, "[]", ""}, {"", 3, "[a b c]", ""}} {
		items, next := rest.Paged(slices.Clone(all), c.after, c.limit)
		if fmt.Sprint(items) != c.want || next != c.next {
			t.Errorf("%+v: %s, next %q", c, items, next)
		}
	}
}
