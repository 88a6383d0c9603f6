package rest_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// member gives a subject a role in a namespace, once the API knows it, and returns its token.
func (g *guarded) member(subject string, role rights.Role, ns string, allow ...string) string {
	g.t.Helper()
	_, name, _ := strings.Cut(subject, ":")
	token := g.token(subject)
	r := types.Right{Subjects: []string{subject}, Role: role, Allow: allow, Namespaces: []string{ns}}
	if err := g.manager.Grant(g.t.Context(), access.From(g.t.Context()), name+"-"+strings.Replace(ns, "*", "all", 1), r); err != nil {
		g.t.Fatal(err)
	}
	g.await(func() bool {
		return g.status("GET", "/v1/namespaces/"+strings.Replace(ns, "*", "all", 1)+"/tasks", "", token) == http.StatusOK
	})
	return token
}

// ask sends a request with a token, and returns status and body of the answer.
func (g *guarded) ask(method, path, body, token string) (int, string) {
	g.t.Helper()
	res := g.do(method, path, body, token)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		g.t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// TestUserOfTask records who submits a task or a job, by each operation, and refuses to submit for others
// without the right to.
func TestUserOfTask(t *testing.T) {
	g := newGuarded(t, time.Now)
	tokens := map[string]string{
		"alice": g.member("user:alice", rights.Member, "lab"), "gate": g.member("service:gate", rights.Member, "lab", "write users"), "olga": g.member("user:olga", rights.Administrator, "lab"),
	}
	client, err := controlplane.New(g.store, "lab")
	if err != nil {
		t.Fatal(err)
	}
	task := func(id, label string) string {
		if label != "" {
			label = fmt.Sprintf(`,"labels":{"user":%q}`, label)
		}
		return fmt.Sprintf(`{"id":%q,"spec":{"image":"x:1"}%s}`, id, label)
	}
	launches := []struct{ path, body string }{
		{"tasks", `{"tasks":[TASK]}`},
		{"tasks", `{"job":{"id":"j-ID"},"tasks":[TASK]}`},
		{"tasks", `{"job":{"id":"p-ID","policies":[{"name":"apart"}]},"tasks":[TASK]}`},
		{"transactions", `{"launch":[{"tasks":[TASK]}]}`},
	}
	for i, c := range []struct{ by, label, user string }{
		{"alice", "", "alice"}, {"alice", "alice", "alice"}, {"alice", "bob", "-"}, {"gate", "", "gate"}, {"gate", "bob", "bob"}, {"olga", "bob", "bob"},
	} {
		for n, by := range launches {
			id := fmt.Sprintf("t%d-%d", i, n)
			body := strings.NewReplacer("TASK", task(id, c.label), "ID", id).Replace(by.body)
			status, answer := g.ask("POST", "/v1/namespaces/lab/"+by.path, body, tokens[c.by])
			got, err := client.Status(t.Context(), id)
			switch {
			case c.user == "-":
				if status != http.StatusForbidden || !types.Is(err, types.NotFound) || !strings.Contains(answer, `labels.user: \"bob\" is another user: leave it out to submit it for alice`) {
					t.Errorf("%+v by %s: %d %s, %v", c, by.path, status, answer, err)
				}
			case status != http.StatusOK || err != nil || got.Task.User != c.user:
				t.Errorf("%+v by %s: %d %s; it is of %q, %v", c, by.path, status, answer, got.Task.User, err)
			}
		}
	}
	var job struct{ User string }
	if _, text := g.ask("GET", "/v1/namespaces/lab/jobs/j-t0-1", "", tokens["alice"]); json.Unmarshal([]byte(text), &job) != nil || job.User != "alice" {
		t.Errorf("the job: %s", text)
	}
	if _, err := client.Launch(t.Context(), controlplane.Submission{ID: "direct", Task: types.Task{Labels: []types.Label{{Name: "user", Value: "bob"}}}, Spec: &types.Spec{Image: "x:1"}}); err != nil {
		t.Error(err) // root, and programs with etcd's certificate
	}
	for _, id := range []string{"direct", "t4-0", "t0-0"} {
		if status, text := g.ask("POST", "/v1/namespaces/lab/tasks/"+id+"/stop", "{}", tokens["alice"]); status != http.StatusOK {
			t.Errorf("a member stops %s: %d %s", id, status, text)
		}
	}
	if got, err := client.Status(t.Context(), "t4-0"); err != nil || got.Task.User != "bob" || got.Task.Stop == nil {
		t.Errorf("after the stop: %+v, %v", got.Task, err)
	}
}

// TestAppliedUser applies a file: it launches for the caller, the same file of another one changes
// nothing, and a label of another user is refused, also on what is there.
func TestAppliedUser(t *testing.T) {
	g := newGuarded(t, time.Now)
	alice, ann := g.member("user:alice", rights.Member, "lab"), g.member("user:ann", rights.Member, "lab")
	doc := "apiVersion: escher.dev/v1\nkind: Task\nname: a\nimage: x:1\n"
	apply := func(doc, token, want string) {
		t.Helper()
		if _, text := g.ask("POST", "/v1/namespaces/lab/apply", doc, token); !strings.Contains(text, want) {
			t.Errorf("%s: want %s", text, want)
		}
	}
	apply(doc, alice, `"action":"launch"`)
	apply(doc, ann, `"action":"unchanged"`)
	apply(doc+"labels: {user: bob}\n", alice, `labels.user: \"bob\" is another user`)
	apply(doc+"labels: {user: alice}\n", ann, `"action":"relabel"`)
	apply(strings.Replace(doc, "name: a", "name: b\nlabels: {user: bob}", 1), ann, `labels.user: \"bob\" is another user`)
	if _, text := g.ask("GET", "/v1/namespaces/lab/tasks", "", ann); strings.Count(text, `"user":"alice"`) != 2 || strings.Contains(text, "bob") {
		t.Errorf("the task: %s", text)
	}
}

// TestShareOfUser takes the user of a share from the identity, and refuses to charge another one: by a
// use, by a request of its pool, or by a reservation of that.
func TestShareOfUser(t *testing.T) {
	g := newGuarded(t, time.Now)
	alice, gate := g.member("user:alice", rights.Member, "lab"), g.member("service:gate", rights.Member, "lab", "write users")
	policy := "apiVersion: escher.dev/v1\nkind: Policy\nname: shares\nfair-share: {of: {vision: {anyone: 1}, bob: {}}, anyone: 1, over: [cpu]}\n"
	if status, text := g.ask("POST", "/v1/namespaces/lab/apply", policy, alice); status != http.StatusOK {
		t.Fatal(text)
	}
	client, err := controlplane.New(g.store, "lab")
	if err != nil {
		t.Fatal(err)
	}
	for i, c := range []struct{ token, as, want string }{
		{alice, "", "alice"}, {alice, "vision", "vision/alice"}, {alice, "vision/alice", "vision/alice"}, {alice, "alice", "alice"},
		{alice, "bob", `as: \"bob\" is another user`}, {alice, "vision/bob", `as: \"vision/bob\" is another user`}, {gate, "vision/bob", "vision/bob"}, {gate, "vision", "vision/gate"},
	} {
		job := fmt.Sprintf("j%d", i)
		body := fmt.Sprintf(`{"job":{"id":%q,"policies":[{"name":"use","with":{"name":"shares","as":%q}}]},"tasks":[{"requests":{"cpu":"1"},"spec":{"image":"x:1"}}]}`, job, c.as)
		status, text := g.ask("POST", "/v1/namespaces/lab/tasks", body, c.token)
		if strings.HasPrefix(c.want, "as:") {
			if status != http.StatusForbidden || !strings.Contains(text, strings.Replace(c.want, "vision/bob", "bob", 1)) {
				t.Errorf("%+v: %d %s", c, status, text)
			}
			continue
		}
		stored, _, err := client.Policies(t.Context(), job)
		if err != nil {
			t.Errorf("%+v: %d %s, %v", c, status, text, err)
			continue
		}
		if use, _ := esl.UseOf(stored.Policies[0]); use.As != c.want {
			t.Errorf("%+v: %+v", c, use)
		}
	}
	// A file that leaves the user out differs in nothing from the job that is there.
	job := "apiVersion: escher.dev/v1\nkind: Job\nname: web\ncount: 2\nshare: shares/vision\ntemplate: {image: \"x:1\", requests: {cpu: 1}}\n"
	for _, c := range []struct{ path, doc, want string }{
		{"apply", job, `"action":"launch"`}, {"apply", job, `"action":"unchanged"`}, {"plan", strings.Replace(job, "count: 2", "count: 3", 1), `"differences":["tasks: 2 → 3"]`},
		{"plan", strings.Replace(job, "shares/vision", "shares/bob", 1), `\"bob\" is another user`},
	} {
		if _, text := g.ask("POST", "/v1/namespaces/lab/"+c.path, c.doc, alice); !strings.Contains(text, c.want) {
			t.Errorf("%s %s: %s", c.path, c.want, text)
		}
	}
	for path, body := range map[string]string{
		"tasks":        `{"tasks":[{"requests":{"POOL":"1"},"spec":{"image":"x:1"}}]}`,
		"transactions": `{"launch":[{"tasks":[{"alternatives":[{"requests":{"POOL":"1"}}],"spec":{"image":"x:1"}}]}]}`,
		"reservations": `{"id":"r-POOL","bundles":[{"requests":{"POOL":"1"}}]}`,
	} {
		for user, want := range map[string]int{"bob": http.StatusForbidden, "alice": http.StatusOK} {
			pool := "shares.fair-share." + user + ".cpu"
			if status, text := g.ask("POST", "/v1/namespaces/lab/"+path, strings.ReplaceAll(body, "POOL", pool), alice); status != want || want != 200 && !strings.Contains(text, "requests."+pool+`: \"bob\" is another user`) {
				t.Errorf("%s of %s: %d %s", path, pool, status, text)
			}
		}
	}
}

// TestCeiling refuses a priority above that of the namespace, by each operation that submits.
func TestCeiling(t *testing.T) {
	g := newGuarded(t, time.Now)
	alice := g.member("user:alice", rights.Member, "lab")
	client, err := controlplane.New(g.store, "lab")
	if err == nil {
		err = client.SetNamespace(t.Context(), "lab", func(n *types.Namespace) error {
			n.Budget = &types.Budget{Priority: &types.Ceiling{Max: 10}}
			return nil
		})
	}
	if err != nil {
		t.Fatal(err)
	}
	const doc = "apiVersion: escher.dev/v1\nkind: "
	for i, c := range []struct{ path, body string }{
		{"tasks", `{"tasks":[{"priority":PRIORITY,"spec":{"image":"x:1"}}]}`},
		{"tasks", `{"job":{"name":"j"},"tasks":[{"priority":PRIORITY,"spec":{"image":"x:1"}}]}`},
		{"tasks", `{"job":{"name":"p","policies":[{"name":"apart"}]},"tasks":[{"priority":PRIORITY,"spec":{"image":"x:1"}}]}`},
		{"transactions", `{"launch":[{"tasks":[{"priority":PRIORITY,"spec":{"image":"x:1"}}]}]}`},
		{"transactions", `{"launch":[{"job":{"name":"k"},"tasks":[{"priority":PRIORITY,"spec":{"image":"x:1"}}]}]}`},
		{"transactions", `{"reserve":[{"id":"t-PRIORITY","priority":PRIORITY,"bundles":[{"requests":{"cpu":"1"}}]}]}`},
		{"reservations", `{"id":"r-PRIORITY","priority":PRIORITY,"bundles":[{"requests":{"cpu":"1"}}]}`},
		{"apply", doc + "Task\nname: a-PRIORITY\nimage: x:1\npriority: PRIORITY\n"},
		{"apply", doc + "Job\nname: b-PRIORITY\ncount: 2\ntemplate: {image: \"x:1\", priority: PRIORITY}\n"},
		{"apply", doc + "Job\nname: c-PRIORITY\ngang: {}\ncount: 2\ntemplate: {image: \"x:1\", priority: PRIORITY, requests: {cpu: 1}}\n"},
		{"apply", doc + "Reservation\nname: d-PRIORITY\npriority: PRIORITY\nbundles: [{requests: {cpu: 1}}]\n"},
	} {
		send := func(priority string) (int, string) {
			return g.ask("POST", "/v1/namespaces/lab/"+c.path, strings.ReplaceAll(c.body, "PRIORITY", priority), alice)
		}
		if status, text := send("10"); status != http.StatusOK {
			t.Errorf("%d: at the ceiling: %d %s", i, status, text)
		}
		if status, text := send("11"); status != http.StatusPreconditionFailed || !strings.Contains(text, "11 is above 10, the highest of namespace lab") {
			t.Errorf("%d: above it: %d %s", i, status, text)
		}
	}
}

// TestQuota sets what the tasks of a namespace may request together, as an amount, by both operations.
func TestQuota(t *testing.T) {
	g := newGuarded(t, time.Now)
	olga, ada := g.member("user:olga", rights.Administrator, "*"), g.member("user:ada", rights.Administrator, "lab")
	const file = "apiVersion: escher.dev/v1\nkind: Namespace\nname: lab\nquotas: {gpu: 8, memory: 1Gi}\n"
	for i, c := range []struct {
		token, method, path, body string
		want                      int
	}{
		{ada, "PUT", "lab", `{"quotas":{"gpu":"99"}}`, http.StatusForbidden},
		{ada, "POST", "lab/apply", file, http.StatusForbidden},
		{ada, "POST", "quotas/resources", `{"name":"lab.gpu","capacity":"99","where":{"cluster":true}}`, http.StatusForbidden},
		{olga, "PUT", "lab", `{"quotas":{"gpu":"16","cpu":"admin:cpus"}}`, http.StatusOK},
		{olga, "PUT", "lab", `{"quotas":{"gpu":"quotas:web.gpu"}}`, http.StatusBadRequest},
	} {
		if status, text := g.ask(c.method, "/v1/namespaces/"+c.path, c.body, c.token); status != c.want {
			t.Errorf("%d: %d %s, want %d", i, status, text, c.want)
		}
	}
	if _, text := g.ask("GET", "/v1/namespaces/lab", "", ada); !strings.Contains(text, `"quotas":{"cpu":"admin:cpus","gpu":"16"}`) {
		t.Error(text)
	}
	if _, text := g.ask("GET", "/v1/namespaces/quotas/resources", "", olga); !strings.Contains(text, `"name":"lab.gpu"`) || !strings.Contains(text, `"16"`) {
		t.Error(text)
	}
	if _, text := g.ask("POST", "/v1/namespaces/lab/apply", file, olga); !strings.Contains(text, "quotas.gpu: 16 → 8") {
		t.Error(text)
	}
	if _, text := g.ask("GET", "/v1/namespaces/quotas/resources", "", olga); !strings.Contains(text, `"name":"lab.gpu"`) || strings.Count(text, `"name"`) != 2 {
		t.Error(text)
	}
}
