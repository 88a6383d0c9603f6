package laws

import (
	"go/ast"
	"slices"
	"strings"
)

// english finds code that searches text written for readers: a reason that code needs is a value,
// and becomes words last.
func english(s source) (wrong []string) {
	if s.test() {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if ok && seeks(sel.Sel.Name) && slices.ContainsFunc(call.Args, isSentence) {
			wrong = append(wrong, s.at(call.Pos(), "%s decides by words made for people: compare a value", sel.Sel.Name))
		}
		return true
	})
	return wrong
}

// seeks reports whether a function of strings or regexp searches a text.
func seeks(name string) bool {
	return slices.Contains([]string{"Contains", "HasPrefix", "HasSuffix", "Cut", "Index", "EqualFold"}, name) ||
		strings.HasPrefix(name, "Match") || strings.HasPrefix(name, "Find")
}

// isSentence reports whether an argument is, or is part of, a field with text for readers. Errors
// of other libraries often have only text.
func isSentence(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.SliceExpr:
		return isSentence(x.X)
	case *ast.SelectorExpr:
		return slices.Contains([]string{"Reason", "Summary", "Suggestion", "Message"}, x.Sel.Name)
	}
	return false
}
