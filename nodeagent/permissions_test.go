package nodeagent

import (
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/types"
)

func TestPermissions(t *testing.T) {
	allowed := Permissions{Privileged: true, Capabilities: []string{"NET_ADMIN", "SYS_PTRACE"}, MaxPids: 100}
	for name, test := range map[string]struct {
		permissions Permissions
		spec        types.Spec
		says        string // empty: it may run
		pids        int64
	}{
		"nothing asked":         {Permissions{}, types.Spec{}, "", DefaultPids},
		"what every node gives": {Permissions{}, types.Spec{CapAdd: []string{"AUDIT_WRITE"}, CapDrop: []string{"ALL"}, Pids: DefaultMaxPids}, "", DefaultMaxPids},
		"privileged":            {Permissions{}, types.Spec{Privileged: true}, "node n1 does not permit them: start its agent with allow-privileged", 0},
		"capabilities":          {Permissions{}, types.Spec{CapAdd: []string{"NET_ADMIN", "SYS_TIME"}}, "with allow-cap NET_ADMIN allow-cap SYS_TIME", 0},
		"one of two":            {allowed, types.Spec{CapAdd: []string{"NET_ADMIN", "SYS_TIME"}}, "with allow-cap SYS_TIME", 0},
		"allowed":               {allowed, types.Spec{CapAdd: []string{"NET_ADMIN", "SYS_PTRACE"}, Pids: 7}, "", 7},
		"allowed privileged":    {allowed, types.Spec{Privileged: true}, "", 100},
		"pids":                  {Permissions{}, types.Spec{Pids: DefaultMaxPids + 1}, "pids: 32769 are asked for, and node n1 gives 32768 at most", 0},
		"fewer pids":            {allowed, types.Spec{Pids: 101}, "start its agent with max-pids 101", 0},
	} {
		err := test.permissions.check("n1", &test.spec)
		switch {
		case test.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.says != "" && (!types.Is(err, types.Invalid) || !strings.Contains(err.Error(), test.says)):
			t.Errorf("%s: %v, want it invalid and to say %q", name, err, test.says)
		case err == nil && test.permissions.pids(&test.spec) != test.pids:
			t.Errorf("%s: it may have %d processes, want %d", name, test.permissions.pids(&test.spec), test.pids)
		}
	}
}

// TestPermittedCapacity tests the resources by which the scheduler places tasks with such requests.
func TestPermittedCapacity(t *testing.T) {
	c := Config{
		Capacity: types.Requests{{Name: "cpu", Amount: 1000}}, Ports: PortRange{100, 101},
		Permissions: Permissions{Privileged: true, Capabilities: []string{"NET_ADMIN"}},
	}
	want := types.Requests{
		{Name: "cpu", Amount: 1000}, {Name: "escher.io/cap-NET_ADMIN", Amount: types.Inf}, {Name: "escher.io/privileged", Amount: types.Inf}, {Name: "port", Amount: 2000},
	}
	if got := c.capacity(); !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}

func TestValidatePermissions(t *testing.T) {
	for _, test := range []struct {
		config Config
		says   string
	}{
		{Config{Permissions: Permissions{Capabilities: []string{"NET_ADMIN"}, MaxPids: 9}}, ""},
		{Config{Permissions: Permissions{Capabilities: []string{"ALL"}}}, `allow-cap: "ALL" is no capability to be named`},
		{Config{Permissions: Permissions{MaxPids: -1}}, "max-pids: -1 is out of range"},
		{Config{Capacity: types.Requests{{Name: "escher.io/privileged", Amount: 1000}}}, "capacity.escher.io/privileged: cannot be set: it follows from allow-privileged"},
	} {
		err := test.config.validatePermissions()
		if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%+v: %v, want %q", test.config.Permissions, err, test.says)
		}
	}
}

// TestContainerIsAsItsSpecSays tests that limits and rights of a spec reach the container, and that
// the node refuses what it does not permit, however the task came there.
func TestContainerIsAsItsSpecSays(t *testing.T) {
	c := Config{Node: "n1", Permissions: Permissions{Capabilities: []string{"NET_ADMIN"}}}
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
