package cluster_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/escher-sched/escher/controlplane"
	"github.com/escher-sched/escher/types"
)

// TestReliedKeys checks that the absence of a pool is compared only where no key of a node, or of
// every node, proves it.
func TestReliedKeys(t *testing.T) {
	const former = 7 // an earlier session of the node
	res := func(session int64) *types.Resource { return &types.Resource{Capacity: 1000, NodeSession: session} }
	provider := &types.Binding{Provides: []types.Provide{{Name: "x", Amount: 1000, When: types.WhenBound}}}
	racks := &types.Resource{Capacity: 1000, Selector: &types.Selector{Labels: []types.Label{{Name: "rack", Value: "r2"}}}}
	key := func(where string) string { return controlplane.ResourceKey("d", "x", where) }
	binding, left := controlplane.BindingKey("n1", "d", "t", 1), controlplane.ProvidedKey("d", "x", "n1")
	type put struct {
		key string
		m   types.Message
	}
	for name, c := range map[string]struct {
		puts []put
		want []string
	}{
		"its own":                              {[]put{{key("n1"), res(0)}}, []string{"own"}},
		"its own, and what is provided":        {[]put{{key("n1"), res(0)}, {binding, provider}}, []string{"own", "binding"}},
		"of every node":                        {[]put{{key("+"), res(0)}}, []string{"no own", "every"}},
		"of every node and one before":         {[]put{{key("+"), res(0)}, {key("n1"), res(former)}}, []string{"own", "every"}},
		"of a session before, and provided":    {[]put{{key("n1"), res(former)}, {binding, provider}}, []string{"own", "binding"}},
		"provided":                             {[]put{{binding, provider}}, []string{"no own", "no pool", "binding"}},
		"provided, and on nodes of other kind": {[]put{{binding, provider}, {key("+"), racks}}, []string{"no own", "no pool", "binding"}},
		"left behind":                          {[]put{{left, &types.Provided{Amount: 1000}}}, []string{"no own", "no pool", "left"}},
		"cannot be read, and provided":         {[]put{{key("n1"), nil}, {binding, provider}}, []string{"own", "binding"}},
		"its own, on another node too":         {[]put{{key("n2"), res(0)}, {key("n1"), res(0)}}, []string{"own"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKeys(t)
			k.put(controlplane.NodeKey("n1"), &types.Node{Labels: []types.Label{{Name: "rack", Value: "r1"}}})
			names := map[string]string{
				key("n1"): "own", key("+"): "every", key("*"): "pool", binding: "binding", left: "left",
			}
			mods := make(map[string]int64)
			for _, p := range c.puts {
				if p.m != nil {
					k.put(p.key, p.m)
				} else {
					k.revision++
					if _, _, err := k.Apply(controlplane.Event{KV: controlplane.KV{Key: p.key, Value: []byte("nonsense"), ModRevision: k.revision}}); err == nil {
						t.Error("nonsense is read")
					}
				}
				mods[p.key] = k.revision
			}
			var got []string
			k.Relied(k.Nodes["n1"], "d:x", func(key string, mod int64) {
				if mod != mods[key] {
					t.Errorf("%s at %d, want %d", key, mod, mods[key])
				}
				if mod == 0 {
					got = append(got, "no "+names[key])
				} else {
					got = append(got, names[key])
				}
			})
			if !slices.Equal(got, c.want) {
				t.Errorf("relies on %s, want %s", strings.Join(got, ", "), strings.Join(c.want, ", "))
			}
		})
	}
}
