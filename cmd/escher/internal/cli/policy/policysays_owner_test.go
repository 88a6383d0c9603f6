package policy

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/scheduler/explain"
	"github.com/escher-sched/escher/types"
)

// TestOwnerOfWhatIsMissing names the shared policy that opens a gate, even when the name of another
// one begins like that of the job.
func TestOwnerOfWhatIsMissing(t *testing.T) {
	s := &PolicySaying{ID: cluster.ID{Namespace: "d", ID: "rq-job"}, Kinds: builtin.Kinds(), Kept: &types.Policies{Job: "rq-job", Policies: []types.Policy{
		{Kind: "queued", With: `{"in":"rq"}`}, {Kind: "flow", With: `{"in":"fq","as":"a"}`},
	}}}
	e := explain.Explanation{
		Summary:    "It waits for rq-job.flow.0, which is nowhere.",
		Suggestion: "escher set-resource rq-job.flow.0 1 --cluster",
		Unmet:      "rq-job.flow.0",
	}
	s.explain(&e)
	if want := "Policy flow of fq sees to that."; !strings.HasPrefix(e.Suggestion, want) {
		t.Errorf("%q, want %q", e.Suggestion, want)
	}
	if want := "It waits for rq-job.flow.0 (policy flow of fq), which is nowhere."; e.Summary != want {
		t.Errorf("%q, want %q", e.Summary, want)
	}
	s.View = cluster.New()
	e = explain.Explanation{Suggestion: "escher set-resource rq-job.flow.0 1 --cluster", Unmet: "rq-job.flow.0"}
	s.explain(&e)
	if want := "Policy flow of fq has been withdrawn: declare it again"; !strings.HasPrefix(e.Suggestion, want) {
		t.Errorf("%q, want %q", e.Suggestion, want)
	}
}
