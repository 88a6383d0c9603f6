package rest_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane/accounting"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types/rights"
)

// recorder runs a recorder of a store until the end of the test.
func recorder(t *testing.T, store *memstore.Store) *accounting.Recorder {
	t.Helper()
	r := &accounting.Recorder{Store: store, Cluster: "c", Dir: t.TempDir()}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return r
}

// requests lists the log of requests, one a line.
func (g *guarded) requests(query, token string) (rows []string, next string) {
	g.t.Helper()
	var page struct {
		Items []struct {
			User, Operation, Namespace, Object, Refused string
			More                                        int
			Revision                                    int64
		}
		Next string
	}
	status, text := g.ask("GET", "/v1/requests"+query, "", token)
	if err := json.Unmarshal([]byte(text), &page); err != nil || status != http.StatusOK {
		g.t.Fatalf("%s: %d %s", query, status, text)
	}
	for _, r := range page.Items {
		if r.Operation == "whoAmI" {
			continue // the test asks until its new tokens are known
		}
		row := strings.Join([]string{r.User, r.Operation, r.Namespace, r.Object}, " ")
		if (r.Revision > 0) == (r.Refused != "") && !strings.HasPrefix(r.Operation, "open") { // it changes nothing
			g.t.Errorf("%+v", r)
		}
		if r.Refused != "" {
			row += " refused"
		} else if r.More > 0 {
			row += " +2"
		}
		rows = append(rows, row)
	}
	return rows, page.Next
}

// TestRequestLog records who changed what, and what was refused, and shows it to those who may read it.
func TestRequestLog(t *testing.T) {
	store, begin := memstore.New(), time.Now()
	g := guardedOver(t, store, func() time.Time { return begin }, recorder(t, store))
	alice, ada := g.member("user:alice", rights.Member, "lab"), g.member("user:ada", rights.Administrator, "lab")
	audit := g.member("service:audit", rights.Viewer, "web", "read audit")
	const lab = "/v1/namespaces/lab/"
	const launch = `{"job":{"id":"j"},"tasks":[{"id":"t","spec":{"image":"x:1"}},{"id":"u","spec":{"image":"x:1"}}]}`
	for i, c := range []struct {
		token, method, path, body string
		want                      int
	}{
		{alice, "POST", lab + "tasks", launch, http.StatusOK},
		{alice, "POST", lab + "tasks", `{"tasks":[]}`, http.StatusBadRequest}, // changes nothing
		{alice, "POST", lab + "tasks", strings.ReplaceAll(launch, `"j"`, `"j j"`), http.StatusBadRequest},
		{alice, "POST", lab + "tasks?x=1", launch, http.StatusUnprocessableEntity},
		{alice, "GET", lab + "tasks", "", http.StatusOK},
		{alice, "POST", lab + "plan", "apiVersion: escher.dev/v1\nkind: Task\nname: a\nimage: x:1\n", http.StatusOK},
		{alice, "POST", lab + "tasks", `{"tasks":[{"labels":{"user":"bob"},"spec":{"image":"x:1"}}]}`, http.StatusForbidden},
		{alice, "POST", "/v1/namespaces/web/tasks/x/stop", `{}`, http.StatusForbidden},
		{alice, "POST", lab + "tasks/t/stop", `{}`, http.StatusOK},
		{ada, "PUT", "/v1/rights/more", `{"subjects":["user:eve"],"role":"viewer","namespaces":["lab"]}`, http.StatusOK},
		{ada, "PUT", "/v1/rights/too", `{"subjects":["user:eve"],"role":"viewer","namespaces":["web"]}`, http.StatusForbidden},
		{"escher_none_x", "GET", lab + "tasks", "", http.StatusUnauthorized},
	} {
		if status, text := g.ask(c.method, c.path, c.body, c.token); status != c.want {
			t.Errorf("%d: %d %s, want %d", i, status, text, c.want)
		}
	}
	ask := g.requests
	const first = "user:alice launchTasks lab tasks/lab/t +2"
	g.await(func() bool { return g.status("GET", "/v1/requests?namespace=lab", "", ada) == http.StatusOK })
	g.await(func() bool { rows, _ := ask("?namespace=lab", ada); return len(rows) == 3 })
	if rows, _ := ask("?namespace=lab", ada); strings.Join(rows, "; ") != "user:alice stopTask lab tasks/lab/t; user:alice launchTasks lab  refused; "+first {
		t.Errorf("of lab: %q", rows)
	}
	if rows, next := ask("?namespace=lab&limit=2&refused=false&user=alice", ada); len(rows) != 2 || next == "" {
		t.Errorf("a page: %q, %s", rows, next)
	} else if rows, next = ask("?namespace=lab&limit=2&after="+next, ada); len(rows) != 1 || rows[0] != first || next != "" {
		t.Errorf("the next page: %q, %s", rows, next)
	}
	if rows, _ := ask("?namespace=web", audit); strings.Join(rows, "; ") != "user:alice stopTask web x refused" {
		t.Errorf("of web: %q", rows)
	}
	olga := g.member("user:olga", rights.Administrator, "*")
	if rows, _ := ask("", olga); len(rows) != 7 || rows[0] != " listTasks   refused" || rows[1] != "user:ada grantRight  too refused" || rows[2] != "user:ada grantRight  rights/more" {
		t.Errorf("of all: %q", rows)
	}
	for query, token := range map[string]string{"": ada, "?namespace=web": ada, "?namespace=lab": alice, "?namespace=lab%20": ada} {
		if got := g.status("GET", "/v1/requests"+query, "", token); got != http.StatusForbidden {
			t.Errorf("%s is shown: %d", query, got)
		}
	}
	for range 100 { // no time passes: the refusals of one sender are bounded
		g.status("POST", "/v1/namespaces/web/tasks/x/stop", `{}`, alice)
	}
	g.await(func() bool { rows, _ := ask("?user=alice&refused=true&limit=100", olga); return len(rows) == 20 })
}
