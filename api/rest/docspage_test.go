package rest_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/escher-sched/escher/api/rest"
)

// TestDocs checks the page of docs: it has each operation, its links lead somewhere, and it needs nothing
// from elsewhere.
func TestDocs(t *testing.T) {
	h, api := rest.Build(rest.Config{Version: "<script>alert(1)</script>"})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/docs", nil))
	text := w.Body.String()
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") || !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
		t.Fatalf("%d %v", w.Code, w.Header())
	}
	if len(text) > 1<<20 || !strings.HasSuffix(strings.TrimSpace(text), "</html>") {
		t.Errorf("it has %d bytes, and ends with %q", len(text), text[max(0, len(text)-50):])
	}
	for _, not := range []string{"<script", "src=", "http://", "https://", "ZgotmplZ", "&lt;nil&gt;"} {
		if at := strings.Index(text, not); at >= 0 {
			t.Errorf("it has %q: %q", not, text[max(0, at-50):min(len(text), at+50)])
		}
	}
	operations := 0
	for _, item := range api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{item.Get, item.Put, item.Post, item.Delete, item.Patch} {
			if op == nil {
				continue
			}
			if operations++; strings.Count(text, `id="`+op.OperationID+`"`) != 1 {
				t.Errorf("operation %s is not there once", op.OperationID)
			}
		}
	}
	if n := strings.Count(text, "<details "); n != operations {
		t.Errorf("of %d operations it has %d", operations, n)
	}
	for _, link := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(text, -1) {
		if !strings.Contains(text, `<h3 id="`+link[1]+`"`) {
			t.Errorf("%s leads nowhere", link[1])
		}
	}
	for _, part := range []string{"Operation <code>launchTasks</code>", `Body: <code>application/json</code> <a href="#Launch">Launch</a>`, "decides what a program does about it", `Body: <code>application/yaml</code> string`} {
		if !strings.Contains(text, part) {
			t.Errorf("it lacks %q", part)
		}
	}
}

// TestRoutes checks that no route lacks an operation, except the page of docs and the answer to unknown
// requests.
func TestRoutes(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var routes []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, found := range regexp.MustCompile(`\.(?:Handle|HandleFunc)\(("[^"]*"),`).FindAllSubmatch(text, -1) {
			routes = append(routes, string(found[1]))
		}
	}
	if got := strings.Join(routes, " "); got != `"GET /docs" "/"` {
		t.Errorf("routes outside of the description: %s: register an operation", got)
	}
}
