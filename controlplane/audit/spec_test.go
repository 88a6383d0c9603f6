package audit_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/audit"
	"github.com/escher-sched/escher/controlplane/audit/audittest"
	"github.com/escher-sched/escher/types"
)

// TestSpecKept checks which deletions and changes of a spec a task survives. DIGEST is that of its
// spec, OTHER that of another one.
func TestSpecKept(t *testing.T) {
	const begin = "put specs/d/DIGEST {\"Image\": \"x\"}\nput specs/d/OTHER {\"Image\": \"y\"}\nput specs/e/DIGEST {\"Image\": \"x\"}\nput tasks/d/a {\"Spec\": \"DIGEST\"}\nput tasks/d/b {}\n\n"
	digests := strings.NewReplacer("DIGEST", controlplane.SpecDigest(&types.Spec{Image: "x"}), "OTHER", controlplane.SpecDigest(&types.Spec{Image: "y"}))
	for name, c := range map[string]struct {
		script string
		want   []string
	}{
		"kept":                        {"", nil},
		"gone":                        {"del specs/d/DIGEST", []string{"SpecKept task d/a"}},
		"another one is gone":         {"del specs/d/OTHER", nil},
		"that of another namespace":   {"del specs/e/DIGEST", nil},
		"gone after the end":          {"put status/d/a {\"Phase\": \"cancelled\", \"Reason\": \"x\"}\n\ndel specs/d/DIGEST", nil},
		"gone with the task":          {"put status/d/a {\"Phase\": \"cancelled\", \"Reason\": \"x\"}\n\ndel specs/d/DIGEST\ndel tasks/d/a\ndel status/d/a", nil},
		"replaced":                    {"put specs/d/DIGEST {\"Image\": \"y\"}\nput tasks/d/a {\"Spec\": \"DIGEST\"}", []string{"SpecKept task d/a"}},
		"unreadable":                  {"put specs/d/DIGEST nonsense\nput tasks/d/a {\"Spec\": \"DIGEST\"}", []string{"Schema key /escher/specs/d/DIGEST"}},
		"a new task without its spec": {"put tasks/d/c {\"Spec\": \"OTHER\"}\ndel specs/d/OTHER", []string{"SpecKept task d/c"}},
		"gone, and back":              {"del specs/d/DIGEST\n\nput specs/d/DIGEST {\"Image\": \"x\"}\n\nput tasks/d/b {\"Labels\": [{\"Name\": \"a\", \"Value\": \"b\"}]}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			steps, err := audittest.Parse(digests.Replace(begin + c.script))
			if err != nil {
				t.Fatal(err)
			}
			checker := audit.NewChecker()
			for _, s := range steps {
				checker.Apply(s.Batch)
			}
			want := make([]string, len(c.want))
			for i := range want {
				want[i] = digests.Replace(c.want[i])
			}
			if got := names(checker.Standing()); !slices.Equal(got, want) {
				t.Errorf("%q, want %q", got, want)
			}
		})
	}
}
