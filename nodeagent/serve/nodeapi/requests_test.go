package nodeapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/escher-sched/escher/nodeagent"
	"github.com/escher-sched/escher/nodeagent/output/tasklog"
	"github.com/escher-sched/escher/nodeagent/serve/nodeapi"
	"github.com/escher-sched/escher/types"
)

// TestBadRequests: a node refuses a request that is wrong, and names the part to correct.
func TestBadRequests(t *testing.T) {
	w := newWorld(t)
	w.writes(t, 1)
	if err := os.Mkdir(filepath.Join(w.runtime.root, "d"), 0o755); err != nil {
		t.Fatal(err)
	}
	const invalid, missing = http.StatusBadRequest, http.StatusNotFound
	for _, test := range []struct {
		request, body string
		status        int
		says          string
	}{
		{"GET /v1/logs/x/t/0", "", invalid, "attempt:"},
		{"GET /v1/logs/x/t/-1", "", invalid, "attempt:"},
		{"GET /v1/logs/x/t/1.5", "", invalid, "attempt:"},
		{"GET /v1/logs/x/t/99999999999999999999", "", invalid, "attempt:"},
		{"GET /v1/logs/x/..%2ft/1", "", invalid, "task:"},
		{"GET /v1/logs/%2e%2e%2f/t", "", invalid, "namespace:"},
		{"GET /v1/logs/x/t/9", "", missing, "attempt 9"},
		{"GET /v1/logs/x/t/1?tail=-1", "", invalid, "tail:"},
		{"GET /v1/logs/x/t/1?tail=many", "", invalid, "tail:"},
		{"GET /v1/logs/x/t/1?skip=9223372036854775808", "", invalid, "skip:"},
		{"GET /v1/logs/x/t/1?follow=maybe", "", invalid, "follow:"},
		{"GET /v1/logs/x/t/1?from=12", "", invalid, "from:"},
		{"GET /v1/logs/x/t/1?from=f:-1", "", invalid, "from:"},
		{"GET /v1/logs/x/t/1?from=f:", "", invalid, "from:"},
		{"GET /v1/logs/x/t/1?marks=true&since=yesterday", "", invalid, "since:"},
		{"GET /v1/logs/x/t/1?marks=true&until=12:00", "", invalid, "until:"},
		{"GET /v1/logs/x/t/1?marks=true&stream=stdin", "", invalid, "stream:"},
		{"GET /v1/logs/x/t/1?stream=stdout", "", invalid, "marks:"},
		{"GET /v1/events/x/t/1?after=-2", "", invalid, "after:"},
		{"GET /v1/events/x/t/1?follow=2", "", invalid, "follow:"},
		{"GET /v1/events/x/t/1", "", missing, "attempt 1"},
		{"GET /v1/files/x/t/1", "", invalid, "path:"},
		{"GET /v1/files/x/t/1?path=/", "", invalid, "path:"},
		{"GET /v1/files/x/t/1?path=/d/../..", "", invalid, "path:"},
		{"GET /v1/files/x/t/1?path=/none", "", missing, "/none"},
		{"GET /v1/files/x/t/1?path=/d&stat=both", "", invalid, "stat:"},
		{"PUT /v1/files/x/t/1?path=/d&owners=me", "", invalid, "owners:"},
		{"PUT /v1/files/x/t/1?path=/d", strings.Repeat("no archive ", 100), invalid, "archive:"},
		{"PUT /v1/files/x/t/1?path=/none", "", missing, "/none"},
		{"POST /v1/signal/x/t/1", "", invalid, "body:"},
		{"POST /v1/signal/x/t/1", `{"signal": 9}`, invalid, "body:"},
		{"POST /v1/signal/x/t/1", `{"signal": "SIGNONE"}`, invalid, "SIGNONE"},
		{"POST /v1/signal/x/t/1", `{"signal": "` + strings.Repeat("9", 2000) + `"}`, invalid, "body:"},
		{"GET /v1/ports/x/t/1/0", "", invalid, "port:"},
		{"GET /v1/ports/x/t/1/65536", "", invalid, "port:"},
		{"GET /v1/ports/x/t/1/http", "", invalid, "port:"},
		{"POST /v1/images/pull", "", invalid, "body:"},
		{"POST /v1/images/pull", `{"image": "a", "tag": "b"}`, invalid, "tag"},
		{"POST /v1/images/pull", `{"image": "A B"}`, invalid, "image:"},
		{"POST /v1/images/pull", `{"image": "` + strings.Repeat("a", 9<<10) + `"}`, invalid, "body:"},
		{"GET /v1/images/pull", "", invalid, "image:"},
		{"GET /v1/images/pull?image=a//b", "", invalid, "image:"},
		{"GET /v2/logs/x/t/1", "", missing, "docs/node-api.md"},
	} {
		method, path, _ := strings.Cut(test.request, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, w.url+path, strings.NewReader(test.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if res.Body.Close(); err != nil || res.StatusCode != test.status || !strings.Contains(string(text), test.says) {
			t.Errorf("%s %.30q: %d %s, %v; want %d and %q", test.request, test.body, res.StatusCode, text, err, test.status, test.says)
		}
	}
}

// TestBrokenAnswers: a client takes an answer that ends in the middle, is too long or makes no sense
// for no answer, and says whether a further try may help.
func TestBrokenAnswers(t *testing.T) {
	var handler http.HandlerFunc
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler(w, r) }))
	t.Cleanup(srv.Close)
	c, err := nodeapi.New("n", srv.URL, token, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	says := func(status int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}
	}
	cut := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, text)
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
	}
	get := func() error { _, err := c.Images(t.Context()); return err }
	events := func() error {
		return c.Events(t.Context(), "x", "t", 1, 0, false, func(nodeapi.Event) error { return nil })
	}
	pull := func() error { _, err := c.Pull(t.Context(), "a", func(nodeapi.Pull) {}); return err }
	follow := func() error {
		log := &nodeapi.Log{Namespace: "x", Task: "t", Attempt: 1, Tail: -1}
		return log.Read(t.Context(), c, true, nodeapi.Sink{Begin: func(nodeapi.Answer) {}, Each: func(tasklog.Piece) error { return nil }})
	}
	load := func() error { _, err := c.Load(t.Context(), strings.NewReader("archive")); return err }
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		call    func() error
		want    types.Class
	}{
		"images without sense":          {says(200, "<html>"), get, types.Internal},
		"images of another kind":        {says(200, `{"name": "a"}`), get, types.Internal},
		"no images at all":              {says(200, ""), get, types.Internal},
		"images that break off":         {cut(`[{"name": "a"`), get, types.Unavailable},
		"an error without sense":        {says(500, "<html>"), get, types.Internal},
		"an error with its class":       {says(502, `{"detail": "none", "class": "`+types.NotFound.String()+`"}`), get, types.NotFound},
		"an error of a strange class":   {says(404, `{"detail": "none", "class": "new"}`), get, types.Internal},
		"a token of another session":    {says(401, ""), get, types.Unavailable},
		"events without sense":          {says(200, "[]\n"), events, types.Internal},
		"events that break off":         {cut(`{"seq": 1}` + "\n" + `{"se`), events, types.Unavailable},
		"events without their end":      {says(200, `{"seq": 1}`+"\n"+`{"seq": 2}`), events, types.Unavailable},
		"a line that is too long":       {says(200, `{"text": "`+strings.Repeat("x", 2<<20)+`"}`), events, types.Unavailable},
		"a pull without an end":         {says(200, `{"done": 1}`+"\n"), pull, types.Unavailable},
		"a pull without sense":          {says(200, "done\n"), pull, types.Internal},
		"a log that breaks off":         {cut("some output"), follow, types.Unavailable},
		"a load that is answered wrong": {says(200, "done"), load, types.Internal},
		"a load that is refused":        {says(400, `{"detail": "archive: is none", "class": "`+types.Invalid.String()+`"}`), load, types.Invalid},
	} {
		handler = test.handler
		if err := test.call(); !types.Is(err, test.want) {
			t.Errorf("%s: %v is %v, want %v", name, err, types.ClassOf(err), test.want)
		}
	}
}

// TestLogged lists the attempts whose output is there, with the part that was moved aside.
func TestLogged(t *testing.T) {
	w := newWorld(t)
	path := w.agent.LogPath("x", "t", 2)
	for name, text := range map[string]string{path: "12345", tasklog.Previous(path): "123"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	all, err := w.Logged(t.Context(), "x", "t")
	if err != nil || len(all) != 1 || all[0].Attempt != 2 || all[0].Bytes != 8 || all[0].Changed.IsZero() {
		t.Errorf("%+v, %v", all, err)
	}
}

// TestImagesOfANode lists what the runtime has.
func TestImagesOfANode(t *testing.T) {
	w := newWorld(t)
	all, err := w.Images(t.Context())
	want, errThere := w.runtime.Images(t.Context())
	if err != nil || errThere != nil || len(all) != len(want) || w.Node() != "n" {
		t.Errorf("node %s has %+v, %v, not %+v, %v", w.Node(), all, err, want, errThere)
	}
}

// TestOutputInPieces: a stream of an exec arrives whole, however its writes are cut, in order.
func TestOutputInPieces(t *testing.T) {
	w := newWorld(t)
	for _, size := range []int{0, 1, 32<<10 - 1, 32 << 10, 32<<10 + 1, 100_000} {
		text := []byte(strings.Repeat(strconv.Itoa(size)+",", size/2+1))[:size]
		w.runtime.exec = func(_ context.Context, _ string, p nodeagent.Process) (int, error) {
			n, err := p.Stdout.Write(text)
			fmt.Fprint(p.Stderr, n)
			return 7, err
		}
		var out, errs bytes.Buffer
		code, err := w.Exec(t.Context(), "x", "t", 1, nodeagent.Process{Command: []string{"x"}, Stdout: &out, Stderr: &errs})
		if err != nil || code != 7 || !bytes.Equal(out.Bytes(), text) || errs.String() != fmt.Sprint(size) {
			t.Errorf("of %d bytes come %d and %q, %d, %v", size, out.Len(), errs.String(), code, err)
		}
	}
}
