package library_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/escher-sched/escher/api/library"
	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/types"
)

// TestOfSocketRefused names each policy that is unknown or wrong. Of too many, it names none.
func TestOfSocketRefused(t *testing.T) {
	c, err := controlplane.New(memstore.New(), "d")
	if err != nil {
		t.Fatal(err)
	}
	job := controlplane.Job{Name: "a", Tasks: make([]controlplane.Submission, 1)}
	for says, policies := range map[string][]types.Policy{
		`job.policies[1]: policy "flock" is unknown`:      {{Kind: "gang"}, {Kind: "flock"}},
		"job.policies[0]: policy gang":                    {{Kind: "gang", With: `{"of":1}`}},
		"job.policies[0].with: has 70000 bytes":           {{Kind: "after", With: strings.Repeat(" ", 70_000)}},
		"job.policies: has 10000: at most 64 are allowed": make([]types.Policy, 10_000),
	} {
		_, err := library.Known().Submit(t.Context(), c, job, policies)
		if !errors.Is(err, types.Invalid) || !strings.Contains(err.Error(), says) || len(err.Error()) > 1000 {
			t.Errorf("%.2000v, want %q", err, says)
		}
	}
}
