package quotas_test

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/controlplane/memstore"
	"github.com/escher-sched/escher/controlplane/quotas"
	"github.com/escher-sched/escher/types"
)

// TestParse reads amounts and pools, and writes them as they were.
func TestParse(t *testing.T) {
	for text, want := range map[string]types.Quota{
		"gpu=16":           {Resource: "gpu", Pool: "quotas:lab.gpu", Amount: 16_000},
		"cpu=0.5":          {Resource: "cpu", Pool: "quotas:lab.cpu", Amount: 500},
		"memory=64Gi":      {Resource: "memory", Pool: "quotas:lab.memory", Amount: 64 << 30},
		"acme.com/fpga=0":  {Resource: "acme.com/fpga", Pool: "quotas:lab.acme.com.fpga"},
		"cpu=admin:cpus":   {Resource: "cpu", Pool: "admin:cpus"},
		"cpu=quotas:x.cpu": {}, "gpu=-1": {}, "gpu=inf": {}, "gpu=": {}, "gpu=many": {}, "memory=64": {},
		strings.Repeat("x", 60) + "=1": {},
	} {
		resource, amount, _ := strings.Cut(text, "=")
		q, err := quotas.Parse("lab", resource, amount)
		if bad := want == (types.Quota{}); bad != types.Is(err, types.Invalid) || !bad && (q != want || quotas.Text(q) != amount) {
			t.Errorf("%s: %+v, %v", text, q, err)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "quotas."+resource[:3]) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestPools makes the pools that the settings name, and removes those that they no longer name.
func TestPools(t *testing.T) {
	store := memstore.New()
	c, err := controlplane.New(store, "admin")
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	pools := func() string {
		kvs, _, err := controlplane.ListAll(ctx, store, controlplane.ListOptions{Prefix: controlplane.Prefix(controlplane.Resources)})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, kv := range kvs {
			var r types.Resource
			k, ok := controlplane.Parse(kv.Key)
			if !ok || !controlplane.Read(kv, &r) {
				t.Fatal(kv.Key)
			}
			all = append(all, k.Namespace+":"+k.Name+"="+r.Capacity.Format(types.CPU))
		}
		return strings.Join(all, " ")
	}
	of := func(texts ...string) (out types.Namespace) {
		for _, text := range texts {
			resource, amount, _ := strings.Cut(text, "=")
			q, err := quotas.Parse("lab", resource, amount)
			if err != nil {
				t.Fatal(err)
			}
			out.Quotas = append(out.Quotas, q)
		}
		return out
	}
	set := func(texts ...string) error {
		return quotas.Set(ctx, c, "lab", func(n *types.Namespace) error { *n = of(texts...); return nil })
	}
	if err := quotas.Create(ctx, c, "lab", of("gpu=16", "memory=admin:memory")); err != nil || pools() != "quotas:lab.gpu=16" {
		t.Errorf("%s, %v", pools(), err)
	}
	if err := set("gpu=16", "cpu=2"); err != nil || pools() != "quotas:lab.cpu=2 quotas:lab.gpu=16" {
		t.Errorf("%s, %v", pools(), err)
	}
	if err := quotas.Create(ctx, c, "lab", of("gpu=99")); !types.Is(err, types.AlreadyExists) || pools() != "quotas:lab.cpu=2 quotas:lab.gpu=16" {
		t.Errorf("a second one: %s, %v", pools(), err)
	}
	if err := set("cpu=0"); err != nil || pools() != "quotas:lab.cpu=0" {
		t.Errorf("less: %s, %v", pools(), err)
	}
	if err := quotas.Remove(ctx, c, "lab"); err != nil || pools() != "" {
		t.Errorf("after the removal: %s, %v", pools(), err)
	}
}
