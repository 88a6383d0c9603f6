package laws

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSignaturesInTheGuide compares the signatures in docs/policies/api.md with package esl.
func TestSignaturesInTheGuide(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/policies/api.md"))
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(root, "esl/*.go"))
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			for _, signature := range signatures(t, d) {
				known[signature] = true
			}
		}
	}
	of, shown := "", 0
	row := regexp.MustCompile("^\\| `([^`]+)` \\|")
	for line := range strings.Lines(string(text)) {
		if head, ok := strings.CutPrefix(line, "| of `esl."); ok {
			of, _, _ = strings.Cut(head, "`")
		} else if !strings.HasPrefix(line, "|") {
			of = ""
		}
		m := row.FindStringSubmatch(line)
		if of == "" || m == nil {
			continue
		}
		shown++
		if !known[of+"."+m[1]] {
			t.Errorf("docs/policies/api.md shows %s of esl.%s, which does not exist: correct it by go doc esl.%s", m[1], of, of)
		}
	}
	if shown < 30 {
		t.Errorf("docs/policies/api.md shows %d signatures: its tables begin with | of `esl.…` |", shown)
	}
}

// signatures returns the methods of a declaration, and the fields if it is of types, as Type.Name
// and what follows the name in Go.
func signatures(t *testing.T, d ast.Decl) (all []string) {
	t.Helper()
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil {
			all = append(all, strings.TrimPrefix(goText(t, d.Recv.List[0].Type), "*")+"."+d.Name.Name+strings.TrimPrefix(goText(t, d.Type), "func"))
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			spec, ok := s.(*ast.TypeSpec)
			if !ok {
				continue
			}
			fields, ok := spec.Type.(*ast.StructType)
			if !ok {
				continue
			}
			for _, f := range fields.Fields.List {
				for _, name := range f.Names {
					all = append(all, spec.Name.Name+"."+name.Name+" "+goText(t, f.Type))
				}
			}
		}
	}
	return all
}

// goText returns a node of a syntax tree as Go.
func goText(t *testing.T, node ast.Node) string {
	t.Helper()
	var out bytes.Buffer
	if err := printer.Fprint(&out, token.NewFileSet(), node); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
