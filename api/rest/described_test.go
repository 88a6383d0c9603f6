package rest_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/escher-sched/escher/api/access"
	"github.com/escher-sched/escher/api/rest"
)

var update = flag.Bool("update", false, "write the files that the test compares")

// TestDescribed compares docs/openapi.json and the table of docs/api.md with the operations.
func TestDescribed(t *testing.T) {
	_, api := rest.Build(rest.Config{Version: "1"})
	text, err := json.Marshal(api.OpenAPI())
	if err != nil {
		t.Fatal(err)
	}
	var description bytes.Buffer
	if err := json.Indent(&description, text, "", " "); err != nil {
		t.Fatal(err)
	}
	description.WriteByte('\n')
	compare(t, "../../docs/openapi.json", description.String())

	generated(t, description.String())
	within(t, "../../docs/api.md", table(api))
	within(t, "../../docs/security.md", rightsTable())
	within(t, "../../docs/task-api.md", socketsTable(api))
}

// within compares a table in a page with what it should be.
func within(t *testing.T, page, table string) {
	t.Helper()
	const end = "<!-- end -->"
	was, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(was), "-update -->\n")
	_, after, ends := strings.Cut(rest, end)
	if !found || !ends {
		t.Fatalf("%s has no place for the table", page)
	}
	compare(t, page, before+"-update -->\n"+table+end+after)
}

// rightsTable returns the table of rights: the operations with the same needs in one row.
func rightsTable() string {
	by := make(map[string][]string)
	for _, row := range access.Table() {
		needs := make([]string, len(row.Needs))
		for i, n := range row.Needs {
			needs[i] = n.String()
		}
		key := strings.Join(needs, ", ")
		if row.InCluster {
			key += ", in the cluster"
		}
		if row.Public {
			key = "nothing, no token either"
		}
		if key == "" {
			key = "a token; each sees and changes what its rights allow"
		}
		by[key] = append(by[key], "`"+row.Operation+"`")
	}
	var b strings.Builder
	b.WriteString("| needs | operations |\n|---|---|\n")
	for _, needs := range slices.Sorted(maps.Keys(by)) {
		slices.Sort(by[needs])
		fmt.Fprintf(&b, "| %s | %s |\n", needs, strings.Join(by[needs], " "))
	}
	return b.String()
}

// socketsTable returns the table of the operations that the sockets of tasks serve.
func socketsTable(api huma.API) string {
	paths := make(map[string]string)
	for path, item := range api.OpenAPI().Paths {
		for method, op := range map[string]*huma.Operation{"GET": item.Get, "PUT": item.Put, "POST": item.Post, "DELETE": item.Delete} {
			if op != nil {
				paths[op.OperationID] = "`" + method + " " + strings.TrimPrefix(path, "/v1/namespaces/{namespace}") + "`"
			}
		}
	}
	var b strings.Builder
	b.WriteString("| request | operation | `namespace` | `self` |\n|---|---|---|---|\n")
	for _, row := range access.Table() {
		if !row.Tasks {
			continue
		}
		own := "no"
		switch {
		case row.NamesTask:
			own = "of the task, which it names"
		case row.Itself && len(row.Needs) > 0:
			own = "of the task"
		case row.Itself:
			own = "yes"
		}
		fmt.Fprintf(&b, "| %s | `%s` | yes | %s |\n", paths[row.Operation], row.Operation, own)
	}
	return b.String()
}

// generated compares the generated client with the description that it was made from, or makes it again.
func generated(t *testing.T, description string) {
	t.Helper()
	const path = "restclient/client.go"
	mark := fmt.Sprintf("// The SHA-256 of the description is %x.\n", sha256.Sum256([]byte(description)))
	if !*update {
		if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), mark) {
			t.Errorf("api/rest/%s is not of this description (%v): go test ./api/rest -run TestDescribed -update", path, err)
		}
		return
	}
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-modfile=tools/oapi.mod", "oapi-codegen", "-generate", "types,client", "-package", "restclient", "docs/openapi.json")
	cmd.Dir, cmd.Stderr = "../..", os.Stderr
	text, err := cmd.Output()
	const head = "DO NOT EDIT.\n"
	before, after, found := strings.Cut(string(text), head)
	if err != nil || !found {
		t.Fatalf("oapi-codegen: %v: %.200s", err, text)
	}
	if err := os.WriteFile(path, []byte(before+head+"//\n"+mark+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// table returns the operations as a table, by their tags.
func table(api huma.API) string {
	var rows []string
	for path, item := range api.OpenAPI().Paths {
		for method, op := range map[string]*huma.Operation{"GET": item.Get, "PUT": item.Put, "POST": item.Post, "DELETE": item.Delete} {
			if op != nil {
				at := strings.Replace(path, "/v1/namespaces/{namespace}/", "…/", 1)
				rows = append(rows, fmt.Sprintf("| `%s %s` | `%s` | %s |\n", method, at, op.OperationID, op.Summary))
			}
		}
	}
	slices.SortFunc(rows, func(a, b string) int {
		path := func(row string) string { _, at, _ := strings.Cut(row, " /"); return at + row }
		return strings.Compare(path(strings.Replace(a, "…", "/…", 1)), path(strings.Replace(b, "…", "/…", 1)))
	})
	return "| request | operation | what it does |\n|---|---|---|\n" + strings.Join(rows, "")
}

// compare compares a file with what it should be, or writes it.
func compare(t *testing.T, path, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s is not as the operations are (%v): go test ./api/rest -run TestDescribed -update", path, err)
	}
}
