package types

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestMatchesModel(t *testing.T) {
	const h100, a100, slice = "NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB MIG 1g.5gb"
	tests := []struct {
		model, wanted string
		want          bool
	}{
		{h100, "H100", true},
		{h100, "h100", true},
		{h100, "nvidia h100", true},
		{h100, "H100 HBM3", true},
		{h100, "H100-80GB", true},
		{h100, "HBM3 H100", false}, // the order matters
		{h100, "H10", false},
		{h100, "100", false},
		{h100, "H100 H100", false},
		{h100, h100, true},
		{a100, "A100", true},
		{a100, "a100-sxm4", true},
		{a100, "A100 40GB", true},
		{a100, "A10", false},
		{"NVIDIA A10", "A100", false},
		{"NVIDIA A10", "a10", true},
		{slice, "1g.5gb", true},
		{slice, "A100 MIG", true},
		{slice, "1g.10gb", false},
		{"NVIDIA GeForce RTX 4090", "RTX-4090", true},
		{"", "H100", false},
		{"Größe 7", "größe", true},
	}
	for _, tt := range tests {
		if got := MatchesModel(tt.model, tt.wanted); got != tt.want {
			t.Errorf("%q of %q: %t, want %t", tt.wanted, tt.model, got, tt.want)
		}
	}
	if n := testing.AllocsPerRun(10, func() { MatchesModel(h100, "h100 hbm3") }); n != 0 {
		t.Errorf("it allocates %v times: every search of the scheduler asks for every device", n)
	}
}

func TestDeviceRequestTakes(t *testing.T) {
	device := Device{Model: "NVIDIA H100 80GB HBM3", MemoryBytes: 80 << 30}
	for name, tt := range map[string]struct {
		r    DeviceRequest
		want bool
	}{
		"anything":     {DeviceRequest{}, true},
		"of two":       {DeviceRequest{Models: []string{"A100", "H100"}}, true},
		"of others":    {DeviceRequest{Models: []string{"A100", "L4"}}, false},
		"just enough":  {DeviceRequest{MinMemory: 80 << 30}, true},
		"a byte more":  {DeviceRequest{MinMemory: 80<<30 + 1}, false},
		"but too much": {DeviceRequest{Models: []string{"H100"}, MinMemory: 94 << 30}, false},
	} {
		if got := tt.r.Takes(&device); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

func TestDeviceRequestJoins(t *testing.T) {
	a, b, c := Device{Links: []string{"0", "1"}}, Device{Links: []string{"1", "2"}}, Device{NUMA: 1, Links: []string{"2"}}
	for _, tt := range []struct {
		topology Topology
		a, b     Device
		want     bool
	}{
		{AnyTopology, a, c, true},
		{LinkedDevices, a, b, true},
		{LinkedDevices, b, c, true},
		{LinkedDevices, a, c, false},
		{LinkedDevices, Device{}, Device{}, false},
		{OneNUMA, a, b, true},
		{OneNUMA, b, c, false},
		{OneNUMA, Device{NUMA: -1}, Device{NUMA: -1}, false},
		{"of a later version", a, b, false},
	} {
		r := DeviceRequest{Topology: tt.topology}
		if got := r.Joins(&tt.a, &tt.b); got != tt.want || r.Joins(&tt.b, &tt.a) != got {
			t.Errorf("%q: %v and %v: %t, want %t", tt.topology, tt.a, tt.b, got, tt.want)
		}
	}
}

func TestDeviceRequestInWords(t *testing.T) {
	r := DeviceRequest{Resource: "gpu", Models: []string{"H100", "A100"}, MinMemory: 40 << 30, Topology: LinkedDevices}
	if got, want := r.String(), "of model H100 or A100, with at least 40Gi memory, linked to one another"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	r = DeviceRequest{Topology: OneNUMA}
	if got, want := r.String(), "on one NUMA node"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestDeviceRequestAsJSON(t *testing.T) {
	b := Bundle{Requests: Requests{{Name: "gpu", Amount: 4000}}, Devices: []DeviceRequest{
		{Resource: "gpu", Models: []string{"H100"}, MinMemory: 40 << 30, Topology: LinkedDevices},
	}}
	const want = `{"requests":{"gpu":"4"},"devices":[{"resource":"gpu","model":["H100"],"minMemory":"40Gi","topology":"nvlink"}]}`
	text, err := json.Marshal(b)
	if err != nil || string(text) != want {
		t.Errorf("got %s, %v, want %s", text, err, want)
	}
	var back Bundle
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, b) {
		t.Errorf("came back as %+v, %v", back, err)
	}
	for _, text := range []string{`{"resource":"gpu","minMemory":"0"}`, `{"resource":"gpu","minMemory":"-1Gi"}`, `{"resource":"gpu","minMemory":"much"}`, `{"resource":7}`, `{"resource":"gpu","models":["H100"]}`} {
		if err := json.Unmarshal([]byte(text), new(DeviceRequest)); !Is(err, Invalid) {
			t.Errorf("%s: got %v, want an invalid one", text, err)
		}
	}
}

func TestValidateDevices(t *testing.T) {
	gpu := NewRequests(map[string]Quantity{"gpu": 4000})
	h100 := DeviceRequest{Resource: "gpu", Models: []string{"H100"}}
	with := func(edit func(r *DeviceRequest)) []DeviceRequest {
		r := h100
		edit(&r)
		return []DeviceRequest{r}
	}
	alternatives := []Alternative{{Requests: gpu}, {Requests: NewRequests(map[string]Quantity{"cpu": 1000})}}
	tests := map[string]struct {
		task Task
		want string // of the error; empty means valid
	}{
		"as it should be": {Task{Requests: gpu, Devices: []DeviceRequest{h100}}, ""},
		"of a domain": {Task{
			Requests: NewRequests(map[string]Quantity{"acme.com/fpga": 1000}),
			Devices:  with(func(r *DeviceRequest) { r.Resource = "acme.com/fpga" }),
		}, ""},
		"of a reservation": {Task{
			Requests: NewRequests(map[string]Quantity{"gpu@train": 1000}),
			Devices:  with(func(r *DeviceRequest) { r.Resource = "gpu@train" }),
		}, ""},
		"in every alternative": {Task{Alternatives: alternatives[:1], Devices: []DeviceRequest{h100}}, ""},
		"not in every alternative": {Task{Alternatives: alternatives, Devices: []DeviceRequest{h100}},
			`devices[0].resource: "gpu" is not requested in requests, nor in alternatives[1]: request it there, or leave this out`},
		"not requested": {Task{Devices: []DeviceRequest{h100}}, `devices[0].resource: "gpu" is not requested in requests`},
		"not of the reservation": {Task{Requests: gpu, Devices: with(func(r *DeviceRequest) { r.Resource = "gpu@train" })},
			`devices[0].resource: "gpu@train" is not requested`},
		"of memory":     {Task{Requests: gpu, Devices: with(func(r *DeviceRequest) { r.Resource = "memory" })}, `"memory" is not made of devices: name one`},
		"of a port":     {Task{Requests: gpu, Devices: with(func(r *DeviceRequest) { r.Resource = "port/80" })}, `"port/80" is not made of devices`},
		"of a place":    {Task{Requests: gpu, Devices: with(func(r *DeviceRequest) { r.Resource = "node/a" })}, `"node/a" is not made of devices`},
		"ephemeral":     {Task{Requests: gpu, Devices: with(func(r *DeviceRequest) { r.Resource = "x@train" })}, `"x@train" is not made of devices`},
		"of no name":    {Task{Requests: gpu, Devices: with(func(r *DeviceRequest) { r.Resource = "" })}, `devices[0].resource: is empty`},
		"nothing":       {Task{Requests: gpu, Devices: []DeviceRequest{{Resource: "gpu"}}}, `devices[0]: asks for nothing: give model, minMemory or topology`},
		"twice":         {Task{Requests: gpu, Devices: []DeviceRequest{h100, h100}}, `devices[1].resource: "gpu" is given twice: put all of it in one entry`},
		"empty model":   {Task{Requests: gpu, Devices: with(func(r *DeviceRequest) { r.Models = []string{""} })}, `devices[0].model[0]: "" has no word`},
		"no word":       {Task{Requests: gpu, Devices: with(func(r *DeviceRequest) { r.Models = []string{" - "} })}, `devices[0].model[0]: " - " has no word`},
		"a zero byte":   {Task{Requests: gpu, Devices: with(func(r *DeviceRequest) { r.Models = []string{"H\x00"} })}, `devices[0].model[0]: "H\x00" contains a zero byte`},
		"a long model":  {Task{Requests: gpu, Devices: with(func(r *DeviceRequest) { r.Models = []string{strings.Repeat("H", 101)} })}, `has 101 bytes: at most 100 are allowed`},
		"many models":   {Task{Requests: gpu, Devices: with(func(r *DeviceRequest) { r.Models = make([]string, 17) })}, `devices[0].model: has 17: at most 16 are allowed`},
		"less than no":  {Task{Requests: gpu, Devices: with(func(r *DeviceRequest) { r.MinMemory = -1 })}, `devices[0].minMemory: -1 bytes is not a size: give more than 0`},
		"odd topology":  {Task{Requests: gpu, Devices: with(func(r *DeviceRequest) { r.Topology = "ring" })}, `devices[0].topology: "ring" is unknown: use nvlink or numa, or leave it out`},
		"one that lies": {Task{Requests: gpu, Devices: with(func(r *DeviceRequest) { r.Topology = OneNUMA })}, ""},
	}
	for name, tt := range tests {
		switch err := tt.task.Validate(); {
		case tt.want == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.want != "" && (!Is(err, Invalid) || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: got %v, want %q", name, err, tt.want)
		}
	}
	r := Reservation{Bundles: []Bundle{{Requests: gpu}, {Requests: NewRequests(map[string]Quantity{"cpu": 1000}), Devices: []DeviceRequest{h100}}}}
	if err, want := r.Validate(), `bundles[1].devices[0].resource: "gpu" is not requested in bundles[1].requests: request it there`; !Is(err, Invalid) || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
}
