package laws

import (
	"go/ast"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// serial lists the packages that make test runs without the race detector, because neither they nor
// their tests start a goroutine. The two packages that the Makefile explains come in addition.
func serial() []string {
	return []string{"types", "controlplane/manifest", "controlplane/match", "scheduler/queue"}
}

// goroutines finds goroutines in a package that is tested without the race detector, and imports of
// packages that start some or protect state from them.
func goroutines(s source) (wrong []string) {
	if !slices.Contains(serial(), path.Dir(s.path)) {
		return nil
	}
	const remedy = "%s: a package with concurrency is tested with the race detector: remove it from SERIAL in the Makefile"
	for _, i := range s.file.Imports {
		name, err := strconv.Unquote(i.Path.Value)
		elements := strings.Split(name, "/")
		if err != nil || slices.ContainsFunc([]string{"sync", "synctest", "http", "exec", "e2e", "memstore", "etcdstore", "server"}, func(e string) bool { return slices.Contains(elements, e) }) {
			wrong = append(wrong, s.at(i.Pos(), remedy, name))
		}
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			wrong = append(wrong, s.at(n.Pos(), remedy, "go"))
		case *ast.SelectorExpr:
			if n.Sel.Name == "Parallel" || n.Sel.Name == "RunParallel" {
				wrong = append(wrong, s.at(n.Pos(), remedy, n.Sel.Name))
			}
		}
		return true
	})
	return wrong
}

// TestSerial checks that the Makefile has the same list, and that each package is there.
func TestSerial(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "\nSERIAL := $(addprefix $(MODULE)/,e2e/laws e2e/sim " + strings.Join(serial(), " ") + ")\n"; !strings.Contains(string(text), want) {
		t.Errorf("the Makefile lacks %q", want)
	}
	for _, dir := range serial() {
		if files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go")); err != nil || len(files) == 0 {
			t.Errorf("%s has no tests: %v", dir, err)
		}
	}
}
