package laws

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// logFields are the allowed names of log fields: few, so that the logs of all components can be
// searched alike. The name of the logger is component.
var logFields = [...]string{
	"component", "node", "namespace", "task", "attempt", "job", "policy", "reservation", "resource", "image", "scheduler",
	"revision", "duration", "error", "address", "path", "reason", "code", "count",
}

// logs finds log fields with other names, and variable messages: variable parts are fields.
func logs(s source) (wrong []string) {
	if s.test() {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok || len(call.Args) == 0 {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		literal, isText := call.Args[0].(*ast.BasicLit)
		isText = isText && literal.Kind == token.STRING
		text := ""
		if isText {
			text, _ = strconv.Unquote(literal.Value)
		}
		switch {
		case nameOf(sel.X) == "zap" && isText && len(call.Args) == 2 && !slices.Contains(logFields[:], text):
			wrong = append(wrong, s.at(call.Pos(), "log field %q: use one of %s", text, strings.Join(logFields[:], ", ")))
		case slices.Contains([]string{"Debug", "Info", "Warn", "Error"}, sel.Sel.Name) && slices.Contains([]string{"log", "Log", "logger", "Logger"}, nameOf(sel.X)):
			if !isText || text == "" || unicode.IsUpper(rune(text[0])) {
				wrong = append(wrong, s.at(call.Pos(), "log message: write it out, in lower case: what varies is a field"))
			}
		}
		return true
	})
	return wrong
}

// nameOf returns the last name of an expression such as a.b.log.
func nameOf(x ast.Expr) string {
	switch x := x.(type) {
	case *ast.Ident:
		return x.Name
	case *ast.SelectorExpr:
		return x.Sel.Name
	}
	return ""
}
