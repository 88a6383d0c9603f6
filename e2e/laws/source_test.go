package laws

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// root is the directory of the module.
const root = "../.."

// The longest file and function, in lines. Longer ones do two things.
const (
	maxFile = 500
	maxFunc = 75
)

// source is a parsed file.
type source struct {
	path string // below root
	fset *token.FileSet
	file *ast.File
}

func (s source) test() bool { return strings.HasSuffix(s.path, "_test.go") }

// at prefixes a message with its position.
func (s source) at(pos token.Pos, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", s.path, s.fset.Position(pos).Line, fmt.Sprintf(format, args...))
}

func parse(path string, text []byte) (source, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, path, text, parser.ParseComments|parser.SkipObjectResolution)
	return source{path, fset, file}, err
}

// sources parses every file of the module that is not generated.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (strings.HasPrefix(d.Name(), ".") && d.Name() != "." && d.Name() != ".." || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		s, err := parse(filepath.ToSlash(rel), text)
		if err == nil && !ast.IsGenerated(s.file) {
			all = append(all, s)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// laws lists the checks of each file; each returns its violations.
func laws() map[string]func(source) []string {
	return map[string]func(source) []string{
		"lengths":   lengths,
		"inits":     inits,
		"variables": variables,
		"keys":      keys,
		"tests":     honestTests,
		"leftovers": leftovers,
		"logs":      logs,
		"english":   english,
		"commands":  commands,
	}
}

func TestLaws(t *testing.T) {
	all := sources(t)
	if len(all) < 10 {
		t.Fatalf("found %d files only", len(all))
	}
	for name, law := range laws() {
		t.Run(name, func(t *testing.T) {
			for _, s := range all {
				for _, w := range law(s) {
					t.Error(w)
				}
			}
		})
	}
}

// lengths finds too long files and functions.
func lengths(s source) (wrong []string) {
	if n := s.fset.File(s.file.FileStart).LineCount(); n > maxFile {
		wrong = append(wrong, fmt.Sprintf("%s: has %d lines, more than %d: split it by what it holds", s.path, n, maxFile))
	}
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok {
			n := s.fset.Position(f.End()).Line - s.fset.Position(f.Pos()).Line + 1
			if n > maxFunc {
				wrong = append(wrong, s.at(f.Pos(), "%s has %d lines, more than %d: name its parts", f.Name.Name, n, maxFunc))
			}
		}
	}
	return wrong
}

// inits finds init functions: main calls what a package does.
func inits(s source) (wrong []string) {
	for _, d := range s.file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
			wrong = append(wrong, s.at(f.Pos(), "init: construct it in main and pass it down"))
		}
	}
	return wrong
}

// keys finds keys written by hand: one file builds and parses them.
func keys(s source) (wrong []string) {
	if s.path == "controlplane/keys.go" || s.test() || strings.HasPrefix(s.path, "e2e/laws/") {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		if text, err := strconv.Unquote(lit.Value); err == nil && strings.HasPrefix(text, "/escher/") {
			wrong = append(wrong, s.at(lit.Pos(), "%s: build keys with the functions of controlplane/keys.go", lit.Value))
		}
		return true
	})
	return wrong
}

// honestTests finds tests that may pass by not running, or by luck. Sleep is fine in the bubbles of
// testing/synctest, whose clock only moves when all goroutines wait.
func honestTests(s source) (wrong []string) {
	if !s.test() {
		return nil
	}
	bubbles := slices.ContainsFunc(s.file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` })
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		x, _ := sel.X.(*ast.Ident)
		name := sel.Sel.Name
		switch {
		case slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, name):
			wrong = append(wrong, s.at(call.Pos(), "%s: a test that cannot run fails", name))
		case name == "Sleep" && x != nil && x.Name == "time" && !bubbles:
			wrong = append(wrong, s.at(call.Pos(), "time.Sleep: wait for what is to happen, or use testing/synctest"))
		}
		return true
	})
	return wrong
}

// leftovers finds notes to oneself.
func leftovers(s source) (wrong []string) {
	if strings.HasPrefix(s.path, "e2e/laws/") {
		return nil
	}
	for _, g := range s.file.Comments {
		for _, c := range g.List {
			for _, mark := range []string{"TODO", "FIXME", "XXX"} {
				if strings.Contains(c.Text, mark) {
					wrong = append(wrong, s.at(c.Pos(), "%s: settle it, or write an issue", mark))
				}
			}
		}
	}
	return wrong
}
