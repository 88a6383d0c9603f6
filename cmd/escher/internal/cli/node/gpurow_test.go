package node

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/escher-sched/escher/controlplane/cluster"
	"github.com/escher-sched/escher/types"
)

// TestDeviceHolder names the holder of a share, and hides that of another namespace.
func TestDeviceHolder(t *testing.T) {
	for want, h := range map[string]deviceHolder{
		"another namespace":           {Share: 1000},
		"0.25 another namespace":      {Share: 250},
		"reservation d/gang":          {Namespace: "d", Reservation: "gang", Share: 1000},
		"d/train":                     {Namespace: "d", Task: "train", Share: 1000},
		"0.5 d/train (of gang)":       {Namespace: "d", Task: "train", Reservation: "gang", Share: 500},
		"2 d/train":                   {Namespace: "d", Task: "train", Share: 2000},
		"0.001 reservation d/smaller": {Namespace: "d", Reservation: "smaller", Share: 1},
	} {
		if got := h.String(); got != want {
			t.Errorf("%+v: %s, want %s", h, got, want)
		}
	}
	text, err := json.Marshal(deviceHolder{Namespace: "d", Task: "train", Share: 500})
	if want := `{"namespace":"d","task":"train","share":"0.5"}`; err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
}

// TestGPURow leaves out the memory and the NUMA node that a driver does not tell, and cuts UUIDs only.
func TestGPURow(t *testing.T) {
	now := time.Unix(1000, 0)
	for _, x := range []struct {
		device                      types.Device
		alive                       bool
		short, memory, numa, health string
	}{
		{
			types.Device{ID: "nvidia.com/gpu=GPU-f3a3c571-9a1c", MemoryBytes: 80 << 30, NUMA: 0}, true,
			"GPU-f3a3c571", "80Gi", "0", "ok",
		},
		{types.Device{ID: "nvidia.com/gpu=MIG-1", NUMA: -1}, false, "MIG-1", "", "", "its node is lost"},
		{types.Device{ID: "sim.example/gpu=a-long-name-of-a-gpu", NUMA: 1}, true, "a-long-name-of-a-gpu", "", "1", "ok"},
		{types.Device{ID: "v/c=g", NUMA: -1, Unhealthy: "ECC"}, false, "g", "", "", "unhealthy: ECC"},
		{
			types.Device{ID: "v/c=g", NUMA: -1, Unhealthy: "ECC", UnhealthySince: now.Add(-3 * time.Minute).UnixNano()}, true,
			"g", "", "", "unhealthy for 3m: ECC",
		},
	} {
		n := &cluster.Node{Name: "n1"}
		if x.alive {
			n.Alive.V = new(types.Alive)
		}
		row := newGPURow(n, x.device, []deviceHolder{{Share: 500}, {Namespace: "d", Task: "a", Share: 500}}, now)
		cells := make(map[string]string)
		for i, c := range row.Header() {
			cells[c.Name] = row.Row()[i]
		}
		if cells["device"] != x.short || cells["memory"] != x.memory || cells["numa"] != x.numa || cells["health"] != x.health {
			t.Errorf("%+v: %q", x.device, cells)
		}
		if cells["id"] != x.device.ID || !strings.Contains(cells["held by"], "0.5 another namespace, 0.5 d/a") {
			t.Errorf("%+v: %q", x.device, cells)
		}
	}
}
