package laws

import (
	"go/ast"
	"go/token"
	"strings"
)

// variables finds package variables, which are state that no caller passed in. Immutable ones are
// allowed: interface assertions (_), error values, compiled regular expressions, embedded files,
// and tables. A table is an array, not a slice or map, that is set in its declaration and not
// assigned to in its file.
func variables(s source) (wrong []string) {
	if s.test() {
		return nil
	}
	for _, d := range s.file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			for i, name := range v.Names {
				var value ast.Expr
				if i < len(v.Values) {
					value = v.Values[i]
				}
				if name.Name == "_" || embedded(g) || constant(name.Name, value) && !assigned(s.file, name.Name) {
					continue
				}
				wrong = append(wrong, s.at(name.Pos(), "variable %s: make it a field, an argument or the result of a function", name.Name))
			}
		}
	}
	return wrong
}

func embedded(g *ast.GenDecl) bool {
	return g.Doc != nil && strings.Contains(g.Doc.List[len(g.Doc.List)-1].Text, "//go:embed ")
}

// constant reports whether a variable is in effect a constant.
func constant(name string, value ast.Expr) bool {
	switch v := value.(type) {
	case *ast.CompositeLit:
		a, ok := v.Type.(*ast.ArrayType)
		return ok && a.Len != nil
	case *ast.CallExpr:
		sel, ok := v.Fun.(*ast.SelectorExpr)
		if !ok {
			return false
		}
		x, ok := sel.X.(*ast.Ident)
		if !ok {
			return false
		}
		switch x.Name + "." + sel.Sel.Name {
		case "regexp.MustCompile":
			return true
		case "errors.New", "types.Errorf", "fmt.Errorf":
			return strings.HasPrefix(strings.ToLower(name), "err")
		}
	}
	return false
}

// assigned reports whether a file assigns to a variable or a part of it, or takes its address.
func assigned(f *ast.File, name string) bool {
	found := false
	ast.Inspect(f, func(n ast.Node) bool {
		var to []ast.Expr
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				to = n.Lhs
			}
		case *ast.IncDecStmt:
			to = []ast.Expr{n.X}
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				to = []ast.Expr{n.X}
			}
		}
		for _, e := range to {
			found = found || rootName(e) == name
		}
		return true
	})
	return found
}

// rootName returns the name of the variable in an expression.
func rootName(e ast.Expr) string {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x.Name
		case *ast.IndexExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return ""
		}
	}
}
