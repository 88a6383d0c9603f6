package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/escher-sched/escher/api/certs"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// used is the use of each namespace.
func used(context.Context, controlplane.Store, string) (types.Budget, error) {
	return types.Budget{Keys: 5, Bytes: 100, Pending: 2}, nil
}

// namespaces sets, reads and removes the settings of namespaces, and audits the cluster.
func (w *world) namespaces() {
	const other = "/v1/namespaces/other"
	w.want("PUT", other, `{"budget": {"pending": 7, "accumulate": false}, "quotas": {"cpu": "admin:cpus"}}`)
	got := w.want("GET", other, "")
	budget, allowed := got["budget"].(map[string]any), got["allowed"].(map[string]any)
	if fmt.Sprintf("%v %v %v", budget["pending"], allowed["pending"], budget["keys"]) != "7 7 <nil>" || allowed["keys"] == nil || fmt.Sprint(got["used"]) != "map[bytes:100 keys:5 pending:2]" {
		w.t.Errorf("the namespace is %v", got)
	}
	w.want("PUT", other, `{"name": "other", "pids": 9}`)
	if got := w.want("GET", other, ""); got["budget"] != nil || got["quotas"] != nil || fmt.Sprint(got["pids"]) != "9" {
		w.t.Errorf("the namespace is %v", got)
	}
	w.want("DELETE", other, "")
	if got := w.want("GET", other, ""); fmt.Sprint(got["revision"]) != "0" {
		w.t.Errorf("the removed settings are %v", got)
	}
	if got := w.want("GET", "/v1/audit", ""); fmt.Sprint(got["findings"]) != "[]" || fmt.Sprint(got["violations"].(map[string]any)["NoDoubleBind"]) != "0" {
		w.t.Errorf("the audit finds %v", got)
	}
}

// certified asks for the certificate of a node.
func (w *world) certified(node string) {
	key, err := certs.NewKey()
	if err != nil {
		w.t.Fatal(err)
	}
	request, err := certs.Request(key, "n03")
	if err != nil {
		w.t.Fatal(err)
	}
	text, err := json.Marshal(string(request))
	if err != nil {
		w.t.Fatal(err)
	}
	got := w.want("POST", node+"/certificate", `{"request": `+string(text)+`}`)
	if !strings.HasPrefix(fmt.Sprint(got["certificate"]), "-----BEGIN CERTIFICATE-----") {
		w.t.Errorf("the certificate is %v", got)
	}
	if got := items(w.want("GET", "/v1/tokens", ""), "id"); fmt.Sprint(got) != "[node.n03]" {
		w.t.Errorf("the credentials are %v", got)
	}
}

// nodes takes a node out of service, and removes it.
func (w *world) nodes() {
	const n = "/v1/nodes/n03"
	for _, c := range []struct{ action, body, changed string }{
		{"cordon", `{"reason": "new disk"}`, "true"}, {"cordon", `{"reason": "new disk"}`, "false"}, {"uncordon", "", "true"}, {"uncordon", "", "false"},
		{"labels", `{"add": {"disk": "ssd"}}`, "true"}, {"labels", `{"add": {"disk": "ssd"}, "remove": ["gone"]}`, "false"},
	} {
		if got := w.want("POST", n+"/"+c.action, c.body); fmt.Sprint(got["changed"]) != c.changed {
			w.t.Errorf("%s %s: %v", c.action, c.body, got)
		}
	}
	if got := items(w.want("GET", "/v1/nodes?selector=disk%3Dssd", ""), "name"); fmt.Sprint(got) != "[n03]" {
		w.t.Errorf("nodes with the label: %s", got)
	}
	w.certified(n)
	w.want("POST", in+"/tasks", `{"tasks": [{"id": "here", "requests": {"node/n03": "1"}, "spec": {"image": "x:1", "command": ["stop", "1ms"]}}]}`)
	w.want("GET", in+"/wait?id=here&until=running&timeout=1m", "")
	got := w.want("POST", n+"/drain?wait=true", `{"mode": "move", "reason": "new disk", "grace": "1s"}`)
	if !strings.Contains(fmt.Sprint(got["tied"]), "team/here") || got["changed"] != true {
		w.t.Errorf("the drain: %v", got)
	}
	if got := w.want("GET", in+"/tasks/here", ""); got["phase"] != "pending" {
		w.t.Errorf("after the drain: %v", got)
	}
	if status, p := w.ask("DELETE", n, ""); status != http.StatusPreconditionFailed {
		w.t.Errorf("a node that is alive: %d %v", status, p)
	}
	if err := w.cluster.Kill(w.t.Context(), "n03"); err != nil {
		w.t.Fatal(err)
	}
	w.want("DELETE", n+"?dead=true&reason=burnt", "")
	if status, _ := w.ask("GET", n, ""); status != http.StatusNotFound {
		w.t.Errorf("the removed node: %d", status)
	}
}

// TestDrains follows a drain until the node is empty, and one that is ended elsewhere.
func TestDrains(t *testing.T) {
	w := newWorld(t)
	w.want("POST", in+"/tasks", `{"tasks": [{"id": "stays", "requests": {"node/n00": "1"}, "spec": {"image": "x:1", "command": ["stop", "1ms"]}}]}`)
	w.want("GET", in+"/wait?id=stays&until=running&timeout=1m", "")
	events := w.events("POST", "/v1/nodes/n00/drain?wait=true", "", `{"deadline": "0s"}`)
	all, _ := until(t, events, "", func(e event) bool { return e.kind == "progress" && !strings.Contains(e.data, "stays\":{\"tied") })
	if e := all[len(all)-1]; len(all) != 2 || e.data != `{"tasks":["team/stays"]}` {
		t.Errorf("progress: %+v", e)
	}
	w.want("POST", "/v1/nodes/n00/uncordon", "")
	all, _ = until(t, events, "", func(e event) bool { return e.kind == "error" })
	if e := all[len(all)-1]; !strings.Contains(e.data, `"class":"precondition"`) || !strings.Contains(e.data, "was ended elsewhere") {
		t.Errorf("the end: %+v", e)
	}
	all, _ = until(t, w.events("POST", "/v1/nodes/n00/drain?wait=true", "", `{"mode": "stop"}`), "", func(e event) bool { return e.kind == "result" })
	if got := fmt.Sprint(all); !strings.Contains(got, `"changed":true`) {
		t.Errorf("the drain: %s", got)
	}
	if got := w.want("GET", in+"/tasks/stays", ""); got["phase"] != "cancelled" {
		t.Errorf("after the drain: %v", got)
	}
}

// TestRefusedChanges checks that wrong changes of nodes and namespaces are refused.
func TestRefusedChanges(t *testing.T) {
	w := newWorld(t)
	w.refuses([]refusal{
		{"POST", "/v1/nodes/n99/cordon", `{}`, 404, "not found", "", "n99"},
		{"POST", "/v1/nodes/n00/cordon", `{"mode": "stop"}`, 400, "invalid", "body", "mode"},
		{"POST", "/v1/nodes/n99/uncordon", "", 404, "not found", "", "n99"},
		{"POST", "/v1/nodes/n00/drain", `{"mode": "slowly"}`, 400, "invalid", "mode", "finish, move or stop"},
		{"POST", "/v1/nodes/n00/drain", `{"mode": "move", "deadline": "1m"}`, 400, "invalid", "deadline", "leave it out"},
		{"POST", "/v1/nodes/n00/drain", `{"grace": "-1s"}`, 400, "invalid", "", "-1s"},
		{"POST", "/v1/nodes/n99/drain", `{}`, 404, "not found", "", "n99"},
		{"POST", "/v1/nodes/n00/labels", `{}`, 400, "invalid", "add", "name labels"},
		{"POST", "/v1/nodes/n00/labels", `{"add": {"rack": "r9"}}`, 412, "precondition", "", "overwrite"},
		{"POST", "/v1/nodes/n00/labels", `{"remove": ["a b"]}`, 400, "invalid", "", "a b"},
		{"DELETE", "/v1/nodes/n99", "", 404, "not found", "", "n99"},
		{"DELETE", "/v1/nodes/n00?dead=true", "", 412, "precondition", "", "its agent is alive"},
		{"DELETE", "/v1/nodes/n00?reason=x", "", 400, "invalid", "reason", "dead=true"},
		{"PUT", "/v1/namespaces/other", `{"name": "team"}`, 400, "invalid", "name", "leave it out"},
		{"PUT", "/v1/namespaces/other", `{"budget": {"bytes": "much"}}`, 400, "invalid", "", "much"},
		{"PUT", "/v1/namespaces/other", `{"budgets": {}}`, 400, "invalid", "body", "budgets"},
		{"PUT", "/v1/namespaces/a%20b", `{}`, 400, "invalid", "namespace", "a b"},
		{"DELETE", "/v1/namespaces/other", "", 404, "not found", "", "other"},
		{"POST", in + "/jobs/none/stop", `{}`, 404, "not found", "", "none"},
	})
	for _, node := range []string{"n00", "n99"} {
		kvs, _, err := controlplane.ListAll(t.Context(), w.cluster.Store, controlplane.ListOptions{Prefix: controlplane.CordonKey(node), KeysOnly: true})
		if err != nil || len(kvs) > 0 {
			t.Errorf("%s is cordoned: %v", node, err)
		}
	}
}
