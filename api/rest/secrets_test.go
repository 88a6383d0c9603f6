package rest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/secrets"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// secretKeys returns a new key.
func secretKeys(t *testing.T) *secrets.Keys {
	t.Helper()
	path := filepath.Join(t.TempDir(), "key")
	if err := secrets.MakeFile(path); err != nil {
		t.Fatal(err)
	}
	k, err := secrets.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// secrets calls the operations on secrets.
func (w *world) secrets() {
	w.want("PUT", in+"/secrets/db", `{"values": {"password": "sesame"}, "base64": {"tls.key": "AP8="}}`)
	page := w.want("GET", in+"/secrets", "")
	if got := items(page, "name"); !slices.Equal(got, []string{"db"}) {
		w.t.Errorf("secrets: %s", got)
	}
	if text := fmt.Sprint(page); strings.Contains(text, "sesame") || !strings.Contains(text, "map[bytes:6 name:password] map[bytes:2 name:tls.key]") {
		w.t.Errorf("listed as %s", text)
	}
	w.refuses([]refusal{
		{"PUT", in + "/secrets/a%20b", `{"values": {"x": "y"}}`, 400, "invalid", "name", "a b"},
		{"PUT", in + "/secrets/db", `{"values": {"../x": "y"}}`, 400, "invalid", "", "../x"},
		{"PUT", in + "/secrets/db", `{}`, 400, "invalid", "", "has 0 values"},
		{"PUT", in + "/secrets/db", `{"values": {"x": "y"}, "base64": {"x": "AA=="}}`, 400, "invalid", "", "is in base64, too"},
		{"PUT", in + "/secrets/db", `{"base64": {"x": "sesame!"}}`, 400, "invalid", "body", "base64"},
		{"PUT", "/v1/namespaces/a%20b/secrets/db", `{"values": {"x": "y"}}`, 400, "invalid", "namespace", "a b"},
		{"DELETE", in + "/secrets/none", "", 404, "not found", "", "escher secret set none"},
		{"POST", "/v1/nodes/n00/secrets", `{"namespace": "team", "task": "one", "attempt": 1}`, 403, "denied", "", "user:root is not the agent of node n00"},
	})
	w.want("PUT", in+"/secrets/mail", `{"values": {"password": "sesame"}}`)
	page = w.want("GET", in+"/secrets?limit=1", "")
	if got := items(page, "name"); !slices.Equal(got, []string{"db"}) || page["next"] != "db" {
		w.t.Errorf("the first page: %v", page)
	}
	page = w.want("GET", in+"/secrets?limit=1&after=db", "")
	if got := items(page, "name"); !slices.Equal(got, []string{"mail"}) || page["next"] != nil {
		w.t.Errorf("the second page: %v", page)
	}
	w.want("DELETE", in+"/secrets/mail", "")
	w.want("DELETE", in+"/secrets/db", "")
}

// bindSecrets stores a task of lab whose first attempt is bound to node n1, and names the secret db.
func (g *guarded) bindSecrets() {
	g.t.Helper()
	spec := &types.Spec{Image: "x:1", Secrets: []types.SecretUse{{Name: "db", Env: []string{"A=password"}}}}
	digest := strings.Repeat("0", 64)
	g.put(controlplane.SpecKey("lab", digest), spec)
	g.put(controlplane.BindingKey("n1", "lab", "one", 1), &types.Binding{Session: 1, Spec: digest, Bound: 1})
}

// put stores a value.
func (g *guarded) put(key string, m types.Message) {
	g.t.Helper()
	change := controlplane.NewChange(controlplane.NewBatch())
	change.Put(key, m)
	if _, err := controlplane.Commit(g.t.Context(), g.store, change.Txn()); err != nil {
		g.t.Fatal(err)
	}
}

// TestOpenSecretsIsNoted records in the namespace of the task which secrets an agent got for which attempt.
func TestOpenSecretsIsNoted(t *testing.T) {
	store := memstore.New()
	g := guardedOver(t, store, time.Now, recorder(t, store))
	g.bindSecrets()
	member, ada := g.member("user:alice", rights.Member, "lab"), g.member("user:ada", rights.Administrator, "lab")
	if got := g.status("PUT", "/v1/namespaces/lab/secrets/db", `{"values": {"password": "sesame"}}`, member); got != http.StatusOK {
		t.Fatal(got)
	}
	n1 := g.token("node:n1")
	for _, task := range []string{"one", "two", "a/b"} {
		g.status("POST", "/v1/nodes/n1/secrets", `{"namespace": "lab", "task": "`+task+`", "attempt": 1}`, n1)
	}
	const want = "node:n1 openSecrets lab bindings/n1/lab/two/1 refused; node:n1 openSecrets lab bindings/n1/lab/one/1 db; user:alice setSecret lab secrets/lab/db"
	var rows []string
	g.await(func() bool { return g.status("GET", "/v1/requests?namespace=lab", "", ada) == http.StatusOK })
	g.await(func() bool { rows, _ = g.requests("?namespace=lab", ada); return len(rows) >= 3 })
	if got := strings.Join(rows, "; "); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestOpenSecrets gives values to the agent of the node to which an attempt is bound, and to no other
// caller.
func TestOpenSecrets(t *testing.T) {
	g := newGuarded(t, time.Now)
	g.bindSecrets()
	member, admin := g.member("user:alice", rights.Member, "lab"), g.member("user:root2", rights.Administrator, types.Everywhere)
	viewer := g.member("user:vic", rights.Viewer, "lab")
	if got := g.status("PUT", "/v1/namespaces/lab/secrets/db", `{"values": {"password": "sesame", "other": "hidden"}}`, member); got != http.StatusOK {
		t.Fatalf("a member sets a secret: %d", got)
	}
	if got := g.status("PUT", "/v1/namespaces/lab/secrets/db", `{"values": {"password": "x"}}`, viewer); got != http.StatusForbidden {
		t.Errorf("a viewer sets a secret: %d", got)
	}
	if got := g.status("PUT", "/v1/namespaces/web/secrets/db", `{"values": {"password": "x"}}`, member); got != http.StatusForbidden {
		t.Errorf("a member of another namespace sets a secret: %d", got)
	}
	for name, token := range map[string]string{"viewer": viewer, "member": member, "administrator": admin} {
		if text := g.text("/v1/namespaces/lab/secrets", token); !strings.Contains(text, `"password"`) || strings.Contains(text, "sesame") {
			t.Errorf("%s lists %s", name, text)
		}
		for _, path := range []string{"/v1/namespaces/lab/keys?prefix=/escher/secrets/", "/v1/namespaces/lab/keys?prefix=/escher/secrets/lab/db", "/v1/namespaces/lab/keys?prefix=/escher/"} {
			if text := g.text(path, token); strings.Contains(text, `"key":"/escher/secrets`) {
				t.Errorf("%s reads %s: %s", name, path, text)
			}
		}
	}
	const ask = `{"namespace": "lab", "task": "one", "attempt": 1}`
	n1, n2 := g.token("node:n1"), g.token("node:n2")
	read := func(node, body, token string) (int, string) {
		t.Helper()
		res := g.do("POST", "/v1/nodes/"+node+"/secrets", body, token)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	status, text := read("n1", ask, n1)
	var got struct{ Secrets secrets.Values }
	if err := json.Unmarshal([]byte(text), &got); err != nil || status != http.StatusOK || fmt.Sprintf("%s", got.Secrets) != "map[db:map[password:sesame]]" {
		t.Errorf("the agent of the node gets %d %s, %v", status, text, err)
	}
	for name, c := range map[string]struct{ node, body, token, says string }{
		"another node":           {"n2", ask, n2, "attempt 1 of task one is not bound to node n2 now"},
		"another node, as n1":    {"n1", ask, n2, "node:n2 is not the agent of node n1"},
		"a member":               {"n1", ask, member, "user:alice is not the agent of node n1"},
		"an administrator":       {"n1", ask, admin, "user:root2 is not the agent of node n1"},
		"another attempt":        {"n1", strings.Replace(ask, "1}", "2}", 1), n1, "is not bound to node n1 now"},
		"without a token":        {"n1", ask, "", "the request has no token"},
		"a task that is unknown": {"n1", strings.Replace(ask, "one", "two", 1), n1, "is not bound to node n1 now"},
	} {
		if status, text := read(c.node, c.body, c.token); status < 400 || !strings.Contains(text, c.says) || strings.Contains(text, "c2VzYW1l") {
			t.Errorf("%s: %d %s, want %q", name, status, text, c.says)
		}
	}
	change := controlplane.NewChange(controlplane.NewBatch())
	change.Delete(controlplane.BindingKey("n1", "lab", "one", 1))
	if _, err := controlplane.Commit(t.Context(), g.store, change.Txn()); err != nil {
		t.Fatal(err)
	}
	if status, text := read("n1", ask, n1); status != http.StatusForbidden || !strings.Contains(text, "is not bound to node n1 now") {
		t.Errorf("after the attempt is unbound: %d %s", status, text)
	}
	if got := g.status("DELETE", "/v1/namespaces/lab/secrets/db", "", viewer); got != http.StatusForbidden {
		t.Errorf("a viewer removes a secret: %d", got)
	}
	if got := g.status("DELETE", "/v1/namespaces/lab/secrets/db", "", member); got != http.StatusOK {
		t.Errorf("a member removes a secret: %d", got)
	}
}

// TestOpenLogin gives the user and the password of a namespace for a registry to the agent of the node to
// which an attempt is bound, and records it; no other caller gets them.
func TestOpenLogin(t *testing.T) {
	store := memstore.New()
	g := guardedOver(t, store, time.Now, recorder(t, store))
	digest := strings.Repeat("0", 64)
	g.put(controlplane.SpecKey("lab", digest), &types.Spec{Image: "ghcr.io/team/app:v1"})
	g.put(controlplane.BindingKey("n1", "lab", "one", 1), &types.Binding{Session: 1, Spec: digest, Bound: 1})
	member, ada := g.member("user:alice", rights.Member, "lab"), g.member("user:ada", rights.Administrator, "lab")
	const at, ask = "/v1/nodes/n1/secrets/registry", `{"namespace": "lab", "task": "one", "attempt": 1}`
	n1, n2 := g.token("node:n1"), g.token("node:n2")
	read := func(token string) string {
		res := g.do("POST", at, ask, token)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	if text := read(n1); strings.Contains(text, "username") || strings.Contains(text, "detail") {
		t.Errorf("without a secret: %s", text)
	}
	if got := g.status("PUT", "/v1/namespaces/lab/secrets/registry-ghcr.io", `{"values": {"username": "ann", "password": "sesame"}}`, member); got != http.StatusOK {
		t.Fatal(got)
	}
	if text := read(n1); !strings.Contains(text, `"secret":"registry-ghcr.io","registry":"ghcr.io","username":"ann","password":"sesame"`) {
		t.Errorf("the agent gets %s", text)
	}
	for name, token := range map[string]string{"another node": n2, "a member": member, "an administrator": ada} {
		if text := read(token); !strings.Contains(text, "is not the agent of node n1") || strings.Contains(text, "sesame") {
			t.Errorf("%s gets %s", name, text)
		}
	}
	const want = "node:n1 openLogin lab bindings/n1/lab/one/1 registry-ghcr.io; user:alice setSecret lab secrets/lab/registry-ghcr.io; node:n1 openLogin lab bindings/n1/lab/one/1"
	var rows []string
	g.await(func() bool { return g.status("GET", "/v1/requests?namespace=lab", "", ada) == http.StatusOK })
	g.await(func() bool { rows, _ = g.requests("?namespace=lab", ada); return len(rows) >= 3 })
	if got := strings.Join(rows, "; "); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestSetSecretIsBounded bounds how often one caller sets secrets: each rewrite takes room in etcd until a
// compaction.
func TestSetSecretIsBounded(t *testing.T) {
	var now atomic.Int64
	now.Store(time.Now().UnixNano())
	g := newGuarded(t, func() time.Time { return time.Unix(0, now.Load()) })
	alice, bob := g.member("user:alice", rights.Member, "lab"), g.member("user:bob", rights.Member, "lab")
	g.member("user:alice", rights.Member, "web")
	set := func(ns, token string) (int, string) {
		res := g.do("PUT", "/v1/namespaces/"+ns+"/secrets/db", `{"values": {"x": "y"}}`, token)
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	accepted := 0
	for range 300 {
		if status, text := set("lab", alice); status == http.StatusOK {
			accepted++
		} else if status != http.StatusServiceUnavailable || !strings.Contains(text, "set secret db: user:alice: it sends too many requests: at most 1 a second, and 256 at once: wait a little") {
			t.Fatalf("%d %s", status, text)
		}
		now.Add(int64(7 * time.Millisecond))
	}
	if accepted < 256 || accepted > 260 {
		t.Errorf("%d were accepted in two seconds, want 256 and one more each second", accepted)
	}
	if status, text := set("web", alice); status == http.StatusOK {
		t.Errorf("another namespace: %d %s", status, text)
	}
	if status, text := set("lab", bob); status != http.StatusOK {
		t.Errorf("another caller: %d %s", status, text)
	}
	now.Add(int64(time.Second))
	if status, text := set("lab", alice); status != http.StatusOK {
		t.Errorf("a second later: %d %s", status, text)
	}
}
