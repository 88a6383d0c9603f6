package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/api/reasons"
	"github.com/escher-sched/escher/cmd/escher/internal/cli/show"
	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/types"
)

// TestWrongPoliciesAreShown shows the errors that the program of a policy reports in the list, in
// the description, and in the explanation of its tasks.
func TestWrongPoliciesAreShown(t *testing.T) {
	id := cluster.ID{Namespace: "d", ID: "report"}
	kept := &types.Policies{Job: "report", Policies: []types.Policy{{Kind: "acme.com/night", With: `{"fro":22}`, Wrong: "fro: is unknown: use from, until"}}}
	s := &reasons.Policies{ID: id, Kept: kept, Kinds: builtin.Kinds(), Now: time.Now()}
	d := show.Describe(s)
	if got := strings.Join(d.Row(), " "); !strings.Contains(got, "acme.com/night (wrong)") {
		t.Errorf("the row is %q", got)
	}
	var out strings.Builder
	if err := d.Write(&out); err != nil || !strings.Contains(out.String(), "Wrong\n  acme.com/night: fro: is unknown: use from, until") {
		t.Errorf("%v: it is described as\n%s", err, &out)
	}
}
