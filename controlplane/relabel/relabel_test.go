package relabel_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/relabel"
	"github.com/escher-sched/escher/types"
)

// rival changes the node before each of the first commits.
type rival struct {
	*memstore.Store
	times int
}

func (r *rival) Commit(ctx context.Context, txn controlplane.Txn) (controlplane.Result, error) {
	if r.times > 0 {
		r.times--
		put(r.Store, &types.Node{Version: "v2", Labels: []types.Label{{Name: "rack", Value: "r1"}}})
	}
	return r.Store.Commit(ctx, txn)
}

func put(s *memstore.Store, n *types.Node) {
	change := controlplane.NewChange(controlplane.NewBatch())
	change.Put(controlplane.NodeKey("n1"), n)
	if _, err := s.Commit(context.Background(), change.Txn()); err != nil {
		panic(err)
	}
}

func TestNode(t *testing.T) {
	team := []types.Label{{Name: "team", Value: "x"}}
	for _, test := range []struct {
		name   string
		rivals int
		change relabel.Change
		want   string // the labels then, or the error
	}{
		{"added", 0, relabel.Change{Add: team}, "rack=r1,team=x true"},
		{"after other writers", 3, relabel.Change{Add: team}, "rack=r1,team=x true"},
		{"removed", 1, relabel.Change{Remove: []string{"rack"}}, " true"},
		{"nothing to do", 0, relabel.Change{Remove: []string{"none"}}, "rack=r1 false"},
		{"other value", 0, relabel.Change{Add: []types.Label{{Name: "rack", Value: "r2"}}}, `label node n1: label.rack: is "r1" already: overwrite it to make it "r2"`},
		{"overwritten", 0, relabel.Change{Add: []types.Label{{Name: "rack", Value: "r2"}}, Overwrite: true}, "rack=r2 true"},
		{"wrong", 0, relabel.Change{Add: []types.Label{{Name: "rack", Value: "r 2"}}}, `label node n1: label.rack: "r 2" contains ' '`},
		{"too many other writers", 1000, relabel.Change{Add: team}, "label node n1: other writers changed the node 100 times in a row: try again later"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &rival{memstore.New(), 0}
				put(s.Store, &types.Node{Version: "v1", Labels: []types.Label{{Name: "rack", Value: "r1"}}})
				s.times = test.rivals
				was, changed, err := relabel.Node(t.Context(), s, "n1", test.change)
				s.times = 0
				if err == nil && types.LabelsText(was) != "rack=r1" {
					t.Errorf("it had %v", was)
				}
				var n types.Node
				kv, getErr := controlplane.Get(t.Context(), s, controlplane.NodeKey("n1"))
				if getErr != nil || !controlplane.Read(kv, &n) {
					t.Fatal(getErr)
				}
				got := types.LabelsText(n.Labels) + map[bool]string{true: " true", false: " false"}[changed]
				if err != nil {
					got = err.Error()
				}
				if got != test.want && (err == nil || !strings.HasPrefix(got, test.want)) {
					t.Errorf("%s, want %s", got, test.want)
				}
				if test.rivals > 0 && n.Version != "v2" {
					t.Error("another writer's change is gone")
				}
			})
		})
	}
	_, _, err := relabel.Node(t.Context(), memstore.New(), "n9", relabel.Change{Add: team})
	if !types.Is(err, types.NotFound) || !strings.Contains(err.Error(), "label node n9: there is no such node") {
		t.Error(err)
	}
}
