package types

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestChoicesAndTheirTexts checks that each value of an enumeration is parsed as it is written, that
// the default has a name, and that other texts are refused.
func TestChoicesAndTheirTexts(t *testing.T) {
	type choice struct {
		texts []string
		parse func(string) (fmt.Stringer, error)
	}
	for name, c := range map[string]choice{
		"on disconnect": {[]string{"fence", "stop", "keep"}, func(s string) (fmt.Stringer, error) { return ParseOnDisconnect(s) }},
		"lost":          {[]string{"wait", "move"}, func(s string) (fmt.Stringer, error) { return ParseLostBundles(s) }},
		"socket":        {[]string{"namespace", "self", "none"}, func(s string) (fmt.Stringer, error) { return ParseSocket(s) }},
		"peers":         {NoPeers.Choices(), func(s string) (fmt.Stringer, error) { return ParsePeers(s) }},
	} {
		for i, text := range append([]string{""}, c.texts...) {
			want := c.texts[max(i-1, 0)]
			if got, err := c.parse(text); err != nil || got.String() != want {
				t.Errorf("%s: %q is %s, %v", name, text, got, err)
			}
		}
		for _, text := range []string{"x", "KEEP", " ", c.texts[0] + " "} {
			_, err := c.parse(text)
			refusal(t, err, name+": ", "is unknown: use "+c.texts[0])
		}
	}
	for p, want := range map[Peers][2]bool{NoPeers: {}, WholePeers: {true, false}, AnyPeers: {true, true}, RunningPeers: {false, true}} {
		if p.Listed() != want[0] || p.Followed() != want[1] {
			t.Errorf("%s: listed %t, followed %t", p, p.Listed(), p.Followed())
		}
	}
	for h, want := range map[Health]bool{"": true, Healthy: true, HealthStarting: false, Unhealthy: false} {
		if h.Usable() != want {
			t.Errorf("health %q: usable %t", h, h.Usable())
		}
	}
}

// TestNamespacesOfTasks checks the defaults and budgets that apply.
func TestNamespacesOfTasks(t *testing.T) {
	n := &Namespace{Defaults: NewRequests(map[string]Quantity{"cpu": 1, "memory": 2})}
	for _, c := range []struct {
		n    *Namespace
		r    Requests
		want string
	}{
		{nil, nil, ""}, {&Namespace{}, nil, ""}, {n, nil, "cpu memory"}, {n, Requests{{"cpu", 5}}, "memory"},
		{n, Requests{{"cpu", 5}, {"memory", 5}}, ""}, {n, Requests{{"gpu@r", 5}}, ""}, {n, Requests{{"cpu@r", 5}, {"memory", 1}}, ""},
	} {
		got := ""
		for i, x := range c.n.Missing(c.r) {
			got += []string{"", " "}[min(i, 1)] + x.Name
		}
		if got != c.want {
			t.Errorf("%v: missing %q, want %q", c.r, got, c.want)
		}
	}
	all := (*Namespace)(nil).Allowed()
	if all.Keys != DefaultKeys || all.Bytes != DefaultBytes || all.Pending != DefaultPending || all.Requests != DefaultRequests || all.Watches != DefaultWatches || all.Priority.Max != MaxPriority || all.NoAccumulate {
		t.Errorf("%+v", all)
	}
	set := (&Namespace{Budget: &Budget{Keys: 1, Priority: &Ceiling{}, NoAccumulate: true}}).Allowed()
	if set.Keys != 1 || set.Bytes != DefaultBytes || set.Priority.Max != 0 || !set.NoAccumulate {
		t.Errorf("%+v", set)
	}
	refusal(t, (&Namespace{Requests: Requests{{"a b:slots", 1}, {"admin:s/x", 1}, {"slots", 0}}, Quotas: []Quota{{"cpu", "admin:", -1}}, Pids: -1, Budget: &Budget{Priority: &Ceiling{MaxPriority + 1}},
		Policies: []NamespacePolicy{{"lab", true}, {":lab", false}, {"org:", false}, {"org:a/b", false}, {"org:" + strings.Repeat("x", 1000), true}}}).Validate(),
		`policies[0]: "lab" is no shared policy with its namespace: write it like org:lab`, "policies[1]: is empty", "policies[2]: is empty", "policies[3]: ", "policies[4]: ",
		"requests.a b:slots: ", "requests.admin:s/x: ", "requests.slots: 0 is not positive", "quotas[0].pool: is empty", "quotas[0].amount: -1", "pids: -1", "budget.priority: ")
}

// TestDefaultsOfNamespaces checks which resources may have a default.
func TestDefaultsOfNamespaces(t *testing.T) {
	if err := (&Namespace{Defaults: Requests{{"cpu", 1}, {"disk", 1}, {"memory", 1}}, Budget: &Budget{}}).Validate(); err != nil {
		t.Error(err)
	}
	refusal(t, (&Namespace{Defaults: Requests{{"gpu", 1}, {"cpu", 0}}}).Validate(), "defaults.gpu: only cpu, memory and disk have defaults", "defaults.cpu: 0 is not positive")
	refusal(t, (&Namespace{Defaults: Requests{{"cpu", 1}, {"disk", 1}, {"gpu", 1}, {"memory", 1}}}).Validate(), "defaults: has 4: at most 3 are allowed")
	refusal(t, (&Namespace{Requests: many(MaxRequests + 1), Quotas: make([]Quota, MaxQuotas+1), Policies: make([]NamespacePolicy, MaxPolicies+1)}).Validate(), "requests: has 101", "quotas: has ", "policies: has 65")
	if err := (&Namespace{Policies: []NamespacePolicy{{"org:lab", true}, {"a.b:c-d_e", false}}}).Validate(); err != nil {
		t.Error(err)
	}
}

// TestLaterIsNotShared checks that a change leaves tasks with the same Later alone.
func TestLaterIsNotShared(t *testing.T) {
	shared := &Later{Raised: 2, EvictReason: "x"}
	a, b, c := Task{Priority: 5, Later: shared}, Task{Priority: 5, Later: shared}, Task{Priority: 5}
	UpdateLater(&a, func(l *Later) { l.Raised, l.Collect = 3, &Collect{On: []string{"n1"}} })
	UpdateLater(&c, func(*Later) {})
	if a.Order() != 8 || b.Order() != 7 || c.Order() != 5 || c.Later != nil || b.Collect() != nil || c.Collect() != nil || a.Collect() == nil || a.EvictReason() != "x" || c.EvictReason() != "" {
		t.Errorf("%+v, %+v, %+v", a.Later, b.Later, c.Later)
	}
	if UpdateLater(&b, func(l *Later) { *l = Later{} }); b.Later != nil || *shared != (Later{Raised: 2, EvictReason: "x"}) {
		t.Errorf("%+v, %+v", b.Later, shared)
	}
	if r := (Reservation{Priority: -1, Raised: 3}); r.Order() != 2 {
		t.Error(r.Order())
	}
}

// TestHoldingsAtTheBound checks which further resources a full node takes, and the ports of a binding.
func TestHoldingsAtTheBound(t *testing.T) {
	var a Allocated
	for i := range MaxHeld - 1 {
		a.Holds = append(a.Holds, Holding{Resource: ResourceID(fmt.Sprintf("d:r%05d", i)), Amount: 1})
	}
	if a.Full("d:x") {
		t.Error("full with one resource less than may be held")
	}
	a.Take(Holding{Resource: "gpu", Amount: 1000, Devices: []DeviceShare{{"g0", 1000}}})
	if !a.Full("d:x") || a.Full("gpu") || a.Full("d:r00000") || a.Full("node/n1") || (*Allocated)(nil).Full("cpu") {
		t.Error("a full node takes a new resource, or refuses one that is held, or a placement")
	}
	if got := a.DevicesOf("gpu"); len(got) != 1 || a.DevicesOf("cpu") != nil || a.Of("cpu") != 0 {
		t.Errorf("%v", got)
	}
	a.Return(Holding{Resource: "cpu", Amount: 5})
	if a.Return(Holding{Resource: "gpu", Amount: 1000, Devices: []DeviceShare{{"g0", 1000}}}); a.Full("d:x") || len(a.Holds) != MaxHeld-1 {
		t.Errorf("%d are held", len(a.Holds))
	}
	// A resource stays while its amount or one of its devices is in use.
	var c Allocated
	c.Take(Holding{Resource: "cpu"})
	c.Take(Holding{Resource: "gpu", Devices: []DeviceShare{{"g0", 5}}})
	c.Take(Holding{Resource: "gpu", Amount: 3})
	c.Return(Holding{Resource: "gpu", Amount: 3})
	if c.Of("gpu") != 0 || len(c.DevicesOf("gpu")) != 1 || len(c.Holds) != 1 {
		t.Errorf("%+v", c.Holds)
	}
	c.Return(Holding{Resource: "gpu", Amount: -2, Devices: []DeviceShare{{"g0", 5}}})
	if c.Of("gpu") != 2 || len(c.DevicesOf("gpu")) != 0 {
		t.Errorf("%+v", c.Holds)
	}
	b := Binding{Holds: []Holding{{Resource: "cpu", Devices: []DeviceShare{{"7", 1000}}}, {Resource: "port", Devices: []DeviceShare{{"9000", 1000}, {"x", 1000}, {"80", 1000}}}, {Resource: "d:port@r", Devices: []DeviceShare{{"443", 1000}}}}}
	if got := b.Ports(); !slices.Equal(got, []int{80, 443, 9000}) || (&Binding{}).Ports() != nil {
		t.Errorf("ports %v", got)
	}
}
