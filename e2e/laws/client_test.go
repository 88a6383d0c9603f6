package laws

import (
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestClientShowsNoInternals keeps keys, transactions and the logger of the libraries out of the
// package that programs use.
func TestClientShowsNoInternals(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "go", "doc", "-all", "./api/escher")
	cmd.Dir = root
	doc, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go doc: %v\n%s", err, doc)
	}
	if got := internals(string(doc)); len(got) > 0 {
		t.Errorf("api/escher exports what programs need not know: %s", strings.Join(got, ", "))
	}
}

// TestInternals finds internals in signatures.
func TestInternals(t *testing.T) {
	doc := "func (c *Client) Log() *zap.Logger\nfunc Compare(t controlplane.Txn) Amount\nfunc (c *Client) State(ctx context.Context) (*State, error)\n"
	if got := internals(doc); !slices.Equal(got, []string{"zap.Logger", "controlplane.Txn"}) {
		t.Errorf("it finds %q", got)
	}
}

// internals returns the names of internals in documentation.
func internals(doc string) []string {
	return regexp.MustCompile(`\b(zap|zapcore|controlplane|etcdstore|clientv3)\.\w+`).FindAllString(doc, -1)
}

// TestExamplesUseTheClient: examples connect as programs of users do.
func TestExamplesUseTheClient(t *testing.T) {
	own, _ := list(t)
	examples := 0
	for _, p := range own {
		if !strings.HasPrefix(p.ImportPath, module+"examples/") {
			continue
		}
		examples++
		for _, below := range []string{"controlplane/etcdstore", "nodeagent/serve/tasksocket"} {
			if slices.Contains(p.Imports, module+below) {
				t.Errorf("%s imports %s: use api/escher", p.ImportPath, below)
			}
		}
	}
	if examples == 0 {
		t.Error("there are no examples")
	}
}
