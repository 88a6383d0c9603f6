package nodeapi_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/escher-sched/escher/nodeagent/serve/answer"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

// between starts a server that passes each request on to a path of a node.
func between(t *testing.T, c *nodeapi.Client, path string) string {
	t.Helper()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.Pass(w, r, path, url.Values{"path": {"/a b"}}, func(err error) { answer.Refuse(w, err) })
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// TestPass passes a request on with the token of the node and nothing of the client's that is not for
// it, and the answer with its trailer.
func TestPass(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "Escher-Skipped")
		text, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %q cookie %q accept %q: %s", r.Method, r.URL.RequestURI(), r.Header.Get("Authorization"), r.Header.Get("Cookie"), r.Header.Get("Accept"), text)
		w.Header().Set("Escher-Skipped", "3")
	}))
	t.Cleanup(node.Close)
	c, err := nodeapi.New("n", node.URL, token, nil)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, between(t, c, "/v1/files/d/a%2Fb/1")+"/elsewhere?x=y", strings.NewReader("sent"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer of the client"}, "Cookie": {"a=b"}, "Accept": {"text/plain"}}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	want := fmt.Sprintf("PUT /v1/files/d/a%%2Fb/1?path=%%2Fa+b %q cookie \"\" accept \"text/plain\": sent", "Bearer "+token)
	if err != nil || string(text) != want || res.Trailer.Get("Escher-Skipped") != "3" {
		t.Errorf("%v: %s, want %s; trailer %v", err, text, want, res.Trailer)
	}
}

// TestPassRefused gives the errors of the node, and of the way to it, to the caller.
func TestPassRefused(t *testing.T) {
	w := newWorld(t)
	gone, err := nodeapi.New("n", "http://127.0.0.1:1", token, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		client *nodeapi.Client
		path   string
		class  types.Class
		says   string
	}{
		{w.Client, nodeapi.Path("files", "x", "t", 1), types.NotFound, "/a b"},
		{w.Client, "/v1/nothing", types.NotFound, "there is no such request"},
		{w.client(t, "of a former session"), nodeapi.Path("files", "x", "t", 1), types.Unavailable, "has begun a new session"},
		{gone, nodeapi.Path("files", "x", "t", 1), types.Unavailable, "can be reached from here"},
	} {
		res, err := http.Get(between(t, c.client, c.path))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		res.Body.Close()
		if got := answer.Refused("it", res.StatusCode, text); err != nil || !types.Is(got, c.class) || !strings.Contains(got.Error(), c.says) {
			t.Errorf("%s: %v, %v: want %s, %q", c.path, err, got, c.class, c.says)
		}
	}
}

// TestPassBroken breaks its answer off where that of the node does.
func TestPassBroken(t *testing.T) {
	node := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a part")
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler)
	}))
	t.Cleanup(node.Close)
	c, err := nodeapi.New("n", node.URL, token, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Get(between(t, c, "/v1/logs/d/a/1"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err == nil || string(text) != "a part" {
		t.Errorf("%q, %v", text, err)
	}
}
