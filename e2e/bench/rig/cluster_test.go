package rig

import (
	"context"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestViolation plants a violation, and expects the run to report it.
func TestViolation(t *testing.T) {
	cfg := testConfig(t)
	found, err := OnCluster(t.Context(), cfg, func(ctx context.Context, c *Cluster, _ Figures) error {
		_, err := c.Put(ctx, controlplane.AllocatedKey(NodeName(0)), &types.Allocated{Holds: []types.Holding{{Resource: "cpu", Amount: 1}}})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	row := NewRow(cfg, "planted", "", nil).AddViolations([]float64{found[Violations]})
	if row.Violations == 0 || row.OK || Violated([]Row{*row}) == nil {
		t.Errorf("got %+v of %v", row, found)
	}
}
