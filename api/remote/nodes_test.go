package remote_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/client"
	"github.com/escher-sched/escher/api/remote"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

const eventStream = "text/event-stream"

// answering returns the nodes of a server that answers each request with a text, and what it was asked last.
func answering(t *testing.T, status int, media, text string) (*nodeapi.Server, *string) {
	t.Helper()
	asked := new(string)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*asked = r.Method + " " + r.URL.EscapedPath() + "?" + r.URL.Query().Encode()
		if media == eventStream && r.Header.Get("Accept") != eventStream || r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s: %v", *asked, r.Header)
		}
		w.Header().Set("Content-Type", media)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text) // the client may be gone
	}))
	t.Cleanup(server.Close)
	c, err := client.New(client.Config{Server: server.URL, Token: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return remote.Nodes(c), asked
}

// TestNodes sends the requests of a client of a node to the operations of a server, and reads their answers.
func TestNodes(t *testing.T) {
	const json = "application/json"
	ctx := t.Context()
	for _, x := range []struct {
		media, answer, asked string
		do                   func(c *nodeapi.Client) (any, error)
		want                 any
	}{
		{json, `{"items": [{"name": "a"}]}`, "GET /v1/nodes/n1/images?", func(c *nodeapi.Client) (any, error) { return c.Images(ctx) }, []nodeapi.Image{{Name: "a"}}},
		{json, `{"items": [{"name": "a"}]}`, "POST /v1/nodes/n1/images?", func(c *nodeapi.Client) (any, error) { return c.Load(ctx, strings.NewReader("x")) }, []nodeapi.Image{{Name: "a"}}},
		{json, `{"done": 7}`, "GET /v1/nodes/n1/images/pull?image=a%3A1", func(c *nodeapi.Client) (any, error) { return c.Pulling(ctx, "a:1") }, nodeapi.Pull{Done: 7}},
		{
			eventStream, ": hello\n\nevent: progress\ndata: {\"done\":1}\n\nevent: result\ndata: {\"name\":\"a\"}\n\n", "POST /v1/nodes/n1/images/pull?",
			func(c *nodeapi.Client) (any, error) { return c.Pull(ctx, "a:1", func(nodeapi.Pull) {}) }, nodeapi.Image{Name: "a"},
		},
		{json, `{"items": []}`, "GET /v1/nodes/n1/usage/tasks?", func(c *nodeapi.Client) (any, error) { all, err := c.Usage(ctx, time.Time{}); return len(all), err }, 0},
		{json, `{}`, "GET /v1/nodes/n1/usage?", func(c *nodeapi.Client) (any, error) { _, err := c.NodeUsage(ctx, time.Time{}); return nil, err }, nil},
		{json, `{"layers": ["x"]}`, "POST /v1/nodes/n1/workdirs/lacking?", func(c *nodeapi.Client) (any, error) { return c.Lacking(ctx, []string{"x"}) }, []string{"x"}},
		{json, `{}`, "POST /v1/namespaces/lab/tasks/t.1/signal?attempt=2&node=n1", func(c *nodeapi.Client) (any, error) { return nil, c.Signal(ctx, "lab", "t.1", 2, "USR1") }, nil},
		{
			json, `{"name": "f"}`, "GET /v1/namespaces/lab/tasks/t/files/stat?attempt=2&follow=true&node=n1&path=%2Fa",
			func(c *nodeapi.Client) (any, error) {
				_, err := c.Stat(ctx, "lab", "t", 2, "/a", true)
				return nil, err
			}, nil,
		},
		{json, `{"items": [{"seq": 1}, {"seq": 2}]}`, "GET /v1/namespaces/lab/tasks/t/events?after=0&attempt=2&node=n1", steps(t, false), []int{1, 2}},
		{
			eventStream, "id: 1\nevent: step\ndata: {\"seq\":1}\n\nevent: over\ndata: {}\n\n", "GET /v1/namespaces/lab/tasks/t/events?after=0&attempt=2&node=n1",
			steps(t, true), []int{1},
		},
	} {
		nodes, asked := answering(t, http.StatusOK, x.media, x.answer)
		got, err := x.do(nodes.Node("n1"))
		if err != nil || !reflect.DeepEqual(got, x.want) || *asked != x.asked {
			t.Errorf("%s, want %s: %+v, want %+v: %v", *asked, x.asked, got, x.want, err)
		}
	}
}

// steps returns what reads the numbers of the events of an attempt.
func steps(t *testing.T, follow bool) func(c *nodeapi.Client) (any, error) {
	return func(c *nodeapi.Client) (any, error) {
		var all []int
		err := c.Events(t.Context(), "lab", "t", 2, 0, follow, func(e nodeapi.Event) error {
			all = append(all, e.Seq)
			return nil
		})
		return all, err
	}
}

// TestNodesRefuse returns the errors of the server with their classes, also those of events, and of an
// answer that broke off.
func TestNodesRefuse(t *testing.T) {
	problem := `{"class": "denied", "detail": "no right"}`
	for _, status := range []int{http.StatusForbidden, http.StatusUnauthorized} {
		nodes, _ := answering(t, status, "application/problem+json", problem)
		if _, err := nodes.Node("n1").Images(t.Context()); !types.Is(err, types.Denied) || err.Error() != "no right" {
			t.Errorf("%d: %v", status, err)
		}
	}
	for text, class := range map[string]types.Class{
		"event: error\ndata: " + problem + "\n\n":        types.Denied,
		"event: progress\ndata: {\"done\":1}\n\n":        types.Unavailable,
		"event: step\ndata: {\"seq\":1}\n\n":             types.Unavailable,
		"event: progress\ndata: {\"done\":1}\n\nevent: ": types.Unavailable,
	} {
		nodes, _ := answering(t, http.StatusOK, eventStream, text)
		_, err := nodes.Node("n1").Pull(t.Context(), "a:1", func(nodeapi.Pull) {})
		if strings.Contains(text, "step") {
			_, err = steps(t, true)(nodes.Node("n1"))
		}
		if !types.Is(err, class) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestLogged asks the server for the attempts of a task, once for all nodes.
func TestLogged(t *testing.T) {
	nodes, asked := answering(t, http.StatusOK, "application/json", `{"items": [{"attempt": 1, "node": "n1"}, {"attempt": 2, "node": "n2"}], "away": ["n3"]}`)
	found, away, err := nodeapi.Dialer{Server: nodes}.WhereLogged(t.Context(), "lab", "t")
	if err != nil || found[1] != "n1" || found[2] != "n2" || !slices.Equal(away, []string{"n3"}) || *asked != "GET /v1/namespaces/lab/tasks/t/attempts?" {
		t.Errorf("%s: %v, %v, %v", *asked, found, away, err)
	}
}
