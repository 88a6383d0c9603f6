package reasons

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/controlplane/why"
	"github.com/escher-sched/escher/esl/builtin"
	"github.com/escher-sched/escher/types"
	"github.com/escher-sched/escher/types/action"
)

// TestOwnerOfWhatIsMissing names the shared policy that opens a gate, even when the name of another
// one begins like that of the job.
func TestOwnerOfWhatIsMissing(t *testing.T) {
	s := &Policies{ID: cluster.ID{Namespace: "d", ID: "rq-job"}, Kinds: builtin.Kinds(), Kept: &types.Policies{Job: "rq-job", Policies: []types.Policy{
		{Kind: "use", With: `{"name":"rq","of":"queue"}`}, {Kind: "use", With: `{"name":"fq","as":"a","of":"fair-queue"}`},
	}}}
	waits := why.Explanation{Namespace: "d", Reason: why.Reason{
		Summary:    "It waits for rq-job.fair-queue.0, which is nowhere.",
		Suggestion: types.Textf("%s", action.SetInCluster.Of("rq-job.fair-queue.0", "1")),
		Unmet:      "rq-job.fair-queue.0",
		Needs:      []why.Missing{{Resource: "d:rq-job.fair-queue.0"}, {Resource: "d:rq-jobs.fair-queue.0"}},
	}}
	e := waits
	s.explain(&e)
	if want := "Policy fair-queue fq does that."; !strings.HasPrefix(e.Suggestion.String(), want) {
		t.Errorf("%q, want %q", e.Suggestion, want)
	}
	if want := "rq-job.fair-queue.0 belongs to policy fair-queue fq."; len(e.Notes) != 1 || e.Notes[0].String() != want {
		t.Errorf("it notes %q, want %q", e.Notes, want)
	}
	s.View = cluster.New()
	e = waits
	s.explain(&e)
	if want := "Policy fair-queue fq has been withdrawn: declare it again"; !strings.HasPrefix(e.Suggestion.String(), want) {
		t.Errorf("%q, want %q", e.Suggestion, want)
	}
}
