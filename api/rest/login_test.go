package rest_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/oidc"
	"github.com/escher-sched/escher/api/oidc/oidctest"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// withIssuer is an API that also takes the tokens of an issuer.
func withIssuer(t *testing.T) (*guarded, *oidctest.Issuer) {
	t.Helper()
	g, issuer := newGuarded(t, time.Now), oidctest.Start(t, time.Now)
	var err error
	g.authority.Issuer, err = oidc.New(oidc.Config{Issuer: issuer.URL, ClientID: oidctest.ClientID, UsernameClaim: "email", GroupsClaim: "groups", Prefix: "oidc:", CA: issuer.CA}, time.Now, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	return g, issuer
}

// TestLogin: programs without a token learn how to get one, and nothing else.
func TestLogin(t *testing.T) {
	g, issuer := withIssuer(t)
	var login oidc.Login
	if status, text := g.ask("GET", "/v1/login", "", ""); status != http.StatusOK || json.Unmarshal([]byte(text), &login) != nil || login.Issuer != issuer.URL || login.ClientID != "escher" || len(login.Scopes) == 0 || strings.Contains(text, "pem") {
		t.Errorf("%d %s", status, text)
	}
	if n := issuer.Asked("/.well-known/openid-configuration"); n != 0 {
		t.Errorf("that asks the issuer %d times", n)
	}
	if got := g.status("POST", "/v1/login", "{}", ""); got != http.StatusMethodNotAllowed && got != http.StatusNotFound {
		t.Errorf("POST: %d", got)
	}
}

// TestIssuedToken: the bearer of a token of the issuer has the rights of its user and its groups, and of
// nothing with the same letters.
func TestIssuedToken(t *testing.T) {
	g, issuer := withIssuer(t)
	olga := g.member("user:olga", rights.Administrator, "*")
	token := issuer.Token(map[string]any{"groups": []string{"ml"}})
	g.await(func() bool { return g.status("GET", "/v1/whoami", "", token) == http.StatusOK })
	if got := g.text("/v1/whoami", token); !strings.Contains(got, `"subject":"user:oidc_3aalice_40example_2eorg"`) || !strings.Contains(got, `"groups":["oidc_3aml"]`) || !strings.Contains(got, `"expires":`) {
		t.Errorf("%s", got)
	}
	may := func() bool { return g.status("GET", "/v1/namespaces/lab/tasks", "", token) == http.StatusOK }
	// Rights of accounts that have the name without the prefix, or the name of the group as a user.
	for i, subject := range []string{"user:alice", "group:ml", "user:oidc:ml", "service:oidc:alice@example.org", "group:oidc:alice@example.org", "user:oidc:alice"} {
		if status, text := g.ask("PUT", "/v1/rights/r"+string(rune('0'+i)), `{"subjects": ["`+subject+`"], "role": "member", "namespaces": ["lab"]}`, olga); status != http.StatusOK {
			t.Fatalf("%s: %d %s", subject, status, text)
		}
	}
	if got := g.text("/v1/can-i?verb=read&kind=tasks&namespace=lab", token); may() || !strings.Contains(got, "user:oidc:alice@example.org: has no right to read tasks in namespace lab") {
		t.Errorf("allowed: %s", got)
	}
	for _, subject := range []string{"user:oidc:alice@example.org", "group:oidc:ml", "user:oidc_3aalice_40example_2eorg"} {
		if status, text := g.ask("PUT", "/v1/rights/lab", `{"subjects": ["`+subject+`"], "role": "member", "namespaces": ["lab"]}`, olga); status != http.StatusOK {
			t.Fatalf("%s: %d %s", subject, status, text)
		}
		g.await(may)
		if got := g.status("DELETE", "/v1/rights/lab", "", olga); got != http.StatusOK {
			t.Fatal(got)
		}
		g.await(func() bool { return !may() }) // a revoked right counts at once
	}
	if got := g.status("GET", "/v1/namespaces/lab/tasks", "", issuer.Token(map[string]any{"email": "root"})); got != http.StatusForbidden {
		t.Errorf("root of the issuer: %d", got)
	}
	for _, wrong := range []string{"a.b.c", issuer.Token(map[string]any{"aud": "other"}), issuer.Token(map[string]any{"email_verified": false})} {
		if status, text := g.ask("GET", "/v1/whoami", "", wrong); status != http.StatusUnauthorized || !strings.Contains(text, "escher login") && !strings.Contains(text, "confirm the address") {
			t.Errorf("%d %s", status, text)
		}
	}
	if got := g.status("GET", "/v1/whoami", "", olga); got != http.StatusOK {
		t.Errorf("a token of the cluster: %d", got)
	}
}

// TestIssuedUser: what the bearer submits has its user. The bearer names no other user, and its tokens end with its
// own.
func TestIssuedUser(t *testing.T) {
	g, issuer := withIssuer(t)
	g.grant("lab", "user:oidc_3aalice_40example_2eorg", []string{"lab"}, "write tasks", "write jobs", "write policies", "read tasks")
	token := issuer.Token(nil)
	g.await(func() bool { return g.status("GET", "/v1/namespaces/lab/tasks", "", token) == http.StatusOK })
	submit := func(id, labels string) (int, string) {
		return g.ask("POST", "/v1/namespaces/lab/tasks", `{"tasks": [{"id": "`+id+`", "spec": {"image": "x:1"}`+labels+`}]}`, token)
	}
	if status, text := submit("own", ""); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	kv, err := controlplane.Get(t.Context(), g.store, controlplane.TaskKey("lab", "own"))
	var task types.Task
	if err != nil || !controlplane.Read(kv, &task) || task.User != "oidc_3aalice_40example_2eorg" {
		t.Errorf("the task is of %q, %v", task.User, err)
	}
	if status, text := submit("other", `, "labels": {"user": "bob"}`); status != http.StatusForbidden {
		t.Errorf("for another: %d %s", status, text)
	}
	if status, text := submit("same", `, "labels": {"user": "oidc_3aalice_40example_2eorg"}`); status != http.StatusOK {
		t.Errorf("for itself: %d %s", status, text)
	}
	var made madeToken
	status, text := g.ask("POST", "/v1/tokens", `{"subject": "user:oidc:alice@example.org", "life": "720h", "role": "viewer"}`, token)
	if status != http.StatusOK || json.Unmarshal([]byte(text), &made) != nil {
		t.Fatalf("%d %s", status, text)
	}
	g.await(func() bool { return g.status("GET", "/v1/whoami", "", made.Token) == http.StatusOK })
	var me struct{ Expires time.Time }
	if err := json.Unmarshal([]byte(g.text("/v1/whoami", made.Token)), &me); err != nil || time.Until(me.Expires) > time.Hour {
		t.Errorf("%+v, %v", me, err)
	}
	for body, want := range map[string]int{`{"subject": "user:root"}`: http.StatusForbidden, `{"groups": ["oidc:ml"]}`: http.StatusForbidden, `{"groups": ["ml"]}`: http.StatusForbidden} {
		if status, text := g.ask("POST", "/v1/tokens", body, token); status != want {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
}

type madeToken struct{ ID, Token string }

// TestIssuedTokenEnds: an open watch ends with the token, and with the right.
func TestIssuedTokenEnds(t *testing.T) {
	g, issuer := withIssuer(t)
	g.grant("lab", "user:oidc_3aalice_40example_2eorg", []string{"lab"}, "read tasks", "read resources")
	long := issuer.Token(nil)
	g.await(func() bool { return g.status("GET", "/v1/namespaces/lab/tasks", "", long) == http.StatusOK })
	watch := func(token string) *bufio.Scanner {
		res := g.do("GET", "/v1/namespaces/lab/watch", "", token)
		t.Cleanup(func() { res.Body.Close() })
		lines := bufio.NewScanner(res.Body)
		for lines.Scan() && lines.Text() != "event: synced" {
		}
		return lines
	}
	rest := func(lines *bufio.Scanner) (all string) {
		for lines.Scan() {
			all += lines.Text() + "\n"
		}
		return all
	}
	short := issuer.Token(map[string]any{"exp": time.Now().Add(2 * time.Second).Unix()})
	if got := rest(watch(short)); !strings.Contains(got, `"denied"`) || !strings.Contains(got, "log in again with escher login") {
		t.Errorf("%s", got)
	}
	if status, text := g.ask("GET", "/v1/whoami", "", short); status != http.StatusUnauthorized || !strings.Contains(text, "expired at") {
		t.Errorf("%d %s", status, text)
	}
	lines := watch(long)
	if err := g.manager.Revoke(t.Context(), access.From(t.Context()), "lab"); err != nil {
		t.Fatal(err)
	}
	if got := rest(lines); !strings.Contains(got, `"denied"`) || !strings.Contains(got, "has no right") {
		t.Errorf("%s", got)
	}
}
