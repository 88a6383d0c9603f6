package parts

import (
	"testing"

	"github.com/escher-sched/escher/types"
)

func TestCapacityIsShared(t *testing.T) {
	one, err := Capacity(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	four, err := Capacity(4, types.NewRequests(map[string]types.Quantity{"gpu": 2000}))
	if err != nil {
		t.Fatal(err)
	}
	if one.Get("cpu") < 1000 || four.Get("cpu") != one.Get("cpu")/4 || four.Get("memory") > one.Get("memory")/4 || four.Get("gpu") != 2000 {
		t.Errorf("one node: %v, each of four: %v", one, four)
	}
}
