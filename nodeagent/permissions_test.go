package nodeagent

import (
	"slices"
	"testing"

	"github.com/escher-sched/escher/nodeagent/permits"
	"github.com/escher-sched/escher/types"
)

// TestPermittedCapacity tests the resources by which the scheduler places tasks with such requests.
func TestPermittedCapacity(t *testing.T) {
	c := Config{
		Capacity: types.Requests{{Name: "cpu", Amount: 1000}}, Ports: PortRange{100, 101},
		Permissions: permits.Permissions{Privileged: true, Capabilities: []string{"NET_ADMIN"}},
	}
	want := types.Requests{
		{Name: "cpu", Amount: 1000}, {Name: "escher.io/cap-NET_ADMIN", Amount: types.Inf}, {Name: "escher.io/privileged", Amount: types.Inf}, {Name: "port", Amount: 2000},
	}
	if got := c.capacity(); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

// TestContainerIsAsItsSpecSays tests that limits and rights of a spec reach the container, and that
// the node refuses what it does not permit, however the task came there.
func TestContainerIsAsItsSpecSays(t *testing.T) {
	c := Config{Node: "n1", Permissions: permits.Permissions{Capabilities: []string{"NET_ADMIN"}}}
	b := &types.Binding{Holds: []types.Holding{{Resource: types.CPU, Amount: 1500}, {Resource: types.Memory, Amount: 1 << 30}}}
	spec := &types.Spec{Image: "i", Pids: 9, CPULimit: types.CPUNone, CapAdd: []string{"NET_ADMIN"}, CapDrop: []string{"ALL"}, ReadOnlyRoot: true}
	got, err := c.container("id-0123456789abcdef", Attempt{}, b, spec)
	if err != nil {
		t.Fatal(err)
	}
	if got.MilliCPU != 1500 || got.MemoryBytes != 1<<30 || got.Pids != 9 || got.CPULimit != types.CPUNone || !got.ReadOnlyRoot || got.Privileged ||
		!slices.Equal(got.CapAdd, spec.CapAdd) || !slices.Equal(got.CapDrop, spec.CapDrop) {
		t.Errorf("%+v", got)
	}
	if _, err := c.container("id-0123456789abcdef", Attempt{}, b, &types.Spec{Image: "i", Privileged: true}); !types.Is(err, types.Invalid) {
		t.Errorf("privileged: %v", err)
	}
}
