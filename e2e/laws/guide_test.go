package laws

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestSignaturesInTheGuide compares the signatures in docs/policies/api.md with the code.
func TestSignaturesInTheGuide(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/policies/api.md"))
	if err != nil {
		t.Fatal(err)
	}
	known := make(map[string]bool)
	for _, pkg := range []string{"esl", "controlplane"} {
		files, err := filepath.Glob(filepath.Join(root, pkg, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range file.Decls {
				for _, signature := range signatures(d) {
					known[pkg+"."+signature] = true
				}
			}
		}
	}
	of, shown := "", 0
	row := regexp.MustCompile("^\\| `([^`]+)` \\|")
	kind := regexp.MustCompile("^\\| of `([a-z]+\\.[A-Z][A-Za-z]*)` \\|")
	for line := range strings.Lines(string(text)) {
		if head := kind.FindStringSubmatch(line); head != nil {
			of = head[1]
		} else if !strings.HasPrefix(line, "|") {
			of = ""
		}
		m := row.FindStringSubmatch(line)
		if of == "" || m == nil {
			continue
		}
		shown++
		if !known[of+"."+m[1]] {
			t.Errorf("docs/policies/api.md shows %s of %s, which does not exist: correct it by go doc %s", m[1], of, of)
		}
	}
	if shown < 30 {
		t.Errorf("docs/policies/api.md shows %d signatures: its tables begin with | of `package.Type` |", shown)
	}
}

// signatures returns the methods of a declaration, and the fields if it is of types, as Type.Name
// and what follows the name in Go.
func signatures(d ast.Decl) (all []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv != nil {
			all = append(all, strings.TrimPrefix(types.ExprString(d.Recv.List[0].Type), "*")+"."+d.Name.Name+strings.TrimPrefix(types.ExprString(d.Type), "func"))
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
					all = append(all, spec.Name.Name+"."+name.Name+" "+types.ExprString(f.Type))
				}
			}
		}
	}
	return all
}
