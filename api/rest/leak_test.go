package rest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/rights"
)

// secret is a part of each name of the other tenant, and of no request.
const secret = "zebra"

// crowded is a cluster whose one node another tenant fills. A task of lab waits for it.
func crowded(t *testing.T) *guarded {
	t.Helper()
	c, err := hollow.Start(t.Context(), hollow.Config{Nodes: hollow.Nodes(1, 4)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	other, err := controlplane.New(c.Store, secret)
	if err != nil {
		t.Fatal(err)
	}
	label := []types.Label{{Name: secret, Value: secret}}
	full := hollow.Task(3000, "run", "1h")
	full.ID, full.Task.Name, full.Task.Labels = secret+"-0", secret, label
	queued := hollow.Task(4000, "run", "1h")
	queued.ID, queued.Task.Name, queued.Task.Labels, queued.Task.Priority = secret+"-1", secret, label, 5
	_, one := other.LaunchJob(t.Context(), controlplane.Job{ID: secret + "-job", Name: secret, Labels: label, Tasks: []controlplane.Submission{full}})
	_, two := other.Wait(t.Context(), controlplane.UntilRunning, secret+"-0")
	_, three := other.LaunchJob(t.Context(), controlplane.Job{ID: secret + "-queued", Name: secret, Tasks: []controlplane.Submission{queued}})
	_, four := other.SetResource(t.Context(), secret+"-slots", 1000, controlplane.OnEvery(), controlplane.SetOptions{})
	five := other.Reserve(t.Context(), secret+"-reserved", types.Reservation{Bundles: []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 1000})}}, Priority: 9})
	six := other.SetNamespace(t.Context(), secret, func(n *types.Namespace) error { n.Pids = 7; return nil })
	own, seven := controlplane.New(c.Store, "lab")
	if err := errors.Join(one, two, three, four, five, six, seven); err != nil {
		t.Fatal(err)
	}
	mine := hollow.Task(2000, "run", "1h")
	mine.ID = "mine"
	if _, err := own.LaunchJob(t.Context(), controlplane.Job{ID: "ours", Tasks: []controlplane.Submission{mine}}); err != nil {
		t.Fatal(err)
	}
	if err := own.Reserve(t.Context(), "room", types.Reservation{Bundles: []types.Bundle{{Requests: types.NewRequests(map[string]types.Quantity{"cpu": 4000})}}}); err != nil {
		t.Fatal(err)
	}
	return guardedOver(t, c.Store, time.Now)
}

// begun reads an answer until it ends or is silent: a watch does not end.
func (g *guarded) begun(method, path, body, token string) (int, string) {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), 2*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, g.server.URL+path, strings.NewReader(body))
	if err != nil {
		g.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(res.Body) // of a watch, what came until the end of ctx
	return res.StatusCode, string(text)
}

// TestTenantsAreHidden calls each operation as the member of a namespace: no answer has a name of another
// tenant, not even one about a task that waits for what that tenant holds.
func TestTenantsAreHidden(t *testing.T) {
	g := crowded(t)
	g.member("user:"+secret, rights.Administrator, secret)
	alice := g.member("user:alice", rights.Administrator, "lab")
	explained := 0
	for _, op := range operations(g.api) {
		path := op[1]
		name, body := "mine", "{}"
		switch {
		case strings.Contains(path, "/jobs/"):
			name = "ours"
		case strings.Contains(path, "/reservations/"):
			name = "room"
		}
		switch op[2] {
		case "removeJob", "removeTask", "stopTask", "stopJob", "unreserve", "evictTask":
			continue // the others ask about these
		case "applyDocuments", "planDocuments":
			body = "apiVersion: escher.dev/v1\nkind: Task\nname: new\nimage: x:1\nrequests: {cpu: 4}\n"
		case "waitTasks":
			path += "?id=mine&timeout=10ms"
		case "getState":
			path += "?reads=true"
		case "listHistory", "getUsage":
			path += "?namespace=lab"
		}
		path = strings.NewReplacer("{namespace}", "lab", "{id}", name, "{node}", "n00", "{name}", "none", "{port}", "80").Replace(path)
		status, text := g.begun(op[0], path, body, alice)
		if strings.Contains(text, secret) {
			t.Errorf("%s: %d %s", op[2], status, text)
		}
		if strings.HasPrefix(op[2], "explain") && strings.Contains(text, "another tenant") {
			explained++
		}
	}
	if explained < 3 {
		t.Errorf("%d explanations say that another tenant holds what is wanted, want those of the task, the job and the reservation", explained)
	}
	root := access.From(t.Context())
	_, token, err := g.manager.MakeToken(t.Context(), root, types.Credential{Subject: "user:olga"}, time.Hour)
	if err == nil {
		err = g.manager.Grant(t.Context(), root, "olga", types.Right{Subjects: []string{"user:olga"}, Role: rights.Viewer, Namespaces: []string{"*"}})
	}
	if err != nil {
		t.Fatal(err)
	}
	g.await(func() bool { return g.status("GET", "/v1/namespaces/lab/tasks", "", token) == http.StatusOK })
	if text := g.text("/v1/namespaces/lab/tasks/mine/why", token); !strings.Contains(text, secret+"/"+secret+"-0") {
		t.Errorf("a viewer of the cluster: %s", text)
	}
}

// TestTenantsAreNotGuessed answers about what is there as about what is not.
func TestTenantsAreNotGuessed(t *testing.T) {
	g := crowded(t)
	alice := g.member("user:alice", rights.Administrator, "lab")
	for _, op := range operations(g.api) {
		if slices.Contains([]string{"listHistory", "getUsage"}, op[2]) || !strings.Contains(op[1], "{namespace}") {
			continue
		}
		answer := func(ns, id string) string {
			path := strings.NewReplacer("{namespace}", ns, "{id}", id, "{port}", "80").Replace(op[1])
			status, text := g.begun(op[0], path, "{}", alice)
			return http.StatusText(status) + strings.NewReplacer(ns, "NS", id, "ID").Replace(text)
		}
		if there, not := answer(secret, secret+"-0"), answer("nobody", "nothing"); there != not || !strings.Contains(there, "Forbidden") {
			t.Errorf("%s: %s\nand of what is not there: %s", op[2], there, not)
		}
	}
	answer := func(key string) string {
		_, text := g.ask("POST", "/v1/namespaces/lab/transactions", `{"if":{"`+key+`":1},"set":[{"name":"x","capacity":"1","where":{"cluster":true}}]}`, alice)
		return strings.ReplaceAll(text, key, "KEY")
	}
	if there, not := answer("tasks/"+secret+"/"+secret+"-0"), answer("tasks/nobody/nothing"); there != not || !strings.Contains(there, "is nothing that") {
		t.Errorf("a condition: %s\nand of what is not there: %s", there, not)
	}
	for _, path := range []string{"/v1/rights/" + secret, "/v1/tokens/" + secret} {
		none := strings.Replace(path, secret, "nobody", 1)
		_, there := g.ask("DELETE", path, "", alice)
		_, not := g.ask("DELETE", none, "", alice)
		if strings.ReplaceAll(there, secret, "NAME") != strings.ReplaceAll(not, "nobody", "NAME") {
			t.Errorf("%s: %s\n%s", path, there, not)
		}
	}
}
