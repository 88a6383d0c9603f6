package dev

import (
	"strings"
	"testing"

	"github.com/escher-sched/escher/types"
)

func TestCapacityIsShared(t *testing.T) {
	one, err := Config{Nodes: 1}.capacity()
	if err != nil {
		t.Fatal(err)
	}
	four, err := Config{Nodes: 4, Capacity: types.NewRequests(map[string]types.Quantity{"gpu": 2000})}.capacity()
	if err != nil {
		t.Fatal(err)
	}
	if one.Get("cpu") < 1000 || four.Get("cpu") != one.Get("cpu")/4 || four.Get("memory") > one.Get("memory")/4 || four.Get("gpu") != 2000 {
		t.Errorf("one node: %v, each of four: %v", one, four)
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
