package esl_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/e2e/hollow"
	"github.com/escher-sched/escher/esl"
	"github.com/escher-sched/escher/types"
)

// A gang takes part in a share, and in a queue, as a whole: of what it may not have all of
// it has nothing.
func TestGangInSharesAndQueues(t *testing.T) {
	for name, c := range map[string]struct {
		declare func(g gangs) error
		policy  esl.Policy
	}{
		"queue": {func(g gangs) error { return g.Declare(g.t.Context(), "prod", esl.Queue{Limit: 4}, "") }, esl.Queued{In: "prod"}},
		"shares": {func(g gangs) error {
			return g.Declare(g.t.Context(), "teams", esl.FairShare{Of: map[string]esl.Team{"a": {}, "b": {}}}, "")
		}, esl.Share{In: "teams", As: "a"}},
	} {
		for _, order := range []string{"gang first", "gang last"} {
			t.Run(name+", "+order, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					g := startGangs(t, hollow.Config{Nodes: hollow.Nodes(4, 2)})
					if err := c.declare(g); err != nil {
						t.Fatal(err)
					}
					policies := []esl.Policy{esl.Gang{}, c.policy}
					if order == "gang last" {
						policies[0], policies[1] = policies[1], policies[0]
					}
					first := g.submit(3, hollow.Task(2000, "run", "30s"), policies...)
					time.Sleep(time.Second)
					second := g.submit(3, hollow.Task(2000, "run", "30s"), policies...)
					g.running(first)
					time.Sleep(5 * time.Second)
					for _, id := range second.Tasks {
						if p := g.view().Task(cluster.ID{Namespace: "d", ID: id}).Phase(); p != types.Pending {
							t.Errorf("%s is %s: there is no place for all", id, p)
						}
					}
					g.running(second)
					g.ended(second)
					if err := g.Audit(t.Context()); err != nil {
						t.Error(err)
					}
				})
			})
		}
	}
}
