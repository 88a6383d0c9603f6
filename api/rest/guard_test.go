package rest_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"go.uber.org/zap"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/rest"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/accounting"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// guarded is an API with access control, over an empty store.
type guarded struct {
	t         *testing.T
	store     controlplane.Store
	authority *access.Authority
	manager   access.Manager
	server    *httptest.Server
	api       huma.API
}

func newGuarded(t *testing.T, now func() time.Time) *guarded {
	t.Helper()
	return guardedOver(t, memstore.New(), now)
}

// mirrored returns the store of a server, over a store, until the test ends.
func mirrored(t *testing.T, store controlplane.Store) controlplane.Store {
	t.Helper()
	s := rest.Mirror(store, time.Now, zap.NewNop())
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = s.Run(ctx) }) // without it, the store below answers
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return s
}

// guardedOver returns an API with access control, over a store.
func guardedOver(t *testing.T, store controlplane.Store, now func() time.Time, history ...*accounting.Recorder) *guarded {
	t.Helper()
	a := access.New(store, time.Now, zap.NewNop())
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	conf := rest.Config{Store: mirrored(t, store), Now: now, Version: "test", Authority: a, Identify: rest.Bearer(a), Secrets: secretKeys(t)}
	if len(history) > 0 {
		conf.History = history[0]
	}
	h, api := rest.Build(conf)
	g := &guarded{t, store, a, access.Manager{Store: store, Now: time.Now}, httptest.NewServer(h), api}
	t.Cleanup(func() {
		g.server.Close()
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return g
}

// token returns a token of a subject, once the API takes it.
func (g *guarded) token(subject string) string {
	g.t.Helper()
	_, token, err := g.manager.MakeToken(g.t.Context(), access.From(g.t.Context()), types.Credential{Subject: subject}, time.Hour)
	if err != nil {
		g.t.Fatal(err)
	}
	g.await(func() bool { return g.status("GET", "/v1/whoami", "", token) == http.StatusOK })
	return token
}

// grant gives a subject rights, once the API takes them.
func (g *guarded) grant(name, subject string, namespaces []string, allow ...string) {
	g.t.Helper()
	r := types.Right{Subjects: []string{subject}, Allow: allow, Namespaces: namespaces}
	if err := g.manager.Grant(g.t.Context(), access.From(g.t.Context()), name, r); err != nil {
		g.t.Fatal(err)
	}
}

// await returns once something is true.
func (g *guarded) await(is func() bool) {
	g.t.Helper()
	again, patience := time.NewTicker(5*time.Millisecond), time.After(20*time.Second)
	defer again.Stop()
	for !is() {
		select {
		case <-again.C:
		case <-patience:
			g.t.Fatal("it does not happen")
		}
	}
}

// do sends a request with a token, and returns the answer. The caller closes its body.
func (g *guarded) do(method, path, body, token string) *http.Response {
	g.t.Helper()
	req, err := http.NewRequestWithContext(g.t.Context(), method, g.server.URL+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		g.t.Fatal(err)
	}
	return res
}

// status sends a request with a token, and returns the status of the answer.
func (g *guarded) status(method, path, body, token string) int {
	g.t.Helper()
	res := g.do(method, path, body, token)
	defer res.Body.Close() // unread: a watch does not end
	return res.StatusCode
}

// text reads the answer to a GET.
func (g *guarded) text(path, token string) string {
	g.t.Helper()
	res := g.do("GET", path, "", token)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return string(body)
}

// operations returns the method, path and id of each operation.
func operations(api huma.API) (all [][3]string) {
	for path, item := range api.OpenAPI().Paths {
		for method, op := range map[string]*huma.Operation{"GET": item.Get, "PUT": item.Put, "POST": item.Post, "DELETE": item.Delete, "PATCH": item.Patch} {
			if op != nil {
				all = append(all, [3]string{method, path, op.OperationID})
			}
		}
	}
	slices.SortFunc(all, func(a, b [3]string) int { return strings.Compare(a[2], b[2]) })
	return all
}

// TestTable checks that the table of rights has each operation, once, and no other.
func TestTable(t *testing.T) {
	g := newGuarded(t, time.Now)
	rows := make(map[string]int)
	for _, row := range access.Table() {
		rows[row.Operation]++
	}
	for _, op := range operations(g.api) {
		if rows[op[2]] != 1 {
			t.Errorf("%s has %d rows in the table of rights, want one", op[2], rows[op[2]])
		}
		delete(rows, op[2])
	}
	for id := range rows {
		t.Errorf("%s is in the table of rights, and there is no such operation", id)
	}
}

// TestEveryOperationIsGuarded calls each operation without a token, with a wrong one, with one whose
// subject has every right but one that the operation needs, and in another namespace: all are refused.
// With exactly the rights of its row it is let through: what it answers then is another matter.
func TestEveryOperationIsGuarded(t *testing.T) {
	g := newGuarded(t, time.Now)
	token := g.token("user:alice")
	rows := make(map[string]access.Row)
	for _, row := range access.Table() {
		rows[row.Operation] = row
	}
	var all []string
	for _, v := range rights.Verbs() {
		for _, k := range rights.Kinds() {
			all = append(all, rights.Need{Verb: v, Kind: k}.String())
		}
	}
	may := func(allow []string, namespaces ...string) {
		g.grant("test", "user:alice", namespaces, allow...)
		g.await(func() bool {
			for _, need := range all {
				n, err := rights.ParseNeed(need)
				if err != nil {
					t.Fatal(err)
				}
				ns := strings.Trim(namespaces[0], "*")
				if (g.authority.May(access.Identity{Subject: "user:alice"}, n, ns) == nil) != slices.Contains(allow, need) {
					return false
				}
			}
			return true
		})
	}
	for _, op := range operations(g.api) {
		method, path, id := op[0], op[1], op[2]
		path = strings.NewReplacer("{namespace}", "lab", "{id}", "none", "{node}", "none", "{name}", "none", "{port}", "80").Replace(path)
		if strings.Contains(path, "{") {
			t.Fatalf("%s: what stands for the parameters of %s?", id, path)
		}
		if rows[id].Public {
			if got := g.status(method, path, "{}", ""); id != "getLogin" || got != http.StatusOK {
				t.Errorf("%s without a token: %d", id, got)
			}
			continue
		}
		for _, wrong := range []string{"", "escher_none_none", token + "x"} {
			if got := g.status(method, path, "{}", wrong); got != http.StatusUnauthorized {
				t.Errorf("%s with token %q: %d", id, wrong, got)
			}
		}
		needs := rows[id].Needs
		where := []string{"*"}
		if strings.Contains(op[1], "{namespace}") && !rows[id].InCluster {
			where = []string{"lab"}
		}
		var exact []string
		for _, n := range needs {
			exact = append(exact, n.String())
		}
		for _, n := range exact {
			may(slices.DeleteFunc(slices.Clone(all), func(x string) bool { return x == n }), where...)
			if got := g.status(method, path, "{}", token); got != http.StatusForbidden {
				t.Errorf("%s without the right to %s: %d", id, n, got)
			}
		}
		if len(needs) == 0 {
			continue
		}
		may(exact, where...)
		if got := g.status(method, path, "{}", token); got == http.StatusForbidden || got == http.StatusUnauthorized {
			t.Errorf("%s with the rights to %s: %d", id, exact, got)
		}
		if where[0] == "lab" {
			if got := g.status(method, strings.Replace(path, "/namespaces/lab", "/namespaces/web", 1), "{}", token); got != http.StatusForbidden {
				t.Errorf("%s in another namespace: %d", id, got)
			}
		}
	}
}

// TestHeldRequests ends an open watch within moments after the token was revoked, with the reason.
func TestHeldRequests(t *testing.T) {
	g := newGuarded(t, time.Now)
	token := g.token("user:alice")
	g.grant("lab", "user:alice", []string{"lab"}, "read tasks", "read resources")
	g.await(func() bool { return g.status("GET", "/v1/namespaces/lab/tasks", "", token) == http.StatusOK })
	res := g.do("GET", "/v1/namespaces/lab/watch", "", token)
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() && lines.Text() != "event: synced" {
	}
	if err := g.manager.RevokeToken(t.Context(), access.From(t.Context()), strings.Split(token, "_")[1]); err != nil {
		t.Fatal(err)
	}
	begin, rest := time.Now(), ""
	for lines.Scan() {
		rest += lines.Text() + "\n"
	}
	if took := time.Since(begin); took > 5*time.Second || !strings.Contains(rest, "event: error") || !strings.Contains(rest, `"denied"`) || !strings.Contains(rest, "revoked") {
		t.Errorf("after %s: %s", took, rest)
	}
	if got := g.status("GET", "/v1/namespaces/lab/watch", "", token); got != http.StatusUnauthorized {
		t.Errorf("the next one: %d", got)
	}
}

// TestFlood refuses a subject that sends too much, with status 429, and serves others.
func TestFlood(t *testing.T) {
	begin := time.Now()
	g := newGuarded(t, func() time.Time { return begin }) // no time passes, however slow this machine is
	alice, bob := g.token("user:alice"), g.token("user:bob")
	refused := false
	for i := 0; i < 2000 && !refused; i++ {
		refused = g.status("GET", "/v1/whoami", "", alice) == http.StatusTooManyRequests
	}
	if !refused || g.status("GET", "/v1/whoami", "", bob) != http.StatusOK {
		t.Errorf("refused: %t", refused)
	}
}

// TestOnlyOwn shows in lists what the caller may see: a namespace, a token, a right of another does not
// appear.
func TestOnlyOwn(t *testing.T) {
	g := newGuarded(t, time.Now)
	alice := g.token("user:alice")
	g.token("user:bob")
	g.grant("labs", "user:alice", []string{"lab"}, "read namespaces", "read tasks")
	g.grant("webs", "user:bob", []string{"web"}, "read namespaces")
	g.await(func() bool { return g.status("GET", "/v1/namespaces/lab/tasks", "", alice) == http.StatusOK })
	client, err := controlplane.New(g.store, "lab")
	if err != nil {
		t.Fatal(err)
	}
	for _, ns := range []string{"lab", "web"} {
		if err := client.SetNamespace(t.Context(), ns, func(n *types.Namespace) error { n.Pids = 7; return nil }); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{"/v1/namespaces": "lab", "/v1/tokens": "user:alice", "/v1/rights": "labs"} {
		if body := g.text(path, alice); !strings.Contains(body, want) || strings.Contains(body, "web") || strings.Contains(body, "bob") {
			t.Errorf("%s: %s", path, body)
		}
	}
	doc := "apiVersion: escher.dev/v1\nkind: Namespace\nname: web\npids: 9\n"
	g.grant("labs", "user:alice", []string{"lab"}, "read namespaces", "write tasks", "write jobs", "write resources", "write reservations", "write policies")
	g.await(func() bool {
		return g.status("POST", "/v1/namespaces/lab/apply", "kind: x", alice) == http.StatusBadRequest
	})
	if got := g.status("POST", "/v1/namespaces/lab/apply", doc, alice); got != http.StatusForbidden {
		t.Errorf("a member sets the quota of another namespace: %d", got)
	}
	// An administrator of a namespace does not lift the bounds that the cluster sets for it.
	r := types.Right{Subjects: []string{"user:alice"}, Role: rights.Administrator, Namespaces: []string{"lab"}}
	if err := g.manager.Grant(t.Context(), access.From(t.Context()), "labs", r); err != nil {
		t.Fatal(err)
	}
	g.await(func() bool {
		return g.status("DELETE", "/v1/namespaces/lab/tasks/none", "", alice) == http.StatusNotFound
	})
	own := strings.Replace(doc, "web", "lab", 1)
	if put, del, apply := g.status("PUT", "/v1/namespaces/lab", "{}", alice), g.status("DELETE", "/v1/namespaces/lab", "", alice), g.status("POST", "/v1/namespaces/lab/apply", own, alice); put != 403 || del != 403 || apply != 403 {
		t.Errorf("an administrator of a namespace sets its quota: %d, removes it: %d, applies one: %d", put, del, apply)
	}
}

// TestHistoryOfOwn lets a member read the history of its namespace, and of no other and not of all.
func TestHistoryOfOwn(t *testing.T) {
	g := newGuarded(t, time.Now)
	token := g.token("user:alice")
	g.grant("lab", "user:alice", []string{"lab"}, "read history")
	for _, path := range []string{"/v1/history", "/v1/usage"} {
		g.await(func() bool { return g.status("GET", path+"?namespace=lab", "", token) != http.StatusForbidden })
		for _, query := range []string{"", "?namespace=web", "?namespace=lab%20", "?user=lab"} {
			if got := g.status("GET", path+query, "", token); got != http.StatusForbidden {
				t.Errorf("%s%s: %d", path, query, got)
			}
		}
	}
}

// TestAgents: agents of nodes may read workdirs of other nodes, and do nothing else there.
func TestAgents(t *testing.T) {
	g := newGuarded(t, time.Now)
	agent, user := g.token("node:n1"), g.token("user:n1")
	image := "?image=" + types.UnsentWorkdir
	for path, want := range map[string]int{
		"/v1/nodes/n2/workdirs/layers" + image: http.StatusNotFound, // there is no such node
		"/v1/nodes/n2/workdirs" + image:        http.StatusNotFound,
		"/v1/nodes/n2/images":                  http.StatusForbidden,
		"/v1/nodes/n2/usage":                   http.StatusForbidden,
		"/v1/namespaces/a/tasks":               http.StatusForbidden,
	} {
		if got := g.status("GET", path, "", agent); got != want {
			t.Errorf("the agent gets %s: %d, want %d", path, got, want)
		}
		if got := g.status("GET", path, "", user); got != http.StatusForbidden {
			t.Errorf("a user gets %s: %d", path, got)
		}
	}
}
