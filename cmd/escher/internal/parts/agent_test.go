package parts

import (
	"testing"

	"github.com/escher-sched/escher/types"
)

func TestCapacity(t *testing.T) {
	machine, err := Capacity(nil)
	if err != nil {
		t.Fatal(err)
	}
	given, err := Capacity(types.NewRequests(map[string]types.Quantity{"cpu": 500, "gpu": 2000}))
	if err != nil {
		t.Fatal(err)
	}
	if machine.Get("cpu") < 1000 || machine.Get("memory") <= 0 || given.Get("cpu") != 500 || given.Get("memory") != machine.Get("memory") || given.Get("gpu") != 2000 {
		t.Errorf("the machine: %v, with amounts given: %v", machine, given)
	}
}
