//go:build linux

package dev

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/types"
)

func TestPortsAreApart(t *testing.T) {
	for _, nodes := range []int{1, 3, 9, MaxNodes} {
		for _, dir := range []Dir{"", "/a", "/b", "/c"} {
			last := 19999
			for i := range nodes {
				p := Config{Nodes: nodes, Dir: dir}.ports(i)
				if p.First <= last || p.Last < p.First+99 || p.Last > 30000 {
					t.Errorf("node %d of %d in %q has %v, after %d", i, nodes, dir, p, last)
				}
				last = p.Last
			}
		}
	}
	if a, b := (Config{Nodes: 3, Dir: "/a"}).ports(0), (Config{Nodes: 3, Dir: "/b"}).ports(0); a == b {
		t.Errorf("clusters in two directories begin at the same port: %v", a)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for says, cfg := range map[string]Config{
		"nodes: 0":           {},
		"nodes: 101":         {Nodes: 101},
		"\"x\" is no":        {Nodes: 1, Labels: map[string][]types.Label{"x": nil}},
		"\"slot\" is not ph": {Nodes: 1, Capacity: types.NewRequests(map[string]types.Quantity{"slot": 1})},
	} {
		if err := cfg.Validate(); !types.Is(err, types.Invalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", says, err)
		}
	}
}

func TestClusterIDStays(t *testing.T) {
	dir := Dir(t.TempDir())
	first, err := dir.clusterID()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := dir.clusterID(); err != nil || again != first {
		t.Errorf("first %q, then %q, %v", first, again, err)
	}
	if _, err := dir.Info(); !types.Is(err, types.Unavailable) {
		t.Errorf("nothing runs here: %v", err)
	}
}
