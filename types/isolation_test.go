package types

import (
	"slices"
	"strings"
	"testing"
)

func TestValidateIsolation(t *testing.T) {
	good := Spec{Image: "i", Pids: 100, CPULimit: CPUNone, CapAdd: []string{"NET_ADMIN", "SYS_TIME"}, CapDrop: []string{"ALL"}, ReadOnlyRoot: true}
	if err := good.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		spoil func(*Spec)
		says  []string
	}{
		"pids":             {func(s *Spec) { s.Pids = -1 }, []string{"pids: -1 is out of range", "1 to 4194304"}},
		"too many pids":    {func(s *Spec) { s.Pids = MaxPids + 1 }, []string{"pids: 4194305 is out of range"}},
		"socket":           {func(s *Spec) { s.Socket = "read" }, []string{`socket: "read" is unknown: use namespace, self or none`}},
		"cpu limit":        {func(s *Spec) { s.CPULimit = "soft" }, []string{`cpuLimit: "soft" is unknown: use none`}},
		"unknown":          {func(s *Spec) { s.CapAdd = []string{"NET_ADMIN", "FLY"} }, []string{`capAdd[1]: "FLY" is not a capability`, "such as NET_BIND_SERVICE"}},
		"prefix":           {func(s *Spec) { s.CapAdd = []string{"CAP_NET_ADMIN"} }, []string{`capAdd[0]: "CAP_NET_ADMIN" has another spelling here: write NET_ADMIN`}},
		"lower case":       {func(s *Spec) { s.CapDrop = []string{"all"} }, []string{`capDrop[0]: "all" has another spelling here: write ALL`}},
		"twice":            {func(s *Spec) { s.CapAdd = []string{"KILL", "KILL"} }, []string{`capAdd[1]: "KILL" is given twice`}},
		"all":              {func(s *Spec) { s.CapAdd = []string{"ALL"}; s.CapDrop = nil }, []string{"capAdd: ALL is more than any program needs: name each, or use privileged"}},
		"added, dropped":   {func(s *Spec) { s.CapDrop = []string{"SYS_TIME"} }, []string{`capAdd: "SYS_TIME" is in capDrop too`}},
		"privileged, adds": {func(s *Spec) { s.Privileged = true }, []string{"privileged: has every capability, and capAdd or capDrop is given"}},
	} {
		bad := good
		c.spoil(&bad)
		t.Run(name, func(t *testing.T) { refusal(t, bad.Validate(), c.says...) })
	}
}

func TestCapabilities(t *testing.T) {
	if all := Capabilities(); !slices.IsSorted(all) || len(all) != 41 {
		t.Errorf("%d capabilities, want 41, sorted: %q", len(all), all)
	}
	usual := DefaultCapabilities()
	for _, test := range []struct{ add, drop, want []string }{
		{nil, nil, usual},
		{[]string{"KILL"}, nil, usual},
		{[]string{"AUDIT_WRITE"}, nil, append([]string{"AUDIT_WRITE"}, usual...)},
		{nil, []string{"ALL"}, []string{}},
		{[]string{"SYS_TIME", "BPF"}, []string{"ALL"}, []string{"BPF", "SYS_TIME"}},
		{nil, []string{"CHOWN", "NET_RAW"}, usual[1:]},
	} {
		if got := CapabilitiesOf(test.add, test.drop); !slices.Equal(got, test.want) {
			t.Errorf("%q added, %q dropped: %q, want %q", test.add, test.drop, got, test.want)
		}
	}
}

// TestPermits checks the specs that need a permit of their node, and those that do not.
func TestPermits(t *testing.T) {
	for _, test := range []struct {
		spec Spec
		want []ResourceID
	}{
		{Spec{CapAdd: []string{"NET_BIND_SERVICE", "AUDIT_WRITE", "SETFCAP", "SETPCAP"}, CapDrop: []string{"ALL"}, ReadOnlyRoot: true, Pids: 9}, nil},
		{Spec{Privileged: true}, []ResourceID{"escher.io/privileged"}},
		{Spec{CapAdd: []string{"NET_RAW", "KILL", "MKNOD"}}, []ResourceID{"escher.io/cap-NET_RAW", "escher.io/cap-MKNOD"}},
	} {
		if got := test.spec.Permits(); !slices.Equal(got, test.want) {
			t.Errorf("%+v: %q, want %q", test.spec, got, test.want)
		}
	}
	spec := Spec{Image: "i", Privileged: true}
	task := Task{Requests: Requests{{"cpu", 1000}}, Spec: strings.Repeat("0", 64)}
	refusal(t, task.ValidateImplied(&spec), "requests.escher.io/privileged: 0 is requested, and the spec needs 1")
	task.Requests = spec.WithImplied(task.Requests)
	if err := task.ValidateImplied(&spec); err != nil || !slices.Equal(task.Requests, Requests{{"cpu", 1000}, {"escher.io/privileged", 1000}}) {
		t.Errorf("%v, %v", task.Requests, err)
	}
	if err := task.Validate(); err != nil {
		t.Error(err)
	}
	for id, want := range map[ResourceID]string{PermitPrivileged: "allow-privileged", PermitCapability("BPF"): "allow-cap BPF", "gpu": "", "acme.com/privileged": ""} {
		if setting, ok := id.Permit(); ok != (want != "") || ok && setting.String() != want {
			t.Errorf("%s: %q, %t", id, setting, ok)
		}
	}
}
