package permits

import (
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
		err := test.permissions.Check("n1", &test.spec)
		switch {
		case test.says == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.says != "" && (!types.Is(err, types.Invalid) || !strings.Contains(err.Error(), test.says)):
			t.Errorf("%s: %v, want it invalid and to say %q", name, err, test.says)
		case err == nil && test.permissions.Pids(&test.spec) != test.pids:
			t.Errorf("%s: it may have %d processes, want %d", name, test.permissions.Pids(&test.spec), test.pids)
		}
	}
}

func TestValidatePermissions(t *testing.T) {
	for _, test := range []struct {
		permissions Permissions
		capacity    types.Requests
		says        string
	}{
		{Permissions{Capabilities: []string{"NET_ADMIN"}, MaxPids: 9}, nil, ""},
		{Permissions{Capabilities: []string{"ALL"}}, nil, `allow-cap: "ALL" is no capability to be named`},
		{Permissions{MaxPids: -1}, nil, "max-pids: -1 is out of range"},
		{Permissions{}, types.Requests{{Name: "escher.io/privileged", Amount: 1000}}, "capacity.escher.io/privileged: cannot be set: it follows from allow-privileged"},
	} {
		err := test.permissions.Validate(test.capacity)
		if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%+v: %v, want %q", test.permissions, err, test.says)
		}
	}
}
