package laws

import (
	"strings"
	"testing"
)

// TestLawsFind: each law finds its violations, and no others.
func TestLawsFind(t *testing.T) {
	long := "func long() {\n" + strings.Repeat("\tlong()\n", maxFunc) + "}\n"
	for _, test := range []struct {
		law, path, text string
		want            int
	}{
		{"lengths", "a.go", long, 1},
		{"lengths", "a.go", "func short() {}\n", 0},
		{"lengths", "a.go", strings.Repeat("// line\n", maxFile), 1},
		{"inits", "a.go", "func init() {}", 1},
		{"inits", "a.go", "type t int\nfunc (t) init() {}", 0},
		{"variables", "a.go", "var a, b = 1, 2", 2},
		{"variables", "a.go", "var m = map[string]int{}", 1},
		{"variables", "a.go", "var s = []int{1}", 1},
		{"variables", "a.go", "var table = [...]int{1}", 0},
		{"variables", "a.go", "var table = [...]int{1}\nfunc f() { table[0] = 2 }", 1},
		{"variables", "a.go", "var table = [...]int{1}\nfunc f() *int { return &table[0] }", 1},
		{"variables", "a.go", "var _ error = nil\nvar ErrX = errors.New(``)\nvar re = regexp.MustCompile(``)", 0},
		{"variables", "a.go", "//go:embed x\nvar x string", 0},
		{"variables", "a_test.go", "var x int", 0},
		{"keys", "a.go", `const k = "/escher/tasks/"`, 1},
		{"keys", "controlplane/keys.go", `const k = "/escher/tasks/"`, 0},
		{"keys", "a.go", `const k = "/run/escher/"`, 0},
		{"tests", "a_test.go", "func f() { t.Skip(); time.Sleep(1) }", 2},
		{"tests", "a_test.go", "import \"testing/synctest\"\nfunc f() { time.Sleep(1) }", 0},
		{"tests", "a.go", "func f() { time.Sleep(1) }", 0},
		{"logs", "a.go", "func f() { log.Info(`done`, zap.String(`nodes`, ``), zap.Int(`count`, 1), zap.Error(err)) }", 1},
		{"logs", "a.go", "func f() { c.log.Info(`Done`); c.log.Warn(text); zap.NewNop() }", 2},
		{"english", "a.go", "func f() bool { return strings.Contains(s.Reason, `memory`) || re.MatchString(e.Suggestion) || strings.HasPrefix(x.Summary[3:], `a`) }", 3},
		{"english", "a.go", "func f() bool { return strings.Contains(s.Name, `memory`) || strings.TrimSpace(s.Reason) == `` }", 0},
		{"commands", "scheduler/a.go", "const a, b, c, d = `use escher run`, `escher ` + verb, `raise it with --count`, `raise it with --` + flag", 4},
		{"commands", "esl/a.go", "const a, b, c = `Escher runs it`, `/run/escher is full`, `start etcd with --max-txn-ops=9`\nvar args = append(args, `--`)", 0},
		{"commands", "esl/a.go", "const a, b = `use escher run`, `raise it with --count`", 1},
		{"commands", "cmd/a.go", "const a = `escher run`", 0},
		{"commands", "esl/a_test.go", "const a = `escher run`", 0},
		{"leftovers", "a.go", "// TODO: later", 1},
	} {
		s, err := parse(test.path, []byte("package a\n"+test.text))
		if err != nil {
			t.Fatal(err)
		}
		if got := laws()[test.law](s); len(got) != test.want {
			t.Errorf("%s of %q found %q, want %d", test.law, test.text, got, test.want)
		}
	}
}
