package laws

import (
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// foreignFlags are flags of other programs: of etcd and etcdctl, containerd and runc, and NVIDIA's
// tools.
func foreignFlags() []string {
	return []string{
		"max-txn-ops", "max-request-bytes", "quota-backend-bytes", "prefix",
		"config", "version", "root", "force",
		"output", "create-all", "gpu-reset",
	}
}

var (
	// Prose names the program Escher.
	commandLine = regexp.MustCompile(`(^|[^\w./-])escher ([a-z]|$)`)
	commandFlag = regexp.MustCompile(`(?:^|[^\w-])--([a-z][a-z-]*)| --$`)
)

// commands finds command lines of escher, and its flags, in string literals of the libraries: a
// library names an action, and the command line says how to type it. A policy names flags: its file
// declares the flags that make it.
func commands(s source) (wrong []string) {
	room, _, _ := strings.Cut(s.path, "/")
	if s.test() || !slices.Contains([]string{"types", "controlplane", "scheduler", "nodeagent", "esl"}, room) {
		return nil
	}
	ast.Inspect(s.file, func(n ast.Node) bool {
		lit, ok := n.(*ast.BasicLit)
		if !ok || lit.Kind != token.STRING {
			return true
		}
		if text, err := strconv.Unquote(lit.Value); err == nil && (commandLine.MatchString(text) || room != "esl" && namesFlag(text)) {
			wrong = append(wrong, s.at(lit.Pos(), "%s contains a command line: name an action of types/action", lit.Value))
		}
		return true
	})
	return wrong
}

// namesFlag reports whether a text contains a flag of escher.
func namesFlag(text string) bool {
	return slices.ContainsFunc(commandFlag.FindAllStringSubmatch(text, -1), func(m []string) bool {
		return !slices.Contains(foreignFlags(), m[1])
	})
}
